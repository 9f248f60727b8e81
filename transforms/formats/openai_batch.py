"""Request files as for OpenAI's Batch API: in each line a chat completion that is to be asked for.

The columns are custom_id, system and text: the system message and the one user message. The body's model and
parameters are not used: the configuration has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from transforms.formats import jsonl
from transforms.formats.spans import Cut, InputFile, Located, Reading, Span, whole
from transforms.parse import BadRow, Parsed, identified

CUSTOM_ID = "custom_id"
URL = "/v1/chat/completions"
_LOOKED_AT = 100  # requests at a file's front
_COLUMNS = [CUSTOM_ID, "system", "text"]
_SYSTEM = {"system", "developer"}


def is_request(value: Any) -> bool:
    """Whether a JSON value is a line of such a file."""
    return isinstance(value, dict) and {CUSTOM_ID, "url", "body"} <= value.keys()


def columns(_item: InputFile, _reading: Reading) -> list[str]:
    """What a request becomes."""
    return list(_COLUMNS)


def split(item: InputFile, length: int, reading: Reading) -> Iterator[Span]:
    """Spans of lines."""
    return jsonl.split(item, length, reading)


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """A row for each request. One that is more than a system and a user message, both of text, is no record."""
    id_column = reading.id_in(span.format)
    for row in _requests(span, reading):
        if isinstance(row, Cut) or isinstance(row.found, BadRow):
            yield row
        else:
            yield Located(row.position, _record(row.found, id_column))


def bodies(item: InputFile, reading: Reading) -> Iterator[Mapping[str, Any]]:
    """The bodies of a file's first requests, without their messages."""
    for number, row in enumerate(_requests(whole(item), reading)):
        if number >= _LOOKED_AT:
            return
        body = row.found.fields.get("body") if isinstance(row, Located) and isinstance(row.found, Parsed) else None
        if isinstance(body, dict):
            yield {name: value for name, value in body.items() if name != "messages"}


def _requests(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    return jsonl.read(span, Reading(id_column=CUSTOM_ID, encoding=reading.encoding))


def _record(request: Parsed, id_column: str | None) -> Parsed | BadRow:
    value = request.fields
    if value.get("url") != URL:
        return BadRow("bad_record", f"a request to {value.get('url')!r}: {URL} is the only one that is read", value)
    body = value.get("body")
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        return BadRow("bad_record", "the request's body has no messages", value)
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    if roles[-1:] != ["user"] or len(roles) > 2 or (len(roles) == 2 and roles[0] not in _SYSTEM):
        shown = ", ".join(map(str, roles[:5])) + (", ..." if len(roles) > 5 else "")
        return BadRow(
            "bad_record",
            f"messages by {shown or 'nobody'}: one of a user, after one of the system or none, is read",
            value,
        )
    texts = [_text(message.get("content")) for message in messages]
    if None in texts:
        return BadRow(
            "bad_record", "a message that is not only text: those with images and the like are not read", value
        )
    fields = {CUSTOM_ID: value[CUSTOM_ID], "system": texts[0] if len(texts) == 2 else "", "text": texts[-1]}
    if id_column == CUSTOM_ID:
        return Parsed(request.id, fields)
    return identified(fields, id_column, fields.get(id_column or ""))


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(
        isinstance(part, dict) and part.get("type") == "text" for part in content
    ):
        return None
    parts = [part.get("text") for part in content]
    return "\n".join(parts) if all(isinstance(part, str) for part in parts) else None

"""What is read of one record to an id and fields, or the reason why it has none: from a line of JSONL on.

What JSON text allows and no later step survives is settled here, before an element exists: lone surrogates
become U+FFFD (they cannot be encoded), numbers that are not finite become null (no strict JSON holds them).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from transforms.records import Fields, content_id

REPLACEMENT = "\ufffd"
MAX_DEPTH = 100  # of lists and objects in one another: JSON's reader takes more than pickle and coders do

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUGE_NUMBER = re.compile(rb"[eE]\+?0*[1-9]\d\d|\d{210}")  # what a double may not hold and Python reads as inf


class BadRow(NamedTuple):
    """Why a line is no record. `fields` is what could be read all the same."""

    reason: str  # bad_record, bad_encoding or bad_id
    message: str
    fields: Any


class Parsed(NamedTuple):
    """A line that is a record."""

    id: str
    fields: Fields


def parse_json_line(line: bytes, id_column: str | None) -> Parsed | BadRow:
    """Parses one line, without its line end. The id is text exactly as in the file, an integer in decimal."""
    text = decoded(line)
    if isinstance(text, BadRow):
        return text
    try:
        fields = json.loads(text, parse_constant=_null)
    except (ValueError, RecursionError) as error:
        return BadRow("bad_record", f"not JSON: {error}", clean(text))
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _too_deep(fields):
        return BadRow("bad_record", f"nested more than {MAX_DEPTH} deep", clean(text))
    if not isinstance(fields, dict):
        return BadRow("bad_record", f"not a JSON object but {_kind(fields)}", clean(fields))
    identifier = fields.get(id_column) if id_column is not None else None  # before it is cleaned
    if _SURROGATE_ESCAPE.search(line) or _HUGE_NUMBER.search(line):
        fields = clean(fields)
    return identified(fields, id_column, identifier)


def decoded(line: bytes) -> str | BadRow:
    """The text of a line in UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte 0x{line[error.start]:02x} at byte {error.start} of the line"
        return BadRow("bad_encoding", message, line.decode(errors="replace"))


def is_clean(text: str) -> bool:
    """Whether there is no lone surrogate in `text`."""
    return text.isascii() or not _SURROGATE.search(text)


def replaced(text: str) -> str:
    """`text` with U+FFFD in the place of each lone surrogate."""
    return _SURROGATE.sub(REPLACEMENT, text)


def identified(fields: Fields, id_column: str | None, identifier: Any) -> Parsed | BadRow:
    """Fields that are clean, with their id: what stands in column `id_column` of the file, or a hash of them."""
    if id_column is None:
        return Parsed(content_id(fields), fields)
    if isinstance(identifier, str):
        if not identifier:
            return BadRow("bad_id", f"the id in column {id_column!r} is empty", fields)
        if not is_clean(identifier):
            return BadRow("bad_id", f"the id in column {id_column!r} holds a lone surrogate", fields)
        return Parsed(identifier, fields)
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        return Parsed(str(identifier), fields)
    if id_column not in fields:
        return BadRow("bad_id", f"there is no column {id_column!r}", fields)
    return bad_id(fields, id_column, _kind(identifier))


def bad_id(fields: Fields, id_column: str, kind: str) -> BadRow:
    """A row whose id is of a kind that ids are not."""
    return BadRow("bad_id", f"the id in column {id_column!r} is {kind}: ids are text or integers", fields)


def clean(value: Any) -> Any:
    """A JSON value without lone surrogates and without numbers that are not finite, at any depth."""
    if isinstance(value, str):
        return _SURROGATE.sub(REPLACEMENT, value)
    if isinstance(value, dict):
        return {_SURROGATE.sub(REPLACEMENT, key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for part in level
            if isinstance(part, (dict, list))
            for item in (part.values() if isinstance(part, dict) else part)
        ]
    return bool(level)


def _null(_constant: str) -> None:
    return None


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "a list"}
    return names.get(type(value), "an object")

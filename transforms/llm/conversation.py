"""A conversation that a column holds: a list of messages, sent as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

_SYSTEM = ("system", "developer")
_ROLES = {
    "anthropic": ("user", "assistant", *_SYSTEM),
    "openai": ("user", "assistant", "tool", *_SYSTEM),
}
_IMAGES = ("image_url", "image", "input_image")  # types of parts


class Conversation(NamedTuple):
    """`system` is what Anthropic wants apart from the messages; elsewhere it is empty and a message of its own."""

    system: str
    messages: list[dict[str, Any]]
    texts: list[str]
    images: int


def conversation(value: Any, column: str, provider: str) -> Conversation | None:
    """The conversation in a column's value, a list or the JSON text of one; None where it is null or empty.

    Only what every endpoint would refuse is looked for. Raises ValueError that names the column and the message.
    """
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(f"column {column!r} holds a text that is no JSON list of messages") from None
    if value is None or value == [] or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, list):
        raise ValueError(f"column {column!r} holds no list of messages")
    roles = _ROLES.get(provider, _ROLES["openai"])
    messages = [_message(each, f"column {column!r}, message {at}", roles) for at, each in enumerate(value, 1)]
    parts = [part for each in messages for part in _parts(each)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    images = sum(part.get("type") in _IMAGES for part in parts)
    system = ""
    if provider == "anthropic":
        system, messages = _apart(messages, column)
    if not any(each["role"] not in _SYSTEM for each in messages):
        raise ValueError(f"column {column!r} holds no message of a user")
    return Conversation(system, messages, texts, images)


def _message(value: Any, where: str, roles: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: is no object with role and content")
    role, content = value.get("role"), value.get("content")
    if role not in roles:
        raise ValueError(f"{where}: role must be one of {', '.join(roles)}, not {str(role)[:20]!r}")
    sound = isinstance(content, str) or (
        isinstance(content, list)
        and len(content) > 0
        and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content)
    )
    if not sound and not (role == "assistant" and content is None and value.get("tool_calls")):
        raise ValueError(f"{where}: content must be text, or a list of parts with a type each")
    # Files with typed columns have every key in every message: null is what was not there.
    return {key: each for key, each in value.items() if each is not None or key == "content"}


def _parts(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = message["content"]
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif content is not None:
        yield from content


def _apart(messages: list[dict[str, Any]], column: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of the system messages at the start, and the others."""
    start = next((at for at, each in enumerate(messages) if each["role"] not in _SYSTEM), len(messages))
    if any(each["role"] in _SYSTEM for each in messages[start:]):
        raise ValueError(f"column {column!r}: anthropic takes system messages at the start only")
    parts = [part for each in messages[:start] for part in _parts(each)]
    if not all(isinstance(part.get("text"), str) for part in parts):
        raise ValueError(f"column {column!r}: a system message must be text")
    return "\n\n".join(part["text"] for part in parts), messages[start:]

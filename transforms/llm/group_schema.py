"""The schema of an answer to several records: one object, with the answer to each record under its key."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}


def keys(records: int) -> list[str]:
    """The keys of so many records: "1", "2", ..."""
    return [str(number) for number in range(1, records + 1)]


def answer_schema(schema: dict[str, Any] | None, records: int) -> dict[str, Any] | None:
    """What a request about so many records asks for: of one, the task's `schema`; of several, all keys and no other,
    each with what `schema` says, or a text where that is None."""
    if records == 1:
        return schema
    each = _TEXT if schema is None else _inner(schema)
    definitions: dict[str, Any] = {}
    if schema is not None and _has_reference(schema):
        each, definitions = _referable(schema)
    names = keys(records)
    return {
        "type": "object",
        "properties": dict.fromkeys(names, each),
        "required": names,
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }


def _inner(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without what only the root of one has."""
    return {key: value for key, value in schema.items() if key not in ("$schema", "$id")}


def _referable(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A reference to `schema`, which is among the definitions that stand beside it: its own stay where they are, at
    the root, and what else its references lead to is where the schema is now."""
    own = schema.get("$defs", {})
    name = "record"
    while name in own:
        name += "_"
    place = f"#/$defs/{name}"
    record = {key: value for key, value in _inner(schema).items() if key != "$defs"}
    moved: dict[str, Any] = _moved({**own, name: record}, place)
    return {"$ref": place}, moved


def _moved(part: Any, place: str) -> Any:
    if isinstance(part, list):
        return [_moved(each, place) for each in part]
    if not isinstance(part, dict):
        return part
    moved = {key: _moved(value, place) for key, value in part.items()}
    target = part.get("$ref")
    if isinstance(target, str) and (target == "#" or (target.startswith("#/") and not target.startswith("#/$defs/"))):
        moved["$ref"] = place + target[1:]
    return moved


def _has_reference(part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(part.get("$ref"), str) or any(_has_reference(value) for value in part.values())
    return isinstance(part, list) and any(_has_reference(each) for each in part)

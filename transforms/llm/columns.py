"""From the schema of an answer to the columns of a result.

| JSON Schema                                              | column                                  |
|----------------------------------------------------------|-----------------------------------------|
| string; enum or const of strings                         | string                                  |
| integer, number, boolean                                 | int64, float64, bool                    |
| array with items                                         | list                                    |
| object with properties                                   | struct                                  |
| any of these or null, as ["string", "null"] or by anyOf  | the same; every column takes nulls      |
| a $ref to the schema's own $defs                         | what it refers to                       |
| anything else                                            | string that holds the value as JSON     |
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from transforms.llm.cells import JSON, SCALARS, Column, list_column, struct_column


def columns(schema: dict[str, Any]) -> dict[str, pa.DataType]:
    """The Arrow type of each property of an answer. Raises ValueError where `answer_columns` does."""
    return {name: column.type for name, column in answer_columns(schema).items()}


def answer_columns(schema: dict[str, Any]) -> dict[str, Column]:
    """The column of each property of an answer. Raises ValueError if the schema is not one of an object."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict) or not properties:
        raise ValueError("task.schema: must be an object with properties, which become columns")
    return {name: _column(each, schema, frozenset()) for name, each in properties.items()}


def _column(schema: Any, root: dict[str, Any], within: frozenset[str]) -> Column:
    """`within` are the $refs that lead to this schema: one that comes again has no end, and becomes JSON
    text."""
    schema, within = _plain(schema, root, within)
    if schema is None:
        return JSON
    kind = _kind(schema)
    if kind in SCALARS:
        return SCALARS[kind]
    if kind == "array" and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
        return list_column(_column(schema["items"], root, within))
    properties = schema.get("properties")
    if kind == "object" and isinstance(properties, dict) and properties:
        return struct_column({name: _column(each, root, within) for name, each in properties.items()})
    return JSON


def _kind(schema: dict[str, Any]) -> str:
    """The one type that values can have, null aside; empty if there are several or it is not said."""
    kinds = schema.get("type")
    if kinds is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        texts = [value for value in values if value is not None]
        return "string" if texts and all(isinstance(value, str) for value in texts) else ""
    named = {kinds} if isinstance(kinds, str) else set(kinds) - {"null"}
    if named == {"integer", "number"}:
        return "number"
    return str(named.pop()) if len(named) == 1 else ""


def _plain(schema: Any, root: dict[str, Any], within: frozenset[str]) -> tuple[Any, frozenset[str]]:
    """`schema` without what only wraps it: a local $ref (RFC 6901), or a choice between one schema and null.
    None if a $ref leads nowhere or back to itself."""
    while isinstance(schema, dict):
        reference = schema.get("$ref")
        if reference is not None:
            schema = None if reference in within else _referred(reference, root)
            within |= {str(reference)}
            continue
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or []
        others = [each for each in choices if each != {"type": "null"}]
        if len(others) != 1:
            return schema, within
        schema = others[0]
    return None, within


def _referred(reference: Any, root: dict[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    schema: Any = root
    for key in reference[2:].split("/"):
        key = key.replace("~1", "/").replace("~0", "~")
        schema = schema.get(key) if isinstance(schema, dict) else None
    return schema

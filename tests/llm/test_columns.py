"""From schemas to columns."""

from typing import Any

import pyarrow as pa
import pytest

from transforms.llm.cells import convert_fields
from transforms.llm.columns import answer_columns, columns


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("property", "expected"),
    [
        ({"type": "string"}, pa.string()),
        ({"type": "integer"}, pa.int64()),
        ({"type": "number"}, pa.float64()),
        ({"type": "boolean"}, pa.bool_()),
        ({"type": ["string", "null"]}, pa.string()),
        ({"type": ["null", "integer"]}, pa.int64()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"enum": ["a", "b"]}, pa.string()),
        ({"enum": ["a", None]}, pa.string()),
        ({"const": "a"}, pa.string()),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64()),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.int64())),
        ({"type": "array", "items": {"$ref": "#/$defs/Kind"}}, pa.list_(pa.string())),
        ({"allOf": [{"$ref": "#/$defs/Kind"}], "description": "d"}, pa.string()),
        (schema(a={"type": "number"}, b={}), pa.struct([("a", pa.float64()), ("b", pa.string())])),
        # anything else is JSON text
        ({}, pa.string()),
        (True, pa.string()),
        ({"type": "array"}, pa.string()),
        ({"type": "object"}, pa.string()),
        ({"type": ["string", "integer"]}, pa.string()),
        ({"enum": [1, "a"]}, pa.string()),
        ({"$ref": "#/$defs/Gone"}, pa.string()),
        ({"$ref": "https://elsewhere/"}, pa.string()),
    ],
)
def test_types(property: Any, expected: pa.DataType) -> None:
    whole = {**schema(x=property), "$defs": {"Kind": {"enum": ["a", "b"]}}}
    assert columns(whole) == {"x": expected}


def test_a_schema_that_refers_to_itself_becomes_json_there() -> None:
    again = {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}
    tree = schema(name={"type": "string"}, left=again, right=again)
    found = columns({**schema(tree={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": tree}})
    texts = [(name, pa.string()) for name in ("name", "left", "right")]
    assert found == {"tree": pa.struct(texts)}
    endless = {**schema(x={"$ref": "#/$defs/X"}), "$defs": {"X": {"$ref": "#/$defs/X"}}}
    assert columns(endless) == {"x": pa.string()}


@pytest.mark.parametrize(
    "bad",
    [{}, {"type": "string"}, {"type": "object"}, {"type": "object", "properties": {}}, {"properties": 1}],
)
def test_only_objects_with_properties(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"task\.schema"):
        columns(bad)


@pytest.mark.parametrize(
    ("property", "value", "stored"),
    [
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, 2**63 - 1, 2**63 - 1),
        ({"type": "number"}, 3, 3.0),
        ({"type": "number"}, 10**30, 1e30),
        ({"type": ["string", "null"]}, None, None),
        ({"type": "string"}, "\ud83d!", "\ufffd!"),
        ({}, {"b": [1, "é"], "a": None}, '{"a":null,"b":[1,"é"]}'),
        ({}, "text", '"text"'),
        ({}, None, None),
        ({"type": "array", "items": {"type": "number"}}, [1, None], [1.0, None]),
        (schema(a={"type": "integer"}, b={"type": "string"}), {"a": 1, "c": 2}, {"a": 1, "b": None}),
    ],
)
def test_values_fit_their_column(property: Any, value: Any, stored: Any) -> None:
    fields = answer_columns(schema(x=property))
    assert convert_fields(fields, {"x": value}) == {"x": stored}
    assert type(convert_fields(fields, {"x": value})["x"]) is type(stored)
    pa.array([stored], fields["x"].type)  # does not raise


@pytest.mark.parametrize(
    ("property", "value"),
    [
        ({"type": "integer"}, 10**30),
        ({"type": "integer"}, -(2**63) - 1),
        ({"type": "integer"}, 1e300),
        ({"type": "integer"}, True),
        ({"type": "number"}, 10**400),
        ({"type": "number"}, False),
        ({"type": "string"}, 1),
        ({"type": "boolean"}, 1),
        ({"type": "array", "items": {"type": "integer"}}, {"a": 1}),
        ({"type": "array", "items": {"type": "integer"}}, [10**30]),
        (schema(a={"type": "integer"}), [1]),
    ],
)
def test_values_that_do_not_fit(property: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^x: "):
        convert_fields(answer_columns(schema(x=property)), {"x": value})

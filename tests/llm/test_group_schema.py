"""The schema of an answer to several records."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from transforms.llm.group_schema import answer_schema

LABEL = {
    "type": "object",
    "properties": {"label": {"enum": ["a", "b"]}},
    "required": ["label"],
    "additionalProperties": False,
}


def test_of_one_record_it_is_the_tasks() -> None:
    assert answer_schema(LABEL, 1) is LABEL
    assert answer_schema(None, 1) is None


def test_of_several_it_demands_all_keys_and_no_other() -> None:
    found = answer_schema({"$schema": "https://json-schema.org/draft/2020-12/schema", **LABEL}, 2)
    assert found == {
        "type": "object",
        "properties": {"1": LABEL, "2": LABEL},
        "required": ["1", "2"],
        "additionalProperties": False,
    }


def test_texts() -> None:
    found = answer_schema(None, 11)
    assert found is not None
    assert list(found["properties"]) == found["required"] == [str(number) for number in range(1, 12)]
    assert found["properties"]["11"] == {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {
                "type": "object",
                "properties": {"tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
                "$defs": {"tag": {"enum": ["x"]}, "record": {}},
            },
            {"tags": ["x"]},
            {"tags": ["y"]},
        ),
        (
            {"type": "object", "properties": {"name": {"type": "string"}, "parts": {"items": {"$ref": "#"}}}},
            {"name": "a", "parts": [{"name": "b"}]},
            {"name": "a", "parts": [{"name": 1}]},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
            {"a": 1, "b": 2},
            {"a": 1, "b": "2"},
        ),
    ],
)
def test_references_lead_where_they_led(schema: dict[str, Any], good: Any, bad: Any) -> None:
    found = answer_schema(schema, 2)
    assert found is not None
    Draft202012Validator.check_schema(found)
    validator = Draft202012Validator(found)
    assert validator.is_valid({"1": good, "2": good})
    assert not validator.is_valid({"1": good, "2": bad})

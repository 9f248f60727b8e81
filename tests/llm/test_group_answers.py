"""An answer to several records, taken apart."""

from typing import Any

import pytest

from transforms.llm.completion import Completion
from transforms.llm.errors import RowError
from transforms.llm.group_answers import GroupParser, Piece

SCHEMA = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}


def parse(text: str | None, records: int = 3, schema: Any = SCHEMA, **more: Any) -> list[str]:
    """For each record its text, or the reason why there is none."""
    pieces, _unwrapped = GroupParser(schema).parse(Completion(text, finish_reason="stop")._replace(**more), records)
    return [piece.text if isinstance(piece, Piece) else piece.reason for piece in pieces]


def test_each_record_has_what_stands_under_its_key() -> None:
    text = '{"3": {"label": "a"}, "1": {"label": "b"}, "2": {"label": "a"}}'
    pieces, unwrapped = GroupParser(SCHEMA).parse(Completion(f"```json\n{text}\n```"), 3)
    assert pieces == [
        Piece({"label": "b"}, '{"label": "b"}'),
        Piece({"label": "a"}, '{"label": "a"}'),
        Piece({"label": "a"}, '{"label": "a"}'),
    ]
    assert unwrapped


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ('{"1": {"label": "a"}, "3": {"label": "a"}}', ["", "schema_mismatch", ""]),
        ('{"1": {"label": "a"}, "2": {"label": "c"}, "3": {"label": "a"}}', ["", "schema_mismatch", ""]),
        ('{"1": {"label": "a"}, "2": "a", "3": null}', ["", "schema_mismatch", "schema_mismatch"]),
        # Which of the two is the answer to 1, nobody knows.
        (
            '{"1": {"label": "a"}, "1": {"label": "b"}, "2": {"label": "a"}, "3": {"label": "a"}}',
            ["invalid_json", "", ""],
        ),
        ('{"1": {"label": "a"}, "2": {"label": "a", "label": "b"}, "3": {"label": "b"}}', ["", "invalid_json", ""]),
        (
            '{"1": {"label": "a"}, "2": {"label": "a", "x": [{"y": 1, "y": 1}]}, "3": {"label": "b"}}',
            ["", "invalid_json", ""],
        ),
        ("{}", ["schema_mismatch"] * 3),
    ],
)
def test_one_record_that_is_wrong_touches_no_other(text: str, reasons: list[str]) -> None:
    found = parse(text)
    assert [reason if reason else '{"label":' for reason in reasons] == [each.split(" ")[0] for each in found]


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        ('{"0": {"label": "a"}, "1": {"label": "a"}, "2": {"label": "b"}}', {}, "schema_mismatch"),  # from 0 on
        ('[{"label": "a"}]', {}, "schema_mismatch"),
        ('{"1": {"label": "a"}, "2": {"lab', {}, "invalid_json"),
        ('{"1": {"label": "a"}, "2": NaN, "3": 1}', {}, "invalid_json"),
        ('{"1": {"label": "a"}', {"finish_reason": "length"}, "truncated"),
        ('{"1": {"label": "a"}', {"finish_reason": "content_filter"}, "content_filter"),
        (None, {"refusal": "no"}, "refusal"),
        (" ", {}, "empty_output"),
    ],
)
def test_an_answer_that_says_nothing_of_any(text: str | None, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowError) as caught:
        parse(text, **more)
    assert caught.value.reason == reason
    assert caught.value.completion is not None


def test_texts() -> None:
    found = parse('{"1": "good\\n", "2": "", "3": {"a": 1}}', schema=None)
    assert found == ["good\n", "empty_output", "schema_mismatch"]
    assert parse('{"1": "\\ud800", "2": "x", "3": "x"}', schema=None)[0] == "\ufffd"

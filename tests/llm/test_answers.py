"""Which answers count."""

import socket
from typing import Any

import pytest

from transforms.llm.answers import AnswerParser, Parsed
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import RowError

LABEL = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "why": {"type": "string"}, "score": {"type": "number"}},
}


def rejected(parser: AnswerParser, completion: Completion) -> RowError:
    with pytest.raises(RowError) as caught:
        parser.parse(completion)
    assert caught.value.completion is completion
    assert not caught.value.retryable
    return caught.value


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('{"label": "a"}', "a"),
        (' \n{"label": "a"}\r\n', "a"),
        ('```json\n{"label": "a"}\n```', "a"),
        ('```\n{"label": "a"}\n```\n', "a"),
        ('```json {"label": "a"}```', "a"),
        ('<think>\nmaybe {"label": "draft"}\n</think>\n{"label": "b"}', "b"),
        ('maybe {"label": "draft"}\n</think>\n{"label": "b"}', "b"),
        ('<think></think>```json\n{"label": "b"}\n```', "b"),
        ('<think>```json\n{"label": "draft"}\n```</think>{"label": "b"}', "b"),
        ('{"label": "<think> and </think> and ```"}', "<think> and </think> and ```"),
        ('```json\n{"label": "</think>{}"}\n```', "</think>{}"),
        ('```json\n{"label": "```json\\n{}\\n```"}\n```', "```json\n{}\n```"),
        ('<think>x</think>{"label": "</think>"}', "</think>"),
        ('{"label": "\\ud83d"}', "\ufffd"),
        ('{"label": "\\ud83d\\ude00"}', "😀"),
    ],
)
def test_json_is_found(text: str, label: str) -> None:
    parsed = AnswerParser(LABEL).parse(Completion(text, finish_reason="stop"))
    assert parsed.values == {"label": label, "why": None, "score": None}
    assert parsed.unwrapped == text.startswith(("```", "<think>", "maybe"))


@pytest.mark.parametrize(
    "text",
    [
        'Sure! Here it is:\n{"label": "d"}\nHope that helps.',
        '{"label": "e1"}\n{"label": "e2"}',
        '```json\n{"label": "e1"}\n```\n```json\n{"label": "e2"}\n```',
        "```json\n```",
        '```json\n{"label": "a"}',
        '<think>only thoughts {"label": "a"}',
        '<think>a</think><think>b</think>{"label": "a"}',
        '{"label": "a",}',
        '{"label": "text"\n "why": "YES"}',
        '{"label": "sent to the "boss", waiting"}',
        '{"label": "x", "label": "y"}',
        '{"why": {"a": 1, "a": 1}}',
        '{"score": NaN}',
        '{"score": -Infinity}',
        '{"score": 1e999}',
        '{"score": ' + "9" * 5000 + "}",
        "{'label': 'a'}",
        "[" * 100_000,
        "positive",
    ],
)
def test_json_that_is_none(text: str) -> None:
    assert rejected(AnswerParser(LABEL), Completion(text)).reason == "invalid_json"


def test_what_is_wrong_with_the_json_is_said_of_the_text_itself() -> None:
    assert "twice" in rejected(AnswerParser(LABEL), Completion('{"label": "x", "label": "y"}')).message
    assert "NaN" in rejected(AnswerParser(LABEL), Completion('{"score": NaN}')).message


@pytest.mark.parametrize("schema", [None, LABEL])
@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        (Completion('{"label": "a"}', finish_reason="content_filter"), "content_filter"),
        (Completion(None, refusal="I cannot", finish_reason="stop"), "refusal"),
        (Completion('{"label": "a"}', finish_reason="length"), "truncated"),
        (Completion('{"label": "a"}', finish_reason="max_tokens"), "truncated"),
        (Completion(None, finish_reason="stop"), "empty_output"),
        (Completion("", finish_reason=None), "empty_output"),
        (Completion(" \n", finish_reason="stop"), "empty_output"),
        (Completion(None, finish_reason="tool_calls"), "no_text"),
        (Completion(None, finish_reason="stop", tool_calls=True), "no_text"),
    ],
)
def test_answers_that_are_none(schema: Any, completion: Completion, reason: str) -> None:
    assert rejected(AnswerParser(schema), completion).reason == reason


@pytest.mark.parametrize("text", ["", None, " ", "<think>\nlong thoughts", "thoughts\n</think>\n"])
def test_reasoning_that_used_up_the_tokens_is_named(text: str | None) -> None:
    error = rejected(AnswerParser(None), Completion(text, finish_reason="length"))
    assert error.reason == "truncated"
    assert "reasoning" in error.message


def test_how_much_was_reasoning_is_said_where_it_is_known() -> None:
    usage = Usage(27, 200, reasoning_tokens=200)
    for finish in ("length", "stop"):
        error = rejected(AnswerParser(None), Completion("", finish_reason=finish, usage=usage))
        assert "(200 of 200 completion tokens)" in error.message


def test_an_answer_that_began_was_not_used_up_by_reasoning() -> None:
    error = rejected(AnswerParser(None), Completion("<think>a</think>{", finish_reason="length"))
    assert "before the answer ended" in error.message


def test_what_a_filter_found_is_named() -> None:
    error = rejected(AnswerParser(None), Completion("a", finish_reason="content_filter", filtered="hate/high"))
    assert error.message == "the answer was cut by the provider's content filter (hate/high)"


@pytest.mark.parametrize("finish", ["length", "max_tokens"])
def test_a_text_that_was_cut_can_be_kept(finish: str) -> None:
    parser = AnswerParser(None, keep_truncated=True)
    assert parser.parse(Completion("half a", finish_reason=finish)) == Parsed({}, truncated=True)
    assert parser.parse(Completion("whole", finish_reason="stop")) == Parsed({})
    for text in ("", None, "<think>only thoughts"):  # nothing is there to be kept
        assert rejected(parser, Completion(text, finish_reason=finish)).reason == "truncated"


def test_without_a_schema_the_text_is_the_answer() -> None:
    assert AnswerParser(None).parse(Completion("any text {", finish_reason="stop")) == Parsed({})


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({"label": {"enum": ["a", "b"]}}, '{"label": "c"}', "$.label: 'c' is not one of ['a', 'b']"),
        ({"n": {"type": "integer"}}, '{"n": "1"}', "$.n: '1' is not of type 'integer'"),
        ({"n": {"type": "integer"}}, '{"n": 1000000000000000000000}', "$.n: not a 64-bit integer"),
        ({"n": {"type": "integer"}}, "[]", "$: [] is not of type 'object'"),
        ({"n": {"type": "integer"}}, "null", "$: None is not of type 'object'"),
    ],
)
def test_answers_that_the_schema_does_not_allow(schema: Any, text: str, message: str) -> None:
    error = rejected(AnswerParser({"type": "object", "properties": schema}), Completion(text))
    assert (error.reason, error.message) == ("schema_mismatch", message)


def test_required_properties() -> None:
    parser = AnswerParser({**LABEL, "required": ["label"]})
    assert rejected(parser, Completion("{}")).reason == "schema_mismatch"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "text"}}},
            r"task\.schema\.properties\.a\.type: 'text'",
        ),
        ({"type": "object", "properties": {"a": {"enum": "x"}}}, r"task\.schema\.properties\.a\.enum"),
        ({"type": "object", "properties": {"a": {"anyOf": 5}}}, r"task\.schema\.properties\.a\.anyOf"),
        ({"type": "object", "properties": {"a": {"$ref": {}}}}, r"task\.schema\.properties\.a\['\$ref'\]"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, r"task\.schema\.properties\.a\.pattern"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}, r"task\.schema: \$ref"),
        ({"type": "array", "items": {}}, r"task\.schema: must be an object"),
    ],
)
def test_a_schema_that_cannot_be_used(schema: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AnswerParser(schema)


def test_a_schema_elsewhere_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("went to the network")

    monkeypatch.setattr(socket, "create_connection", connect)
    schema = {"type": "object", "properties": {"a": {"$ref": "https://schemas.invalid/a"}}}
    with pytest.raises(ValueError, match=r"task\.schema: .*https://schemas\.invalid/a"):
        AnswerParser(schema)

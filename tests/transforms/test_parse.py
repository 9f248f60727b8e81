"""One line of JSONL to an id and fields, or to the reason why not."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transforms.parse import MAX_DEPTH, BadRow, Parsed, parse_json_line
from transforms.records import canonical_json, content_id

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),  # surrogates included
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


def parse(line: str, id_column: str | None = "id") -> Parsed | BadRow:
    return parse_json_line(line.encode(), id_column)


def reason(line: str, id_column: str | None = "id") -> str:
    found = parse(line, id_column)
    assert isinstance(found, BadRow), found
    return found.reason


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize(
    ("written", "identifier"),
    [
        ('"a"', "a"),
        ('" pad "', " pad "),
        ('"pad"', "pad"),
        ('"=cmd()"', "=cmd()"),
        ('"../../etc/x"', "../../etc/x"),
        ('"two\\nlines"', "two\nlines"),
        ('"k\\u0000"', "k\0"),
        ('"caf\\u00e9"', "caf\u00e9"),
        ('"cafe\\u0301"', "cafe\u0301"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("0", "0"),
        ("-7", "-7"),
        ("7", "7"),
        ("9007199254740993", "9007199254740993"),
        ("1" + "0" * 100, "1" + "0" * 100),
    ],
)
def test_ids_are_the_characters_of_the_file(written: str, identifier: str) -> None:
    found = parse(f'{{"id": {written}, "text": "x"}}')
    assert isinstance(found, Parsed)
    assert found.id == identifier
    assert found.fields["text"] == "x"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1.0", "a float"),
        ("1e3", "a float"),
        ("NaN", "null"),
        ("1e999", "a float"),
        ("-Infinity", "null"),
        ("true", "a boolean"),
        ("null", "null"),
        ("[]", "a list"),
        ("{}", "an object"),
        ('""', "is empty"),
        ('"id-\\ud800"', "lone surrogate"),
    ],
)
def test_bad_ids(written: str, said: str) -> None:
    found = parse(f'{{"id": {written}, "text": "x"}}')
    assert isinstance(found, BadRow)
    assert found.reason == "bad_id"
    assert said in found.message
    assert found.fields["text"] == "x"
    canonical_json(found.fields).encode()  # fit for a failure row


def test_a_missing_id_column_is_named() -> None:
    found = parse('{"key": 1}')
    assert isinstance(found, BadRow)
    assert found[:2] == ("bad_id", "there is no column 'id'")


def test_lone_surrogates_become_replacement_characters_at_any_depth() -> None:
    found = parse('{"id": "a", "t": "cut \\ud83d", "deep": [{"\\udcb0k": "\\udcb0 tail"}], "pair": "\\ud83d\\ude00"}')
    assert found == Parsed(
        "a", {"id": "a", "t": "cut \ufffd", "deep": [{"\ufffdk": "\ufffd tail"}], "pair": "\U0001f600"}
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e0400", "1" + "0" * 309 + ".5"])
def test_numbers_that_are_not_finite_become_null(number: str) -> None:
    assert parse(f'{{"id": "a", "x": [{number}, 1.5]}}') == Parsed("a", {"id": "a", "x": [None, 1.5]})


@given(
    digits=st.text("19", min_size=1, max_size=400),
    fraction=st.integers(0, 30),
    exponent=st.none() | st.integers(-400, 400),
    sign=st.sampled_from(["e", "E", "e+", "E+0", "e00"]),
)
@example(digits="9" * 209, fraction=0, exponent=99, sign="e")
@example(digits="9" * 210, fraction=0, exponent=99, sign="e")
@example(digits="1" * 300, fraction=2, exponent=9, sign="E")
@example(digits="1", fraction=0, exponent=309, sign="E+0")
def test_whatever_a_number_looks_like_it_is_finite(digits: str, fraction: int, exponent: int | None, sign: str) -> None:
    number = digits + ("." + "1" * fraction if fraction else "")
    if exponent is not None:
        number += f"{sign}{exponent}" if exponent >= 0 else f"{sign[0]}{exponent}"
    found = parse(f'{{"id": "a", "x": {number}}}')
    assert isinstance(found, Parsed)
    value = found.fields["x"]
    expected = json.loads(number)
    assert value == (None if isinstance(expected, float) and math.isinf(expected) else expected)


def test_big_integers_stay_whole() -> None:
    number = 10**200 + 1
    assert parse(f'{{"id": "a", "x": {number}}}') == Parsed("a", {"id": "a", "x": number})


def test_an_integer_that_python_refuses_to_read_is_a_bad_record() -> None:
    assert reason('{"id": "a", "x": ' + "9" * 5000 + "}") == "bad_record"


@pytest.mark.parametrize("line", ["{", '{"id": "a"} x', "", '{"id": "a",}', "{'id': 'a'}", "a,b", '{"id": "a'])
def test_what_is_no_json(line: str) -> None:
    assert reason(line) == "bad_record"


@pytest.mark.parametrize(
    ("line", "said"),
    [("[1]", "a list"), ('"text"', "a string"), ("1", "an integer"), ("null", "null"), ("true", "a boolean")],
)
def test_what_is_json_but_no_object(line: str, said: str) -> None:
    found = parse(line)
    assert found == BadRow("bad_record", f"not a JSON object but {said}", json.loads(line))


def test_what_is_kept_of_a_line_that_is_no_object_is_clean() -> None:
    assert parse('["cut \\ud83d", 1e999]') == BadRow("bad_record", "not a JSON object but a list", ["cut \ufffd", None])


def test_bytes_that_are_not_utf8_name_the_place() -> None:
    found = parse_json_line(b'{"id": "a", "t": "caf\xe9"}', "id")
    assert isinstance(found, BadRow)
    assert found.reason == "bad_encoding"
    assert found.message == "not UTF-8: byte 0xe9 at byte 21 of the line"
    assert found.fields == '{"id": "a", "t": "caf\ufffd"}'


def test_surrogates_encoded_as_utf8_are_bad_encoding() -> None:
    assert reason_of_bytes(b'{"id": "a", "t": "\xed\xa0\x80"}') == "bad_encoding"


def reason_of_bytes(line: bytes) -> str:
    found = parse_json_line(line, "id")
    assert isinstance(found, BadRow)
    return found.reason


@pytest.mark.parametrize("text", ["x", "\\ud83d"])
@pytest.mark.parametrize("id_column", ["id", None])
@pytest.mark.parametrize(
    ("depth", "fits"),
    [(MAX_DEPTH - 1, True), (MAX_DEPTH, False), (600, False), (100_000, False)],
)
def test_nesting_has_a_limit_below_that_of_later_steps(
    depth: int, fits: bool, id_column: str | None, text: str
) -> None:
    found = parse(f'{{"id": "a", "t": "{text}", "x": {"[" * depth}1{"]" * depth}}}', id_column)
    assert isinstance(found, Parsed if fits else BadRow)
    if isinstance(found, BadRow):
        assert found.reason == "bad_record"


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert isinstance(parse(json.dumps({"id": "a", "x": [[]] * 1000, "t": "[" * 1000})), Parsed)


class TestWithoutIdColumn:
    def test_the_id_is_a_hash_of_the_content(self) -> None:
        found = parse('{"b": 1, "a": "\u00e9"}', None)
        assert isinstance(found, Parsed)
        assert found.id == content_id({"a": "\u00e9", "b": 1}) == "bca252ac1b47464aee081f73d65d1904"

    def test_order_of_keys_spaces_and_escapes_do_not_count(self) -> None:
        lines = ['{"a":1,"b":{"c":2,"d":"\u00e9"}}', '{ "b": {"d": "\\u00e9", "c": 2}, "a": 1 }']
        assert len({parse(line, None)[0] for line in lines}) == 1

    def test_values_and_their_types_count(self) -> None:
        lines = ['{"a":1}', '{"a":"1"}', '{"a":1.0}', '{"a":true}', '{"a":null}', '{"b":1}', '{"a":[1]}', "{}"]
        assert len({parse(line, None)[0] for line in lines}) == len(lines)

    def test_a_column_named_id_is_content_like_any_other(self) -> None:
        found = parse('{"id": 1.5}', None)
        assert isinstance(found, Parsed)
        assert found.fields == {"id": 1.5}


@given(st.dictionaries(st.text(st.characters()), JSON_VALUES, max_size=5), st.booleans())
def test_what_is_parsed_can_be_written_as_strict_json(fields: dict[str, Any], ascii_only: bool) -> None:
    line = json.dumps(fields, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    found = parse_json_line(line, None)
    if isinstance(found, BadRow):
        assert found.reason == "bad_encoding"  # lone surrogates, unescaped
    text = canonical_json(found.fields)
    assert json.loads(text.encode()) == found.fields


@given(JSON_VALUES)
def test_any_json_value_as_a_line(value: Any) -> None:
    found = parse_json_line(json.dumps(value).encode(), "id")
    canonical_json(found.fields).encode()
    for leaf in leaves(found.fields):
        assert leaf == leaf  # no NaN
        assert leaf not in (math.inf, -math.inf)


@given(st.binary(max_size=80))
def test_no_line_raises(line: bytes) -> None:
    canonical_json(parse_json_line(line, "id").fields).encode()

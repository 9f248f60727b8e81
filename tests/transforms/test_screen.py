"""What is set aside before anything is paid. Repeats are tested with the plan."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from transforms.read import DEAD_LETTER
from transforms.records import Record
from transforms.rows import ARROW_TYPES
from transforms.screen import Rules, Screen, ScreenContent, misfit
from transforms.settings import Input, Model, Task
from transforms.shards import ParquetWriter

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | FINITE | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=5
)


def rules(**changes: Any) -> Rules:
    input = {"path": "x", "max_chars": 10, "text": changes.pop("text_column", None)}
    if changes.pop("truncate", False):
        input["on_oversized"] = "truncate"
    columns, provider = changes.pop("columns", {}), changes.pop("provider", "openai")
    if "messages" not in changes:
        changes = {"prompt": "About: {text}", **changes}
    return Rules(Task(**changes), Input(**input), Model(provider=provider, name="m"), columns)


def check(record: Record, **changes: Any) -> Record | tuple[str, str]:
    return Screen(rules(**changes)).check(record)


class TestEmpty:
    @pytest.mark.parametrize("text", ["", " \t\n", "\u00a0\u2003", None])
    def test_nothing_to_ask_about(self, make: Any, text: str | None) -> None:
        assert check(make.record(text=text)) == ("empty_input", "nothing in text")

    def test_a_missing_column_is_empty(self, make: Any) -> None:
        assert check(make.record()) == ("empty_input", "nothing in text")

    @pytest.mark.parametrize("text", ["x", " x ", 0, False, [], "\0"])
    def test_something_to_ask_about(self, make: Any, text: Any) -> None:
        record = make.record(text=text)
        assert check(record) is record

    def test_one_column_of_several_is_enough(self, make: Any) -> None:
        prompt = "{title}: {text}"
        record = make.record(title="", text="x")
        assert check(record, prompt=prompt) is record
        assert check(make.record(title=" ", text=""), prompt=prompt) == ("empty_input", "nothing in title, text")

    def test_the_text_column_goes_by_its_own_name(self, make: Any) -> None:
        changes = {"text_column": "body"}
        assert check(make.record(text="x"), **changes) == ("empty_input", "nothing in body")
        assert isinstance(check(make.record(body="x"), **changes), Record)

    def test_a_prompt_without_placeholders_needs_nothing(self, make: Any) -> None:
        record = make.record()
        assert check(record, prompt="Tell a joke") is record


class TestOversized:
    def test_the_limit_itself_fits(self, make: Any) -> None:
        record = make.record(text="x" * 10)
        assert check(record) is record
        assert check(record, truncate=True) is record

    def test_fail(self, make: Any) -> None:
        assert check(make.record(text="x" * 11)) == ("oversized_input", "11 characters, input.max_chars is 10")

    def test_all_columns_of_the_prompt_count_together_and_no_others(self, make: Any) -> None:
        prompt = "{title} {text} {text}"
        record = make.record(title="t" * 5, text="x" * 5, other="o" * 100)
        assert check(record, prompt=prompt) is record
        found = check(make.record(title="t" * 5, text="x" * 6), prompt=prompt)
        assert found == ("oversized_input", "11 characters, input.max_chars is 10")

    def test_truncate_cuts_the_longest_text_to_the_limit(self, make: Any) -> None:
        record = make.record(title="title", text="0123456789", other="o" * 100)
        found = check(record, prompt="{title}{text}", truncate=True)
        assert found == record._replace(fields={**record.fields, "text": "01234"})
        assert record.fields["text"] == "0123456789"

    def test_characters_are_code_points(self, make: Any) -> None:
        found = check(make.record(text="\U0001f600" * 11), truncate=True)
        assert isinstance(found, Record)
        assert found.fields["text"] == "\U0001f600" * 10

    @pytest.mark.parametrize("text", [["x" * 20], {"k": "x" * 20}, 10**20])
    def test_what_is_no_text_cannot_be_cut(self, make: Any, text: Any) -> None:
        reason, message = check(make.record(text=text), truncate=True)[:2]
        assert reason == "oversized_input"
        assert "no text column is long enough" in message

    def test_cutting_one_text_has_to_be_enough(self, make: Any) -> None:
        found = check(make.record(a="x" * 12, b="y" * 12), prompt="{a}{b}", truncate=True)
        assert found[0] == "oversized_input"


class TestOtherPrompts:
    """Conversations, images and parameters that columns hold."""

    CHAT: ClassVar[Any] = [
        {"role": "user", "content": "0123"},
        {"role": "assistant", "content": [{"type": "text", "text": "456789"}]},
    ]

    def test_all_texts_of_a_conversation_count(self, make: Any) -> None:
        record = make.record(chat=self.CHAT)
        assert check(record, messages="chat") is record
        longer = make.record(chat=[*self.CHAT, {"role": "user", "content": "x"}])
        assert check(longer, messages="chat") == ("oversized_input", "11 characters, input.max_chars is 10")

    def test_a_conversation_is_never_cut(self, make: Any) -> None:
        record = make.record(chat=json.dumps([*self.CHAT, {"role": "user", "content": "x"}]))
        assert check(record, messages="chat", truncate=True)[0] == "oversized_input"

    @pytest.mark.parametrize("chat", [None, [], "", [{"role": "user", "content": " "}]])
    def test_an_empty_conversation(self, make: Any, chat: Any) -> None:
        assert check(make.record(chat=chat), messages="chat") == ("empty_input", "nothing in chat")

    def test_a_conversation_that_is_none(self, make: Any) -> None:
        reason, message = check(make.record(chat=[{"role": "user"}]), messages="chat")[:2]
        assert (reason, message[:33]) == ("bad_record", "column 'chat', message 1: content")

    def test_an_image_is_something_to_ask_about_and_has_no_characters(self, make: Any) -> None:
        record = make.record(photo="https://host/" + "x" * 100)
        assert check(record, images="photo") is record
        assert check(record, images="photo", prompt="What is it?") is record
        assert check(make.record(photo=[]), images="photo", prompt="What?") == ("empty_input", "nothing in photo")
        assert check(make.record(), images="photo") == ("empty_input", "nothing in photo, text")
        assert check(make.record(photo="x.png"), images="photo")[0] == "bad_record"

    def test_a_parameter_that_cannot_be(self, make: Any) -> None:
        changes = {"parameters_from": {"max_tokens": "n"}}
        assert check(make.record(text="x", n=0), **changes) == (
            "bad_record",
            "column 'n' holds '0': max_tokens must be a whole number from 1",
        )
        record = make.record(text="x", n=None)
        assert check(record, **changes) is record


class TestMisfits:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("string", "x"),
            ("string", [1]),
            ("json", {"a": [None, 1.5]}),
            ("json", True),
            ("json", 10**100),
            ("integer", -(2**63)),
            ("integer", 2**63 - 1),
            ("integer", 3.0),
            ("number", 1),
            ("number", 1.5),
            ("number", 2**53),
            ("boolean", False),
            *((kind, None) for kind in ARROW_TYPES),
        ],
    )
    def test_fits(self, kind: str, value: Any) -> None:
        assert misfit("c", value, ARROW_TYPES[kind]) is None

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("integer", "5"),
            ("integer", True),
            ("integer", 2**63),
            ("integer", 1.5),  # which Arrow would make 1
            ("integer", 1e300),
            ("integer", [1]),
            ("number", "1.5"),
            ("number", False),
            ("number", {}),
            ("number", 2**53 + 1),  # which would be another number
            ("boolean", 1),
            ("boolean", 0.0),
            ("boolean", "true"),
        ],
    )
    def test_does_not_fit(self, make: Any, kind: str, value: Any) -> None:
        record = make.record(text="x", c=value)
        found = check(record, columns={"c": ARROW_TYPES[kind]})
        assert not isinstance(found, Record)
        reason, message = found
        assert reason == "bad_record"
        assert message.startswith("column 'c' holds ")
        assert str(value)[:60] in message
        assert "c: json" in message

    @given(st.lists(st.tuples(*[VALUES] * len(ARROW_TYPES)), min_size=1, max_size=4))
    def test_what_fits_can_be_written_and_is_not_changed(self, rows: list[tuple[Any, ...]]) -> None:
        kept = [
            {
                name: value if misfit(name, value, kind) is None else None
                for (name, kind), value in zip(ARROW_TYPES.items(), row, strict=True)
            }
            for row in rows
        ]
        sink = pa.BufferOutputStream()
        writer = ParquetWriter.__new__(ParquetWriter)  # without a file
        writer._schema = pa.schema(list(ARROW_TYPES.items()))
        writer._rows = list(kept)
        writer._writer = pa.parquet.ParquetWriter(sink, writer._schema)
        writer._flush()
        writer._writer.close()
        found = pa.parquet.read_table(pa.BufferReader(sink.getvalue())).to_pylist()
        for before, after in zip(kept, found, strict=True):
            for name, kind in ARROW_TYPES.items():
                value = before[name]
                if value is not None and pa.types.is_string(kind) and not isinstance(value, str):
                    assert json.loads(after[name]) == value
                else:
                    assert after[name] == value


def test_the_step(pipeline: Callable[[], Any], make: Any) -> None:
    records = [make.record("ok", text="fine"), make.record("empty", text=""), make.record("long", text="x" * 11)]
    with pipeline() as p:
        found = p | beam.Create(records) | ScreenContent(rules(), make.stamp)
        assert_that(found.records | beam.Map(lambda record: record.id), equal_to(["ok"]))

        def dead(rows: list[dict[str, Any]]) -> None:
            assert sorted((row["id"], row["reason"]) for row in rows) == [
                ("empty", "empty_input"),
                ("long", "oversized_input"),
            ]
            assert all(row["attempts"] == 0 and not row["retryable"] for row in rows)
            assert all(row["source"] == {"file": "in.jsonl", "position": 0} for row in rows)

        assert_that(found[DEAD_LETTER], dead, label="dead")

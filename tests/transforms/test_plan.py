"""The plan: rows, rows to do, and which ids repeat. And the repeats that it leads to."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from transforms import digests, plan, repeats
from transforms.digests import SIZE, PartitionedDigests, digest
from transforms.formats.spans import InputFile, Reading, Span
from transforms.inputs import find_inputs
from transforms.plan import MakePlan, Plan, SpanPlan, combine, plan_span
from transforms.read import DEAD_LETTER, Read, Spans, split
from transforms.records import canonical_json
from transforms.repeats import DropRepeats, FindRepeats, Repeats, repeats_of_span, repeats_table
from transforms.screen import Rules, Screen
from transforms.settings import Input, Model, Task
from transforms.tally import TALLY, total

READING = Reading()
RULES = Rules(Task(prompt="{id}{text}"), Input(path="x", max_chars=60), Model(), columns={})


def done(*ids: str) -> PartitionedDigests:
    blobs = digests.pack_by_partition(sorted(digest(identifier) for identifier in ids))
    return PartitionedDigests(blobs)


def spans(paths: Iterable[Path], length: int = 1 << 20) -> list[Span]:
    found: list[Span] = []
    for number, path in enumerate(paths):
        found += split(InputFile(str(path), number, path.stat().st_size), length, READING)
    return found


def make_plan(parts: list[Span], *done_ids: str) -> Plan:
    pieces = [
        piece
        for span in parts
        for piece in plan_span(span, READING, done(*done_ids), Screen(RULES), 2)  # rows in a piece, of few
    ]
    return combine(pieces[::-1])  # they come in any order


def table(found: Plan) -> Repeats:
    return Repeats(repeats_table(repeats_of_span(item, READING) for item in found.repeats.items()))


class TestCounts:
    def test_rows_and_rows_to_do(self, tmp_path: Path, make: Any) -> None:
        path = make.jsonl(tmp_path / "a", [{"id": "a"}, {"id": "b"}, {"id": None}, {"id": "c"}])
        found = make_plan(spans([path]), "b", "elsewhere")
        assert (found.rows, found.todo, found.repeats) == (4, 2, {})

    def test_nothing(self) -> None:
        assert combine([]) == Plan(0, 0, {}, {})

    def test_repeats_are_to_do_once(self, tmp_path: Path, make: Any) -> None:
        first = make.jsonl(tmp_path / "a", [{"id": "x"}, {"id": "x"}, {"id": "y"}, {"id": "d"}])
        second = make.jsonl(tmp_path / "b", [{"id": "x"}, {"id": "d"}, {"id": "z"}])
        found = make_plan(spans([first, second]), "d")
        assert (found.rows, found.todo) == (7, 3)
        assert [span.number for span in found.repeats] == [0, 1]

    def test_spans_with_nothing_to_do_are_left_out_in_the_order_of_the_input(self, tmp_path: Path, make: Any) -> None:
        names = ["a", "b", "c"]
        paths = [make.jsonl(tmp_path / name, [{"id": f"{name}{n}"} for n in range(3)]) for name in names]
        found = make_plan(spans(paths), "a0", "b0", "b1", "b2")
        assert list(found.todo_by_span.items()) == [("000000-00000000000", 2), ("000002-00000000000", 3)]

    def test_only_records_worth_a_call_are_to_do(self, tmp_path: Path, make: Any) -> None:
        oversized = {"id": "x", "text": "long " * 20}
        path = make.jsonl(tmp_path / "a", [oversized, {"id": "y"}, {"id": "y", "n": 2}, {"id": "x"}, {"id": "z"}])
        found = make_plan(spans([path], length=120))
        # The oversized x is set aside, the second y and the second x are no firsts: what is left are y and z.
        assert (found.rows, found.todo) == (5, 2)
        assert sum(found.todo_by_span.values()) == 2

    @given(st.lists(st.integers(0, 9), max_size=30), st.sets(st.integers(0, 9)), st.integers(1, 5))
    def test_any_ids(self, ids: list[int], finished: set[int], parts: int) -> None:
        ready = done(*map(str, finished))
        span_plans = []
        for number in range(parts):
            mine = ids[number::parts]
            for at in range(0, len(mine), 3):
                values = [digest(str(n)) for n in mine[at : at + 3]]
                prefixes = b"".join(
                    (plan.id_number(value) << 1 | (value not in ready)).to_bytes(8, "little") for value in values
                )
                todo = sum(value not in ready for value in values)
                span_plans.append(SpanPlan(Span("f", number, 0, None), at, len(values), todo, prefixes))
        found = combine(span_plans)
        assert found.rows == len(ids)
        assert found.todo == len(set(ids) - finished) == sum(found.todo_by_span.values())
        repeated = {n for n in ids if ids.count(n) > 1}
        assert {span.number for span in found.repeats} == {
            number for number in range(parts) if repeated & set(ids[number::parts])
        }


class TestRepeats:
    def first(self, found: Repeats, identifier: str) -> int | None:
        entry = found.first(digest(identifier))
        return None if entry is None else entry[0]

    def test_the_first_by_file_and_position(self, tmp_path: Path, make: Any) -> None:
        first = make.jsonl(tmp_path / "a", [{"id": "y"}, {"id": "x", "n": 1}, {"id": "x", "n": 2}])
        second = make.jsonl(tmp_path / "b", [{"id": "x", "n": 3}, {"id": "z"}, {"id": "y", "n": 4}])
        parts = spans([first, second], length=8)
        found = table(make_plan(parts))
        assert self.first(found, "x") == 12
        assert self.first(found, "y") == 0
        assert self.first(found, "z") is None
        entry = found.first(digest("x"))
        assert entry is not None
        assert entry[1] == digest(canonical_json({"id": "x", "n": 1}))

    def test_a_place_in_a_later_file_is_later_whatever_its_position(self, tmp_path: Path, make: Any) -> None:
        first = make.jsonl(tmp_path / "a", [{"id": str(n)} for n in range(1000, 1500)] + [{"id": "x"}])
        second = make.jsonl(tmp_path / "b", [{"id": "x"}])
        found = table(make_plan(spans([first, second], length=100)))
        assert self.first(found, "x") == 500 * len('{"id": "1000"}\n')

    def test_no_table_no_repeats(self) -> None:
        assert Repeats().first(digest("x")) is None
        assert repeats_table([]) == b""

    def test_equal_prefixes_of_other_ids_are_no_repeats(
        self, tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Digests with one beginning for all ids: every pair is a candidate, equal digests alone are repeats.
        for module in (plan, repeats):
            monkeypatch.setattr(module, "digest", lambda text: b"\x01" * 8 + digest(text)[8:])
        path = make.jsonl(tmp_path / "a", [{"id": "x"}, {"id": "y"}, {"id": "x"}, {"id": "z"}])
        (span,) = spans([path])
        found = make_plan([span])
        assert list(found.repeats) == [span]
        rows = repeats_table([repeats_of_span((span, found.repeats[span]), READING)])
        assert len(rows) == 2 * SIZE + 8
        found_repeats = Repeats(rows)
        assert found_repeats.first(b"\x01" * 8 + digest("x")[8:]) is not None
        assert found_repeats.first(b"\x01" * 8 + digest("y")[8:]) is None

    def test_prefixes_that_differ_in_the_lowest_bit_alone_are_candidates(
        self, tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # That bit says whether the row is to do, so these look equal and have to be told apart by the second look.
        values = {"x": b"\0" * 16, "y": b"\0" * 7 + b"\1" + b"\0" * 8}
        for module in (plan, repeats):
            monkeypatch.setattr(module, "digest", lambda text: values.get(text) or digest(text))
        path = make.jsonl(tmp_path / "a", [{"id": "x"}, {"id": "y"}])
        (span,) = spans([path])
        found = make_plan([span])
        assert repeats_table([repeats_of_span((span, found.repeats[span]), READING)]) == b""


class TestPipeline:
    def test_plan_and_table_from_spans(self, tmp_path: Path, pipeline: Callable[[], Any], make: Any) -> None:
        rows = [{"id": str(n)} for n in range(50)]
        make.jsonl(tmp_path / "in" / "a", [*rows, {"id": "7", "other": 1}])
        make.jsonl(tmp_path / "in" / "b", [{"id": "8"}, {"id": "new"}, {"id": 1.5}])
        finished = list(digests.pack_by_partition([digest("3"), digest("8")]))
        make.jsonl(tmp_path / "journal" / "run.json", [{}])
        with pipeline() as p:
            prior = p | "Done" >> beam.Create(finished)
            read = p | beam.Create(find_inputs([f"{tmp_path}/in/*"])) | Spans(64, READING)
            found = read | MakePlan(READING, RULES, beam.pvalue.AsIter(prior), str(tmp_path / "journal"))
            numbers = found | beam.Map(lambda made: (made.rows, made.todo, sum(made.todo_by_span.values())))
            assert_that(numbers, equal_to([(54, 49, 49)]))

            def right(tables: list[bytes]) -> None:
                (only,) = tables
                firsts = Repeats(only)
                assert firsts.first(digest("7")) == (7 * 12, digest(canonical_json({"id": "7"})))
                assert firsts.first(digest("8"))[0] == 8 * 12
                assert firsts.first(digest("9")) is None

            assert_that(found | FindRepeats(READING), right, label="repeats")
        written = json.loads((tmp_path / "journal" / "plan.json").read_text())
        assert written == {"rows": 54, "todo": 49}

    def test_a_run_that_is_published_gets_no_plan_file(
        self, tmp_path: Path, pipeline: Callable[[], Any], make: Any
    ) -> None:
        make.jsonl(tmp_path / "in" / "a", [{"id": "a"}])
        with pipeline() as p:
            read = p | beam.Create(find_inputs([f"{tmp_path}/in/*"])) | Spans(64, READING)
            none = p | "Done" >> beam.Create([]).with_output_types(tuple[int, bytes])
            found = read | MakePlan(READING, RULES, beam.pvalue.AsIter(none), str(tmp_path / "journal"))
            assert_that(found | beam.Map(lambda made: made.todo), equal_to([1]))
        assert not (tmp_path / "journal").exists()

    def test_repeats_are_dropped_or_set_aside(self, tmp_path: Path, pipeline: Callable[[], Any], make: Any) -> None:
        make.jsonl(tmp_path / "in" / "a", [{"id": "x", "n": 1}, {"id": "y"}, {"n": 1, "id": "x"}])
        make.jsonl(tmp_path / "in" / "b", [{"id": "x", "n": 2}, {"id": "z"}, {"id": "x", "n": 1}, {"id": "y"}])
        with pipeline() as p:
            read_spans = p | beam.Create(find_inputs([f"{tmp_path}/in/*"])) | Spans(8, READING)
            none = p | "Done" >> beam.Create([]).with_output_types(tuple[int, bytes])
            made = read_spans | MakePlan(READING, RULES, beam.pvalue.AsIter(none), str(tmp_path))
            read = read_spans | "Records" >> Read(READING, make.stamp)
            unique = read.records | DropRepeats(beam.pvalue.AsSingleton(made | FindRepeats(READING)), make.stamp)
            kept = unique.records | beam.Map(lambda record: (record.id, record.fields.get("n"), record.position))
            assert_that(kept, equal_to([("x", 1, 0), ("y", None, 20), ("z", None, 20)]))
            tally = unique[TALLY] | beam.CombineGlobally(total)
            assert_that(tally, equal_to([{"skipped": 3}]), label="tally")

            def dead(rows: list[dict[str, Any]]) -> None:
                (row,) = rows
                assert (row["id"], row["reason"]) == ("x", "duplicate_id")
                assert (row["input"], row["attempts"]) == ({"id": "x", "n": 2}, 0)
                assert row["source"] == {"file": f"{tmp_path}/in/b", "position": 0}

            assert_that(unique[DEAD_LETTER], dead, label="dead")

    def test_without_repeats_every_record_passes(self, pipeline: Callable[[], Any], make: Any) -> None:
        with pipeline() as p:
            empty = p | "Table" >> beam.Create([b""])
            found = p | beam.Create([make.record("a"), make.record("b", 9)])
            unique = found | DropRepeats(beam.pvalue.AsSingleton(empty), make.stamp)
            assert_that(unique.records | beam.Map(lambda record: record.id), equal_to(["a", "b"]))

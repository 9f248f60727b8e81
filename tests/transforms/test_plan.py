"""The plan: rows, rows to do, and which ids repeat. And the repeats that it leads to."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms import plan, repeats
from transforms.digests import SIZE, digest
from transforms.done_digests import Done
from transforms.formats.spans import InputFile, Reading, Span
from transforms.inputs import find_inputs
from transforms.plan import MakePlan, Plan, Planner, SpanPlan, combine
from transforms.prefixes import Piece, PrefixPacker, decode, encode, find_repeats
from transforms.read import DEAD_LETTER, Read, Spans, split
from transforms.records import canonical_json
from transforms.repeats import DropRepeats, FindRepeats, Repeats, repeats_of_span, repeats_table
from transforms.scratch import Part, Scratch
from transforms.screen import Rules, Screen
from transforms.settings import Input, Model, Task
from transforms.tally import TALLY, total

READING = Reading()
RULES = Rules(Task(prompt="{id}{text}"), Input(path="x", max_chars=60), Model(), columns={})


def spans(paths: Iterable[Path], length: int = 1 << 20) -> list[Span]:
    found: list[Span] = []
    for number, path in enumerate(paths):
        found += split(InputFile(str(path), number, path.stat().st_size), length, READING)
    return found


def make_plan(parts: list[Span], *done_ids: str) -> Plan:
    planner = Planner(READING, Screen(RULES), PrefixPacker(2))  # rows in a piece, of few
    done = {digest(identifier) for identifier in done_ids}
    plans: list[SpanPlan] = []
    pieces: list[tuple[int, Piece]] = []
    for span in parts:
        for found in planner.read(span, done):
            if isinstance(found, SpanPlan):
                plans.append(found)
            else:
                pieces += found
    return gather(plans, [*pieces, *planner.rest()])


def gather(plans: list[SpanPlan], pieces: list[tuple[int, Piece]]) -> Plan:
    by_partition: dict[int, list[Piece]] = {}
    for number, piece in pieces[::-1]:  # they come in any order
        by_partition.setdefault(number, []).append(decode(encode(piece)))
    return combine(plans[::-1], [found for each in by_partition.values() for found in find_repeats(each)])


def table(found: Plan) -> Repeats:
    return Repeats(repeats_table(repeats_of_span(item, READING) for item in found.repeats.items()))


class TestCounts:
    def test_rows_and_rows_to_do(self, tmp_path: Path, make: Any) -> None:
        path = make.jsonl(tmp_path / "a", [{"id": "a"}, {"id": "b"}, {"id": None}, {"id": "c"}])
        found = make_plan(spans([path]), "b", "elsewhere")
        assert (found.rows, found.todo, found.repeats) == (4, 2, {})

    def test_nothing(self) -> None:
        assert combine([], []) == Plan(0, 0, {}, {})

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

    @settings(deadline=None)
    @given(
        st.lists(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=8), max_size=6),
        st.integers(1, 9),
        st.randoms(use_true_random=False),
    )
    def test_any_rows(self, rows_of_spans: list[list[tuple[int, bool]]], most: int, random: Any) -> None:
        """Spans hold rows of ids, each to do or not, and are read in any order: the first row of each id counts."""
        parts = [Span("f", number // 2, number % 2 * 100, None) for number in range(len(rows_of_spans))]
        plans: list[SpanPlan] = []
        pieces: list[tuple[int, Piece]] = []
        packer = PrefixPacker(most)
        for number in random.sample(range(len(parts)), len(parts)):
            packer.turn_to(parts[number])
            for identifier, is_todo in rows_of_spans[number]:
                if packer.add(plan.id_number(digest(str(identifier))) << 1 | is_todo):
                    pieces += packer.take()
            rows = rows_of_spans[number]
            plans.append(SpanPlan(parts[number], len(rows), sum(is_todo for _id, is_todo in rows)))
        found = gather(plans, [*pieces, *packer.take()])

        everything = [identifier for rows in rows_of_spans for identifier, _is_todo in rows]
        met: set[int] = set()
        todo: dict[str, int] = {}
        repeating: dict[Span, list[int]] = {}
        for span, rows in zip(parts, rows_of_spans, strict=True):
            for identifier, is_todo in rows:
                if is_todo and identifier not in met:
                    todo[span.key] = todo.get(span.key, 0) + 1
                met.add(identifier)
            again = {identifier for identifier, _is_todo in rows if everything.count(identifier) > 1}
            if again:
                repeating[span] = sorted(plan.id_number(digest(str(identifier))) for identifier in again)
        assert (found.rows, found.todo) == (len(everything), sum(todo.values()))
        assert list(found.todo_by_span.items()) == list(todo.items())
        numbers = {span: np.frombuffer(blob, np.uint64).tolist() for span, blob in found.repeats.items()}
        assert {span: sorted(each) for span, each in numbers.items()} == repeating
        assert list(numbers) == list(repeating)


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
        make.jsonl(tmp_path / "journal" / "run.json", [{}])
        finished, place = make.done(tmp_path / "journal", "3", "8"), Scratch(str(tmp_path / "journal"))
        with pipeline() as p:
            prior = p | "Done" >> beam.Create(finished)
            read = p | beam.Create(find_inputs([f"{tmp_path}/in/*"])) | Spans(64, READING)
            found = read | MakePlan(READING, RULES, Done.of(prior, place), place)
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
        place = Scratch(str(tmp_path / "journal"))
        with pipeline() as p:
            read = p | beam.Create(find_inputs([f"{tmp_path}/in/*"])) | Spans(64, READING)
            none = p | "Done" >> beam.Create([]).with_output_types(Part)
            found = read | MakePlan(READING, RULES, Done.of(none, place), place)
            assert_that(found | beam.Map(lambda made: made.todo), equal_to([1]))
        assert not (tmp_path / "journal").exists()

    def test_repeats_are_dropped_or_set_aside(self, tmp_path: Path, pipeline: Callable[[], Any], make: Any) -> None:
        make.jsonl(tmp_path / "in" / "a", [{"id": "x", "n": 1}, {"id": "y"}, {"n": 1, "id": "x"}])
        make.jsonl(tmp_path / "in" / "b", [{"id": "x", "n": 2}, {"id": "z"}, {"id": "x", "n": 1}, {"id": "y"}])
        place = Scratch(str(tmp_path), of_run=False)
        with pipeline() as p:
            read_spans = p | beam.Create(find_inputs([f"{tmp_path}/in/*"])) | Spans(8, READING)
            none = p | "Done" >> beam.Create([]).with_output_types(Part)
            made = read_spans | MakePlan(READING, RULES, Done.of(none, place), place)
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

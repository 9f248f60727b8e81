"""One light pass over the input before any call: how many rows there are, how many are to do, which ids may repeat.

Of each id eight bytes travel, grouped by how they begin, so that no place holds those of all rows. Where two of them
are equal, repeats.py looks whether the ids are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from transforms import files
from transforms.digests import digest, prefix
from transforms.done_digests import Done, DoneDigests, DoneKey
from transforms.formats.spans import Reading, Span
from transforms.journal import HEADER_FILE
from transforms.prefixes import PARTITIONS, TODO, Piece, PrefixPacker, SpanRepeats, decode, encode, find_repeats
from transforms.read import read_records
from transforms.records import Record
from transforms.scratch import Part, Scratch, ranges
from transforms.screen import Rules, Screen

PLAN_FILE = "plan.json"
_PLANS = "plans"


class SpanPlan(NamedTuple):
    """What one span holds. `todo` counts records that are worth a call and have no answer."""

    span: Span
    rows: int
    todo: int


class Plan(NamedTuple):
    """What a run has before it: all calls that it is going to make. `todo_by_span` leaves out spans with nothing to
    do, in the order of the input."""

    rows: int
    todo: int
    todo_by_span: dict[str, int]
    repeats: dict[Span, bytes]  # spans that hold ids which may repeat, with the prefixes of those: see repeats.py


class Planner:
    """Reads spans once each. The prefixes of their ids are handed on in pieces, when there are enough of them."""

    def __init__(self, reading: Reading, screen: Screen, packer: PrefixPacker) -> None:
        self._reading = reading
        self._screen = screen
        self._packer = packer

    def read(self, span: Span, done: DoneDigests) -> Iterator[Iterator[tuple[int, Piece]] | SpanPlan]:
        """By partition, the pieces that were full before the span was at its end; and last the span's plan."""
        rows = todo = 0
        self._packer.turn_to(span)
        for record in read_records(span, self._reading):
            rows += 1
            if isinstance(record, Record):
                value = digest(record.id)
                is_todo = value not in done and isinstance(self._screen.check(record), Record)
                todo += is_todo
                if self._packer.add(id_number(value) << 1 | is_todo):
                    yield self._packer.take()
        yield SpanPlan(span, rows, todo)

    def rest(self) -> Iterator[tuple[int, Piece]]:
        """The pieces that are left after the last span."""
        return self._packer.take()


def combine(plans: Iterable[SpanPlan], repeats: Iterable[SpanRepeats]) -> Plan:
    """All spans' plans as one."""
    total = 0
    todo: Counter[Span] = Counter()
    spans: dict[str, Span] = {}
    for plan in plans:
        total += plan.rows
        todo[plan.span] += plan.todo
        spans[plan.span.key] = plan.span
    found: dict[str, bytes] = {}
    for key, surplus, prefixes in repeats:
        todo[spans[key]] -= surplus
        found[key] = found.get(key, b"") + prefixes
    todo_by_span = {key: todo[spans[key]] for key in sorted(spans) if todo[spans[key]]}
    return Plan(total, sum(todo_by_span.values()), todo_by_span, {spans[key]: found[key] for key in sorted(found)})


def id_number(value: bytes) -> int:
    """What a plan holds of an id's digest: 63 bits, as a number."""
    return prefix(value) >> TODO


@dataclass
class MakePlan(beam.PTransform):
    """Span -> one Plan. Its numbers are also left in the folder of `scratch`, where whoever watches the run finds
    them."""

    reading: Reading
    rules: Rules
    done: Done
    scratch: Scratch

    def expand(self, pcoll: Any) -> Any:
        step = beam.ParDo(PlanSpan(self.reading, self.rules, self.done.key), self.done.side_input)
        outputs = step.with_output_types(Part).with_outputs(_PLANS, main="parts")
        read = pcoll | "Spread" >> beam.Reshuffle() | "PlanSpans" >> outputs
        start, parts = pcoll.pipeline | "Once" >> beam.Impulse(), beam.pvalue.AsIter(read.parts)
        ranges = start | "Ranges" >> beam.FlatMap(_ranges, parts) | "SpreadRanges" >> beam.Reshuffle()
        repeats = ranges | "Repeats" >> beam.FlatMap(_repeats, self.scratch, parts)
        sides = beam.pvalue.AsIter(read[_PLANS]), beam.pvalue.AsIter(repeats)
        return start | "Combine" >> beam.Map(_combine, *sides, self.scratch.folder)


class PlanSpan(beam.DoFn):
    """Span -> its SpanPlan, under _PLANS, and Parts that hold the pieces for `find_repeats`."""

    def __init__(self, reading: Reading, rules: Rules, done: DoneKey) -> None:
        self._reading = reading
        self._rules = rules
        self._key = done

    def setup(self) -> None:
        self._screen = Screen(self._rules)
        self._held = self._key.held()

    def teardown(self) -> None:
        del self._held

    def start_bundle(self) -> None:
        self._done: DoneDigests | None = None
        self._planner = Planner(self._reading, self._screen, PrefixPacker())

    def process(self, span: Span, done: Any) -> Iterator[Any]:
        if self._done is None:  # side inputs are the same for all of a bundle
            self._done = DoneDigests(self._held, done)
        for found in self._planner.read(span, self._done):
            if isinstance(found, SpanPlan):
                yield beam.pvalue.TaggedOutput(_PLANS, found)
            else:
                yield from self._written(found)

    def finish_bundle(self) -> Iterator[Any]:
        self._done = None
        yield from map(GlobalWindows.windowed_value, self._written(self._planner.rest()))

    def _written(self, pieces: Iterable[tuple[int, Piece]]) -> list[Part]:
        part = self._key.scratch.write(((number, encode(piece)) for number, piece in pieces), PARTITIONS)
        return [] if part is None else [part]


def _ranges(_start: bytes, parts: Iterable[Part]) -> list[tuple[int, int]]:
    return [(each.start, each.stop) for each in ranges(list(parts), PARTITIONS)]


def _repeats(wanted: tuple[int, int], scratch: Scratch, parts: Iterable[Part]) -> Iterator[SpanRepeats]:
    pieces: defaultdict[int, list[Piece]] = defaultdict(list)
    for part in parts:
        for number, blob in scratch.read(part, range(*wanted)):
            pieces[number].append(decode(blob))
    while pieces:
        yield from find_repeats(pieces.popitem()[1])


def _combine(_start: bytes, plans: Iterable[SpanPlan], repeats: Iterable[SpanRepeats], folder: str) -> Plan:
    plan = combine(plans, repeats)
    if files.exists(files.join(folder, HEADER_FILE)):  # not where an engine repeats a run that is published
        files.write_json(files.join(folder, PLAN_FILE), {"rows": plan.rows, "todo": plan.todo})
    return plan

"""Records that share an id: the first by file and position counts.

The plan names spans that hold ids which may repeat. Only those are read once more, to learn which ids really do and
what their first record holds; the table of them is what the records are held against.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np

from transforms.digests import SIZE, DigestSet, digest
from transforms.formats.spans import Reading, Span
from transforms.metrics import counter
from transforms.plan import Plan, id_number
from transforms.read import DEAD_LETTER, order_of, read_records
from transforms.records import Record, canonical_json
from transforms.rows import RunStamp
from transforms.screen import set_aside
from transforms.tally import TALLY, bundle_tally

_ROW = SIZE + 8 + SIZE  # bytes of one row of the table: digest of the id, order, digest of the content


def repeats_of_span(repeats: tuple[Span, bytes], reading: Reading) -> bytes:
    """Reads a span once more for the records whose prefixes are named: rows of a repeats table, unsorted."""
    span, prefixes = repeats
    wanted = set(np.frombuffer(prefixes, np.uint64).tolist())
    rows = bytearray()
    for record in read_records(span, reading):
        if isinstance(record, Record):
            value = digest(record.id)
            if id_number(value) in wanted:
                rows += value + order_of(record).to_bytes(8, "big") + digest(canonical_json(record.fields))
    return bytes(rows)


def repeats_table(parts: Iterable[bytes]) -> bytes:
    """The ids that really repeat, each with the place and the content of its first record, sorted by digest."""
    rows: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for part in parts:
        for at in range(0, len(part), _ROW):
            rows[part[at : at + SIZE]].append(part[at : at + _ROW])
    return b"".join(min(found) for _value, found in sorted(rows.items()) if len(found) > 1)


class Repeats:
    """Looks up whether a record is the first with its id. Built over a table as `repeats_table` makes it."""

    def __init__(self, table: bytes = b"") -> None:
        self._table = table
        rows = np.frombuffer(table, dtype=np.uint8).reshape(-1, _ROW)
        self._ids = DigestSet(rows[:, :SIZE].tobytes())

    def first(self, value: bytes) -> tuple[int, bytes] | None:
        """Order and content digest of the first record with this id, or None where the id does not repeat."""
        at = self._ids.find(value)
        if at is None:
            return None
        row = self._table[at * _ROW : (at + 1) * _ROW]
        return int.from_bytes(row[SIZE : SIZE + 8], "big"), row[SIZE + 8 :]


@dataclass
class FindRepeats(beam.PTransform):
    """Plan -> the table of repeated ids, one element."""

    reading: Reading

    def expand(self, pcoll: Any) -> Any:
        rows = (
            pcoll
            | "Repeating" >> beam.FlatMap(_repeating)
            | "Spread" >> beam.Reshuffle()
            | "ReadAgain" >> beam.Map(repeats_of_span, self.reading)
        )
        start = pcoll.pipeline | "Once" >> beam.Impulse()
        return start | "Table" >> beam.Map(_table, beam.pvalue.AsIter(rows))


@dataclass
class DropRepeats(beam.PTransform):
    """Record -> Record. A record that equals an earlier one is counted as skipped; one that only shares an earlier
    one's id becomes a failure row `duplicate_id`. `repeats` is a singleton side input, what FindRepeats makes."""

    repeats: Any
    stamp: RunStamp

    def expand(self, pcoll: Any) -> Any:
        step = beam.ParDo(_DropRepeats(self.stamp), self.repeats)
        return pcoll | "DropRepeats" >> step.with_outputs(DEAD_LETTER, TALLY, main="records")


class _DropRepeats(beam.DoFn):
    def __init__(self, stamp: RunStamp) -> None:
        self._stamp = stamp
        self._counts = {name: counter(name) for name in ("skipped", "failed")}

    def start_bundle(self) -> None:
        self._repeats: Repeats | None = None
        self._skipped = 0

    def process(self, record: Record, repeats: bytes) -> Iterator[Any]:
        if not repeats:
            yield record
            return
        if self._repeats is None:  # side inputs are the same for all of a bundle
            self._repeats = Repeats(repeats)
        first = self._repeats.first(digest(record.id))
        if first is None or first[0] == order_of(record):
            yield record
        elif first[1] == digest(canonical_json(record.fields)):
            self._skipped += 1
        else:
            self._counts["failed"].inc()
            message = "an earlier record has the same id and other content"
            yield beam.pvalue.TaggedOutput(DEAD_LETTER, set_aside(self._stamp, record, "duplicate_id", message))

    def finish_bundle(self) -> Iterator[Any]:
        self._counts["skipped"].inc(self._skipped)
        yield bundle_tally({"skipped": self._skipped})


def _repeating(plan: Plan) -> Iterable[tuple[Span, bytes]]:
    return plan.repeats.items()


def _table(_start: bytes, parts: Iterable[bytes]) -> bytes:
    return repeats_table(parts)

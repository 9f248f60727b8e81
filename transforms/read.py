"""Input files -> spans -> records, by the reader of each file's format: see transforms/formats.

Spans are small where the format allows it, so that every worker has some, and they are what is shuffled: never the
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam

from transforms import files
from transforms.formats import delimited, jsonl, openai_batch, parquet, sql, text_lines, whole_file
from transforms.formats.spans import NUMBER_DIGITS, Cut, Format, InputFile, Reading, Span, whole
from transforms.metrics import counter
from transforms.parse import BadRow
from transforms.records import Fields, Record, Row
from transforms.rows import RunStamp, failure_row
from transforms.tally import TALLY, bundle_tally

MIN_SPAN_BYTES = 16 * 1024  # a hundred rows or so: each may take a second
MIN_FAR_SPAN_BYTES = 256 * 1024  # of a store, where opening a span costs requests
MAX_SPAN_BYTES = 64 * 1024 * 1024
SPANS = 4096  # aimed at for large inputs: enough for any cluster's slots, few enough to list
DEAD_LETTER = "dead_letter"

_POSITION_BITS = 44  # of an order: files up to 16 TiB

FORMATS: Mapping[str, Format] = {
    "jsonl": jsonl,
    "csv": delimited,
    "tsv": delimited,
    "parquet": parquet,
    "text": text_lines,
    "file": whole_file,
    "openai_batch": openai_batch,
    "sql": sql,
}


class BadRecord(NamedTuple):
    """What stands where a record could not be read: why, what could be read of it, and where it is. `cut`: it
    stands for all the rest of its file."""

    reason: str
    message: str
    fields: Any
    position: int
    cut: bool


def order_of(record: Record) -> int:
    """Where a record stands in the whole input, as a number that sorts by file and position."""
    return int(record.span[:NUMBER_DIGITS]) << _POSITION_BITS | record.position


def shown_path(place: InputFile | Span) -> str:
    """Where rows come from, as messages and failure rows name it: a path, or a database without its query."""
    return sql.shown_source(place.path) if place.format == "sql" else place.path


def span_bytes(inputs: Iterable[InputFile]) -> int:
    """How long spans are to be, in bytes, given all of the input."""
    inputs = list(inputs)
    total = sum(item.size for item in inputs)
    least = MIN_SPAN_BYTES if all(files.is_local(item.path) for item in inputs) else MIN_FAR_SPAN_BYTES
    return min(max(total // SPANS, least), MAX_SPAN_BYTES)


def split(item: InputFile, length: int, reading: Reading) -> Iterator[Span]:
    """Cuts a file into spans of about `length` bytes, where its format allows that."""
    return FORMATS[item.format].split(item, length, reading)


def read_records(span: Span, reading: Reading) -> Iterator[Record | BadRecord]:
    """The records of a span, in order, and what stands in the place of a record."""
    path, key = shown_path(span), span.key
    for row in FORMATS[span.format].read(span, reading):
        if isinstance(row, Cut):
            yield BadRecord("bad_record", row.message, None, row.position, cut=True)
        elif isinstance(row.found, BadRow):
            yield BadRecord(*row.found, row.position, cut=False)
        else:
            yield Record(row.found.id, row.found.fields, path, row.position, key)


def first_fields(inputs: Iterable[InputFile], reading: Reading, count: int) -> list[Fields]:
    """The fields of the first `count` records, to learn the columns from before anything is paid."""
    found: list[Fields] = []
    for item in inputs:
        for record in read_records(whole(item), reading):
            if isinstance(record.fields, dict):
                found.append(record.fields)
            if len(found) >= count:
                return found
    return found


@dataclass
class Spans(beam.PTransform):
    """InputFile -> Span. Raises OSError for a file that cannot be opened.

    Each consumer has to spread the spans for itself: two that share one shuffle may be fused into one stage, where
    one of them cannot wait for the other, and an engine then keeps every record between them in memory.
    """

    length: int
    reading: Reading

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Split" >> beam.FlatMap(split, self.length, self.reading)


@dataclass
class Read(beam.PTransform):
    """Span -> Record. A line that is none becomes a failure row under DEAD_LETTER; counts go to TALLY."""

    reading: Reading
    stamp: RunStamp

    def expand(self, pcoll: Any) -> Any:
        outputs = beam.ParDo(ReadSpan(self.reading, self.stamp)).with_outputs(DEAD_LETTER, TALLY, main="records")
        return pcoll | "Spread" >> beam.Reshuffle() | "Read" >> outputs


class ReadSpan(beam.DoFn):
    """See Read."""

    def __init__(self, reading: Reading, stamp: RunStamp) -> None:
        self._reading = reading
        self._stamp = stamp
        self._bad = counter("bad_records")
        self._failed = counter("failed")

    def start_bundle(self) -> None:
        self._rows = 0
        self._cut: list[str] = []

    def process(self, span: Span) -> Iterator[Any]:
        for record in read_records(span, self._reading):
            self._rows += 1
            if isinstance(record, Record):
                yield record
                continue
            self._bad.inc()
            self._failed.inc()
            if record.cut:
                self._cut.append(f"{shown_path(span)}: {record.message}")
            yield beam.pvalue.TaggedOutput(DEAD_LETTER, self._failure(span, record))

    def finish_bundle(self) -> Iterator[Any]:
        yield bundle_tally({"total": self._rows, "unreadable": self._cut})

    def _failure(self, span: Span, bad: BadRecord) -> Row:
        return failure_row(
            self._stamp,
            id=None,
            reason=bad.reason,
            message=bad.message,
            input=bad.fields,
            source={"file": shown_path(span), "position": bad.position},
        )

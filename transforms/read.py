"""Input files -> spans -> records: JSONL, plain or gzip, whatever the file's name says.

A span is a range of one file's bytes and holds the lines that start in it. Spans are small, so that every worker
has some, and they are what is shuffled: never the records. Lines end at LF alone (one CR before it is dropped), so
U+2028, U+2029 and U+0085 inside a string stay where they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from gzip import BadGzipFile
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics

from transforms import files, sql_input
from transforms.database import is_database, shown
from transforms.parse import BOM, BadRow, parse_json_line
from transforms.records import Fields, Record, Row
from transforms.rows import RunStamp, failure_row
from transforms.sql_input import parse_source, sql_source
from transforms.tally import TALLY, bundle_tally

MIN_SPAN_BYTES = 256 * 1024
MAX_SPAN_BYTES = 64 * 1024 * 1024
SPANS = 4096  # aimed at for large inputs: enough for any cluster's slots, few enough to list
DEAD_LETTER = "dead_letter"

_POSITION_BITS = 44  # of an order: files up to 16 TiB
_NUMBER_DIGITS = 6  # of a file's number


class InputError(ValueError):
    """The input cannot be read at all; the message names the file or the pattern."""


class InputFile(NamedTuple):
    """An input file; `number` is its place among all of them, sorted by path."""

    path: str
    number: int
    size: int


class Span(NamedTuple):
    """The lines of a file that start at bytes `start` to `end` (excluded). `end` is None for a file that can only
    be read from its beginning."""

    path: str
    number: int
    start: int
    end: int | None

    @property
    def key(self) -> str:
        """A short name, unique in a run, that sorts like the input. Safe in a file name."""
        return f"{self.number:0{_NUMBER_DIGITS}d}-{self.start:011x}"


class Line(NamedTuple):
    """A line without its end, and the byte at which it starts, after decompression."""

    position: int
    text: bytes


class Cut(NamedTuple):
    """Takes the place of the lines that could not be read: the file ended early or its packing is damaged."""

    position: int
    message: str


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
    return int(record.span[:_NUMBER_DIGITS]) << _POSITION_BITS | record.position


def find_inputs(patterns: Sequence[str], query: str | None = None) -> list[InputFile]:
    """The files that match, each once, in the order of their paths. Raises InputError for a pattern without any.
    A database is taken as a file, with `query` or the table that its URL names."""
    found: dict[str, int] = {}
    if not patterns:
        raise InputError("names no file")
    for pattern in patterns:
        if is_database(pattern):
            found[sql_source(pattern, query)] = 0
            continue
        matches = files.glob(pattern)
        if not matches:
            raise InputError(f"no file matches {pattern!r}")
        found.update((match.path, match.size) for match in matches)
    if len(found) > 10**_NUMBER_DIGITS:
        raise InputError(f"{len(found):,} files match, {10**_NUMBER_DIGITS:,} is the most: join small ones")
    return [InputFile(path, number, found[path]) for number, path in enumerate(sorted(found))]


def span_bytes(inputs: Iterable[InputFile]) -> int:
    """How long spans are to be, in bytes, given all of the input."""
    total = sum(item.size for item in inputs)
    return min(max(total // SPANS, MIN_SPAN_BYTES), MAX_SPAN_BYTES)


def split(item: InputFile, length: int) -> Iterator[Span]:
    """Cuts a file into spans of `length` bytes; a packed one is a single span."""
    if is_database(item.path):
        yield Span(item.path, item.number, 0, None)
        return
    stream, packed = files.open_plain(item.path)
    stream.close()
    if packed:
        yield Span(item.path, item.number, 0, None)
        return
    for start in range(0, item.size, length):
        yield Span(item.path, item.number, start, min(start + length, item.size))


def read_lines(span: Span) -> Iterator[Line | Cut]:
    """The lines of a span, blank ones left out. A file that ends early gives a Cut in place of the rest."""
    stream, _packed = files.open_plain(span.path)
    with stream:
        position = span.start
        try:
            if position > 0:
                stream.seek(position - 1)
                position += len(stream.readline()) - 1  # a line that started before this span is not ours
            while span.end is None or position < span.end:
                raw = stream.readline()
                if not raw:
                    return
                line = raw[3:] if position == 0 and raw.startswith(BOM) else raw
                line = line.rstrip(b"\n").removesuffix(b"\r")
                if line and not line.isspace():
                    yield Line(position, line)
                position += len(raw)
        except (EOFError, BadGzipFile, zlib.error) as error:
            yield Cut(position, f"the file cannot be read from here on: {error}")


def read_records(span: Span, id_column: str | None) -> Iterator[Record | BadRecord]:
    """The records of a span, in order, and what stands in the place of a record. Those of a database count from 1
    as positions."""
    name, lines = span.path, read_lines(span)
    if is_database(span.path):
        source = parse_source(span.path)
        name = shown(source.url)
        lines = (Line(number, line) for number, line in enumerate(sql_input.read_lines(source), 1))
    for item in lines:
        if isinstance(item, Cut):
            yield BadRecord("bad_record", item.message, None, item.position, cut=True)
            continue
        parsed = parse_json_line(item.text, id_column)
        if isinstance(parsed, BadRow):
            yield BadRecord(*parsed, item.position, cut=False)
        else:
            yield Record(parsed.id, parsed.fields, name, item.position, span.key)


def first_fields(inputs: Iterable[InputFile], id_column: str | None, count: int) -> list[Fields]:
    """The fields of the first `count` records, to learn the columns from before anything is paid."""
    found: list[Fields] = []
    for item in inputs:
        for record in read_records(Span(item.path, item.number, 0, None), id_column):
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

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Split" >> beam.FlatMap(split, self.length)


@dataclass
class Read(beam.PTransform):
    """Span -> Record. A line that is none becomes a failure row under DEAD_LETTER; counts go to TALLY."""

    id_column: str | None
    stamp: RunStamp

    def expand(self, pcoll: Any) -> Any:
        outputs = beam.ParDo(ReadSpan(self.id_column, self.stamp)).with_outputs(DEAD_LETTER, TALLY, main="records")
        return pcoll | "Spread" >> beam.Reshuffle() | "Read" >> outputs


class ReadSpan(beam.DoFn):
    """See Read."""

    def __init__(self, id_column: str | None, stamp: RunStamp) -> None:
        self._id_column = id_column
        self._stamp = stamp
        self._bad = Metrics.counter("paidonce", "bad_records")

    def start_bundle(self) -> None:
        self._rows = 0
        self._cut: list[str] = []

    def process(self, span: Span) -> Iterator[Any]:
        for record in read_records(span, self._id_column):
            self._rows += 1
            if isinstance(record, Record):
                yield record
                continue
            self._bad.inc()
            if record.cut:
                self._cut.append(f"{span.path}: {record.message}")
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
            source={
                "file": shown(parse_source(span.path).url) if is_database(span.path) else span.path,
                "position": bad.position,
            },
        )

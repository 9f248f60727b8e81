"""Rows as CSV by RFC 4180, in UTF-8, each file with a header; and such files read again.

Null is an empty cell without quotes, empty text is `""`: readers that care can tell them apart. Lists, objects and
what else is no scalar stand there as JSON, booleans as true and false, times as ISO 8601 in UTC.

A cell that a spreadsheet would take for a formula, because its text begins with = + - @, a tab, CR or LF, gets an
apostrophe in front (OWASP, "CSV injection"), and so does one that begins with apostrophes and then one of those:
so the reading that takes one apostrophe away is exact. Numbers are left as they are. Whether a file was written so
is said by quotes around the header's first name, which no reader sees, and not by what is configured meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from transforms import files
from transforms.records import Row, as_text, compact_json

END = b"\r\n"
_QUOTED = re.compile(r'[",\r\n]')
_BEGINS = r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # the last four are the full-width ones
_FORMULA = re.compile(f"'*{_BEGINS}")
_ESCAPED = re.compile(f"'+{_BEGINS}")
_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)')


class CsvWriter:
    """Writes one file. `columns` are what a row may hold; what else it holds is left out."""

    def __init__(self, path: str, columns: Sequence[str], *, escape: bool) -> None:
        self._columns = columns
        self._escape = escape
        self._stream: IO[bytes] = files.create(path)
        self._stream.write(header(columns, escape=escape))

    def write(self, row: Row) -> None:
        """Adds a row. Raises ValueError for NaN and the like."""
        self._stream.write(",".join([_cell(row.get(name), self._escape) for name in self._columns]).encode() + END)

    def close(self) -> None:
        """Finishes the file."""
        self._stream.close()

    def discard(self) -> None:
        """Closes the file."""
        self._stream.close()


def header(columns: Sequence[str], *, escape: bool) -> bytes:
    """The first line of a file."""
    first, *others = columns
    begin = f'"{first}"' if escape else first
    return ",".join([begin, *(_text(name) for name in others)]).encode() + END


def join_csv(target: IO[bytes], paths: Iterable[str], columns: Sequence[str], *, escape: bool) -> None:
    """Writes files that have this header one after another, with one header."""
    begin = header(columns, escape=escape)
    target.write(begin)
    for path in paths:
        with files.open_read(path) as stream:
            stream.seek(len(begin))
            while block := stream.read(1 << 20):
                target.write(block)


class Table(NamedTuple):
    """A file that is read: its columns, and its rows as texts or None."""

    columns: list[str]
    rows: Iterator[list[str | None]]


def read_csv(stream: IO[bytes], *, most: int | None = None) -> Table:
    """Reads what CsvWriter wrote, as a stream; `most`: only so many columns from the left. Raises ValueError for a
    file that is none."""
    lines = _records(stream)
    begin = next(lines, "")
    escaped = begin.startswith('"')
    columns = [name or "" for name in _cells(begin, None, escaped=False)]
    return Table(columns[:most], (_cells(line, most, escaped=escaped) for line in lines))


def csv_ids(path: str) -> Iterator[str]:
    """The ids in a results file: its first column."""
    with files.open_read(path) as stream:
        for [identifier] in read_csv(stream, most=1).rows:
            yield identifier or ""


def _records(stream: IO[bytes]) -> Iterator[str]:
    """Records with their ends: lines, or several where a line end is inside quotes."""
    held, quotes = b"", 0
    for line in files.lines(stream):
        held += line
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            yield held.decode()
            held, quotes = b"", 0
    if held:
        raise ValueError("the file ends inside of quotes")


def _cells(record: str, most: int | None, *, escaped: bool) -> list[str | None]:
    cells: list[str | None] = []
    at = 0
    while most is None or len(cells) < most:
        match = _CELL.match(record, at)
        if match is None:
            raise ValueError(f"not a row of results in CSV: {record[:60]!r}")
        quoted, plain, end = match.groups()
        text = plain or None if quoted is None else quoted.replace('""', '"')
        cells.append(text[1:] if escaped and text and _ESCAPED.match(text) else text)
        if end != ",":
            break
        at = match.end()
    return cells


def _cell(value: object, escape: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, int, float)):
        return compact_json(value)
    text = as_text(value)
    return _text(f"'{text}" if escape and _FORMULA.match(text) else text)


def _text(text: str) -> str:
    if text and not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'

"""CSV and TSV (RFC 4180): a header, then a record in each row, all values text exactly as they stand.

Fields in double quotes may hold delimiters, line ends, and quotes that are doubled. Lines end with LF, CRLF or CR. A
quote that is never closed would make all the rest of a file one field: the file is then cut there.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from transforms.formats.lines import Encoding, cut_message, open_text
from transforms.formats.spans import Cut, InputError, InputFile, Located, Reading, Span, whole
from transforms.parse import REPLACEMENT, BadRow, identified, is_clean, replaced
from transforms.unpack import Damaged

MAX_ROW_CHARS = 64 * 1024 * 1024  # a row that is longer must be a quote that is never closed
DELIMITERS = ",;\t|"  # looked for in the header, the first of those that are there equally often

_SEPARATOR_LINE = "sep="  # as spreadsheets write before the header, to say the delimiter
_NUL = "\udc00"  # stands for NUL while a row is taken apart: Python 3.10 refuses that; no encoding gives it


class _TooLong(Exception):
    pass


def columns(item: InputFile, reading: Reading) -> list[str]:
    """The header's names; none for an empty file."""
    with _Table(whole(item), reading) as table:
        return table.header


def split(item: InputFile, _length: int, _reading: Reading) -> Iterator[Span]:
    """A file is a span: where a row begins can only be known from the file's beginning."""
    if item.size:
        yield Span(item.path, item.number, 0, None, item.format)


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """A row for each row after the header. Raises InputError for a header that is none."""
    id_column = reading.id_in(span.format)
    with _Table(span, reading) as table:
        header = table.header
        count = len(header)
        for position, values, text in table.rows():
            if isinstance(values, str):
                yield (
                    Cut(position, cut_message(values))
                    if text is None
                    else Located(position, BadRow("bad_record", f"not {span.format.upper()}: {values}", text))
                )
            elif text is not None:
                message = f"not {table.encoding.name}: bytes that are no character, in their place stands {REPLACEMENT}"
                yield Located(position, BadRow("bad_encoding", message, text))
            elif len(values) != count:
                fields = f"{len(values)} field{'s' * (len(values) != 1)}"
                yield Located(position, BadRow("bad_record", f"{fields} in a row, the header has {count}", values))
            else:
                record = dict(zip(header, values, strict=True))
                yield Located(position, identified(record, id_column, record.get(id_column or "")))


class _Lines:
    """Lines for the csv module, which asks for as many as a row needs; knows where it is and what it has given."""

    def __init__(self, text: TextIO, encoding: Encoding) -> None:
        self._text = text
        self._encoding = encoding
        self._left = MAX_ROW_CHARS
        self.position = encoding.mark
        self.ended = False
        self.given: list[str] = []  # of the row at hand
        self.ascii, self.nul = True, False  # whether these are, and whether a NUL is in them
        self._peeked = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._peeked or self._text.readline(self._left + 1)
        self._peeked = ""
        if not line:
            self.ended = True
            raise StopIteration
        self.given.append(line)
        self._left -= len(line)
        if self._left < 0:
            raise _TooLong
        self.ascii = self.ascii and line.isascii()
        if "\0" in line:
            self.nul = True
            return line.replace("\0", _NUL)
        return line

    def peek(self) -> str:
        """The next line that is not blank, which is given all the same. Empty where there is none."""
        while True:
            try:
                self._peeked = self._text.readline(self._left + 1)
            except Damaged:
                return ""  # and again when it is asked for
            if not self._peeked or self._peeked.strip("\r\n"):
                return self._peeked
            next(self)

    def begin_row(self) -> None:
        """The row before is done with."""
        self.position += sum(map(self._encoding.size, self.given))
        self.given.clear()
        self._left = MAX_ROW_CHARS
        self.ascii, self.nul = True, False


class _Table:
    """An open file, read up to the end of its header."""

    def __init__(self, span: Span, reading: Reading) -> None:
        # Fields of any length. It holds for all of the process, and nothing else in it counts on a limit.
        csv.field_size_limit(sys.maxsize)
        self._path = span.path
        self._stream, self.encoding = open_text(span.path, reading.encoding)
        try:
            self._lines = _Lines(self._stream, self.encoding)
            self._delimiter = reading.delimiter or ("\t" if span.format == "tsv" else None)
            self.header = self._header()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stream.close()

    def rows(self) -> Iterator[tuple[int, list[str] | str, str | None]]:
        """Position and values of each row. Where the bytes are no characters also its text, to be set aside with;
        a row that is broken has a message in place of values, and the file's rest a message without a text."""
        lines = self._lines
        reader = csv.reader(lines, delimiter=self._delimiter or ",", strict=True)
        while not lines.ended:
            lines.begin_row()
            try:
                values = next(reader)
            except StopIteration:
                return
            except Damaged as error:
                yield lines.position, str(error), None
                return
            except _TooLong:
                yield lines.position, f"a row of more than {MAX_ROW_CHARS:,} characters, is a quote not closed?", None
                return
            except csv.Error as error:
                if lines.ended:
                    yield lines.position, "a quote in the row that begins here is never closed", None
                    return
                yield lines.position, str(error), replaced("".join(lines.given))
                continue
            if not values:  # a blank line
                continue
            if not lines.ascii:
                text = "".join(lines.given)
                if not is_clean(text):
                    yield lines.position, values, replaced(text)
                    continue
            if lines.nul:
                values = [value.replace(_NUL, "\0") for value in values]
            yield lines.position, values, None

    def _header(self) -> list[str]:
        if self._delimiter is None:
            self._delimiter = self._found_delimiter()
        for _position, values, text in self.rows():
            if isinstance(values, str) or text is not None:
                said = values if isinstance(values, str) else f"not {self.encoding.name}, see input.encoding"
                raise InputError(f"{self._path}: the header cannot be read: {said}")
            if "" in values:
                raise InputError(f"{self._path}: column {values.index('') + 1} of the header has no name")
            name, count = Counter(values).most_common(1)[0]
            if count > 1:
                raise InputError(f"{self._path}: {count} columns of the header are named {name!r}")
            return values
        return []

    def _found_delimiter(self) -> str:
        line = self._lines.peek()
        said = line.rstrip("\r\n").removeprefix(_SEPARATOR_LINE)
        if line.startswith(_SEPARATOR_LINE) and len(said) == 1:
            next(self._lines)
            return said
        outside = "".join(line.split('"')[::2])
        return max(DELIMITERS, key=outside.count)

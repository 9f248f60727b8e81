"""Plain text: each line is a record with one column, text. Lines that are the same are one record."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.formats.lines import read_lines, split_lines
from transforms.formats.spans import Cut, InputFile, Located, Reading, Span
from transforms.parse import BadRow, decoded, identified

TEXT = "text"


def columns(_item: InputFile, _reading: Reading) -> list[str]:
    """The only column."""
    return [TEXT]


def split(item: InputFile, length: int, reading: Reading) -> Iterator[Span]:
    """Spans of lines."""
    return split_lines(item, length, reading.encoding)


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """A row for each line that is not blank."""
    id_column = reading.id_in(span.format)
    for line in read_lines(span, reading.encoding):
        if isinstance(line, Cut):
            yield line
            continue
        text = decoded(line.text)
        if isinstance(text, BadRow):
            yield Located(line.position, text)
        else:
            fields = {TEXT: text}
            yield Located(line.position, identified(fields, id_column, fields.get(id_column or "")))

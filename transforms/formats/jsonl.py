"""JSON Lines: a JSON object in each line."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.formats.lines import read_lines, split_lines
from transforms.formats.spans import Cut, InputFile, Located, Reading, Span, whole
from transforms.parse import parse_json_line

_LOOKED_AT = 100  # records at a file's front, whose keys are taken for its columns


def columns(item: InputFile, reading: Reading) -> list[str]:
    """The keys of a file's first records; none where it has none."""
    found: dict[str, None] = {}
    left = _LOOKED_AT
    for row in read(whole(item), reading):
        if isinstance(row, Located) and isinstance(row.found.fields, dict):
            found.update(dict.fromkeys(row.found.fields))
        left -= 1
        if not left:
            break
    return list(found)


def split(item: InputFile, length: int, reading: Reading) -> Iterator[Span]:
    """Spans of lines."""
    return split_lines(item, length, reading.encoding)


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """A row for each line that is not blank."""
    id_column = reading.id_in(span.format)
    for line in read_lines(span, reading.encoding):
        yield line if isinstance(line, Cut) else Located(line.position, parse_json_line(line.text, id_column))

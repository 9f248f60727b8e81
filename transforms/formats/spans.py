"""What every format shares: the files, the ranges they are read in, and what is found there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from transforms.parse import BadRow, Parsed

NUMBER_DIGITS = 6  # of a file's number
DEFAULT_ID = "id"

# Formats without a column named id: what the default stands for there. None: a hash of the record's content.
_DEFAULT_IDS = {"text": None, "file": "path", "openai_batch": "custom_id"}


class InputError(ValueError):
    """The input cannot be read at all; the message names the file or the pattern."""


@dataclass(frozen=True)
class Reading:
    """How input files are read, as a user sets it. `format` may be auto: then each file's own is found out."""

    id_column: str | None = DEFAULT_ID
    format: str = "auto"
    delimiter: str | None = None
    encoding: str = "utf-8"

    def id_in(self, format: str) -> str | None:
        """The id column of files of that format, None for a hash of the content."""
        return _DEFAULT_IDS.get(format, DEFAULT_ID) if self.id_column == DEFAULT_ID else self.id_column


class InputFile(NamedTuple):
    """An input file; `number` is its place among all of them, sorted by path. `format` is never auto."""

    path: str
    number: int
    size: int
    format: str = "jsonl"


class Span(NamedTuple):
    """A range of one file: the lines that start at bytes `start` to `end` (excluded), or the row groups `start` to
    `end`. `end` is None for all the rest, as in a file that can only be read from its beginning."""

    path: str
    number: int
    start: int
    end: int | None
    format: str = "jsonl"

    @property
    def key(self) -> str:
        """A short name, unique in a run, that sorts like the input. Safe in a file name."""
        return f"{self.number:0{NUMBER_DIGITS}d}-{self.start:011x}"


class Located(NamedTuple):
    """What stands at a position, which sorts like the file: a byte after decompression, or the number of a row."""

    position: int
    found: Parsed | BadRow


class Cut(NamedTuple):
    """Takes the place of all that could not be read: the file ended early or its packing is damaged."""

    position: int
    message: str


class Format(Protocol):
    """What a module of this package does for its format. All of it raises OSError for a file that cannot be opened."""

    def columns(self, item: InputFile, reading: Reading) -> list[str]:
        """The columns of a file, looked up without reading all of it. Raises InputError where it cannot be read."""

    def split(self, item: InputFile, length: int, reading: Reading) -> Iterator[Span]:
        """Cuts a file into spans of about `length` bytes; one that can only be read from its beginning is one."""

    def read(self, span: Span, reading: Reading) -> Iterator[Located | Cut]:
        """The rows of a span in order."""


def whole(item: InputFile) -> Span:
    """The span that is all of a file."""
    return Span(item.path, item.number, 0, None, item.format)

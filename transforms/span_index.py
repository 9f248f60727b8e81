"""What a run's journal already holds of some spans, as digests and places: 24 bytes an outcome. Rows stay on disk.

Files are read once, and then only for what was added to them.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms import files
from transforms.digests import SIZE, sort_order
from transforms.files import FileInfo
from transforms.journal import WHOLE, Entry, decode, journal_files, numbered_path, spans_of

OFFSET_BITS = 44  # of a place in a journal: files up to 16 TiB

_HELD_OBJECTS = 4  # of a store, whose lines are read one by one: each holds as much as was rolled at once
_BLOCK_BYTES = 1 << 20
_LINE_BYTES = 4096  # read at once of a line: most are shorter


class SpanIndex:
    """Safe for threads. Each instance of a step has its own."""

    def __init__(self, folder: str) -> None:
        self._lock = threading.Lock()
        self._files = _NumberedFiles(folder) if files.is_local(folder) else _Objects(folder)
        self._numbers: dict[str, int] = {}  # of files that were read, by path
        self._paths: list[str] = []  # the other way round
        self._read: list[int] = []  # how far each of them was read, in bytes
        self._segments: dict[str, list[_Segment]] = {}
        self._held: dict[str, bytes] = {}  # objects

    def refresh(self) -> None:
        """Has the next load look for new objects, which costs a request on a store; elsewhere each load looks."""
        self._files.refresh()

    def load(self, span: str, own: str | None = None) -> None:
        """Reads what is new about one span, save in the file `own`, which the caller writes itself. Where nothing is
        new it takes about a microsecond a file. Raises OSError."""
        with self._lock:
            for info in self._files.of(span, own):
                number = self._numbers.get(info.path)
                if info.size > (0 if number is None else self._read[number]):
                    self._add(info.path)

    def find(self, span: str, digest: bytes) -> Entry | None:
        """The outcome of a record of a span, as of its last load, or None. Raises OSError."""
        with self._lock:
            for segment in self._segments.get(span, ()):
                # Several places: where a line turns out damaged, another file's may be whole.
                for place in segment.places_of(digest):
                    entry = decode(self._line(self._paths[place >> OFFSET_BITS], place & ((1 << OFFSET_BITS) - 1)))
                    if entry is not None:
                        return entry
            return None

    def _add(self, path: str) -> None:
        number = self._numbers.setdefault(path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(path)
            self._read.append(0)
        digests, offsets, self._read[number] = scan(path, self._read[number])
        if offsets:
            places = np.frombuffer(offsets, np.uint64) | np.uint64(number << OFFSET_BITS)
            segment = _segment(digests, places)
            for span in spans_of(path):
                _merge(self._segments.setdefault(span, []), segment)

    def _line(self, path: str, offset: int) -> bytes:
        if files.is_local(path):
            return _local_line(path, offset)
        held = self._held.pop(path, None)
        if held is None:  # a request a line would cost more than the line
            with files.open_read(path) as stream:
                held = stream.read()
            if len(self._held) >= _HELD_OBJECTS:
                del self._held[next(iter(self._held))]
        self._held[path] = held  # the last one used is the last to go
        return held[offset : held.index(b"\n", offset) + 1]


class Found(NamedTuple):
    """Outcomes in a journal file: their digests, joined, and offsets; and where the first line after them begins."""

    digests: bytes
    offsets: array[int]
    end: int


def scan(path: str, start: int) -> Found:
    """The outcomes in a journal file from byte `start` on, by lines that are complete; damage inside a line is told
    only by whoever reads the row. Raises OSError."""
    digests, offsets, rest = bytearray(), array("Q"), b""
    with files.open_read(path) as stream:
        stream.seek(start)
        while block := stream.read(_BLOCK_BYTES):  # by lines of a stream it would take half as long again
            block = rest + block
            hexadecimal: list[bytes] = []
            at = 0
            while (end := block.find(b"\n", at)) >= 0:
                match = WHOLE.match(block, at, end)
                if match and block.endswith(b"}", at, end):
                    hexadecimal.append(match[1])
                    offsets.append(start + at)
                at = end + 1
            digests += bytes.fromhex(b"".join(hexadecimal).decode())
            rest = block[at:]
            start += at
    return Found(bytes(digests), offsets, start)


class _Segment(NamedTuple):
    """Digests, sorted, and the place of each: a file's number, then an offset in it."""

    blob: bytes
    values: npt.NDArray[np.void]
    places: npt.NDArray[np.uint64]

    def places_of(self, digest: bytes) -> Iterator[int]:
        at = int(self.values.searchsorted(digest))
        while self.blob[at * SIZE : (at + 1) * SIZE] == digest:
            yield int(self.places[at])
            at += 1


def _segment(digests: bytes, places: npt.NDArray[np.uint64]) -> _Segment:
    order = sort_order(digests)
    blob = np.frombuffer(digests, dtype=(np.void, SIZE))[order].tobytes()
    return _Segment(blob, np.frombuffer(blob, f"S{SIZE}"), places[order])


def _merge(segments: list[_Segment], new: _Segment) -> None:
    """Adds a segment. What comes line by line is joined, so that there are few to search: each at least twice as long
    as the next."""
    while segments and len(segments[-1].places) < 2 * len(new.places):
        last = segments.pop()
        new = _segment(last.blob + new.blob, np.concatenate((last.places, new.places)))
    segments.append(new)


class _NumberedFiles:
    """The files of a span where they can be appended to: numbered from 1, so that no folder has to be listed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[str, list[str]] = {}  # by span; the last one of each is not there yet

    def refresh(self) -> None:
        """Nothing is remembered that could be out of date."""

    def of(self, span: str, own: str | None) -> Iterator[FileInfo]:
        """All but `own`, each with its present size."""
        known = self._known.get(span)
        if known is None:
            known = self._known[span] = [numbered_path(self._folder, span, 1)]
        while os.access(known[-1], os.F_OK):
            known.append(numbered_path(self._folder, span, len(known) + 1))
        for path in known[:-1]:
            if path != own:
                yield FileInfo(path, _size(path))


class _Objects:
    """The objects of a store that speak of a span, as of the last listing: all are listed at once, when asked to."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stale = True
        self._new: dict[str, list[FileInfo]] = {}  # by span

    def refresh(self) -> None:
        """The next look lists them."""
        self._stale = True

    def of(self, span: str, _own: str | None) -> Iterable[FileInfo]:
        """Those that no look at this span has given since the last listing."""
        if self._stale:
            self._new = {}
            for info in journal_files(self._folder):
                for each in spans_of(info.path):
                    self._new.setdefault(each, []).append(info)
            self._stale = False
        return self._new.pop(span, ())


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:  # the run is published: nothing is left to do
        return 0


def _local_line(path: str, offset: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        line = b""
        while b"\n" not in line:
            read = os.pread(descriptor, _LINE_BYTES, offset + len(line))
            if not read:
                return line
            line += read
        return line[: line.index(b"\n") + 1]
    finally:
        os.close(descriptor)

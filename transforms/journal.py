"""The journal: every outcome of a call, on disk the moment it arrives.

One folder a run, one file for each span and instance that works on it, one line for each outcome:

    {"digest":"<32 hex digits>","outcome":"ok"|"dead_letter","row":{...}}

and where the run's account is to know more of it than the row holds, `"notes":{"<name>":<count>}` after the row.
On a store one object holds the outcomes of several spans: see rolled_journal.py.
A file has one writer and is never opened for writing again, so a torn tail costs only itself. Lines are ASCII and
go to the kernel in one write each, so that kill -9 cuts nothing but the line being written. What is called again
after an engine repeats work is decided by reading the span's files (`SpanIndex`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms import files
from transforms.digests import SIZE, DigestSet, sort_order
from transforms.records import Row
from transforms.reserve import Reserve

OK = "ok"
DEAD_LETTER = "dead_letter"
SUFFIX = ".jsonl"
HEADER_FILE = "run.json"  # says what run it is: there before the first line, gone when the run is published
SPAN_SEPARATOR = "_"  # in the name of a file that holds the outcomes of several spans
OFFSET_BITS = 44  # of a place in a journal: files up to 16 TiB

_HELD_OBJECTS = 4  # of a store, whose lines are read one by one: each holds as much as was rolled at once
_HEAD = b'{"digest":"'
_WHOLE = re.compile(rb'\{"digest":"([0-9a-f]{32})","outcome":"(ok|dead_letter)",')


class Entry(NamedTuple):
    """One outcome: OK with a result row, or DEAD_LETTER with a failure row. `notes` are counts for the account."""

    digest: bytes
    outcome: str
    row: Row
    notes: dict[str, int] = {}  # noqa: RUF012 - a NamedTuple; nobody changes an entry


def encode(entry: Entry) -> bytes:
    """An entry as a journal line. Raises ValueError for what strict JSON cannot hold."""
    row = json.dumps(entry.row, separators=(",", ":"), allow_nan=False)
    notes = f',"notes":{json.dumps(entry.notes, separators=(",", ":"))}' if entry.notes else ""
    return f'{{"digest":"{entry.digest.hex()}","outcome":"{entry.outcome}","row":{row}{notes}}}\n'.encode()


def decode(line: bytes) -> Entry | None:
    """The entry of a journal line, with or without its line end; None for a torn or damaged one."""
    try:
        value = json.loads(line)
        return Entry(bytes.fromhex(value["digest"]), value["outcome"], value["row"], value.get("notes", {}))
    except (ValueError, TypeError, KeyError):
        return None


class JournalFile:
    """Writes the outcomes of one span in one DoFn instance. `append` may be called by many threads at once."""

    def __init__(self, folder: str, span: str, reserve: Reserve | None = None) -> None:
        self._reserve = reserve
        self._path = files.join(folder, f"{span}-{uuid.uuid4().hex[:12]}{SUFFIX}")
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._torn = False  # the last line was written in part

    def append(self, entry: Entry) -> None:
        """Writes an outcome before anybody sees it. Raises OSError, naming the file, where that is not possible."""
        line = encode(entry)
        with self._lock:
            descriptor = self._open()
            if os.fstat(descriptor).st_nlink == 0:  # writing still works, and nobody would ever read it
                raise FileNotFoundError(errno.ENOENT, "removed while the run was on", self._path)
            if self._torn:  # or the line would be lost with the part before it
                line = b"\n" + line
            written = 0
            while written < len(line):  # a disk that is almost full takes a part
                try:
                    written += os.write(descriptor, line[written:])
                except OSError as error:
                    if self._reserve is not None and self._reserve.give(error):
                        continue
                    self._torn = self._torn or written > 0
                    raise OSError(error.errno, error.strerror, self._path) from None
            self._torn = False

    def _open(self) -> int:
        while self._descriptor is None:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o644)
            except OSError as error:
                if self._reserve is None or not self._reserve.give(error):
                    raise
        return self._descriptor

    def close(self) -> None:
        """Closes the file. Nothing is lost without it: lines are not buffered here."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def journal_files(folder: str) -> list[files.FileInfo]:
    """The files with outcomes in a run's journal folder, sorted by path. Empty where there is no such folder."""
    return [info for info in files.listing(folder) if info.path.endswith(SUFFIX)]


def read(path: str) -> Iterator[Entry | None]:
    """The entries of a journal file in order, None in the place of each line that is torn or damaged."""
    with files.open_read(path) as stream:
        for line in files.lines(stream):
            if line.strip(b"\0\r\n "):
                yield decode(line)


def heads(path: str) -> Iterator[tuple[str, bytes]]:
    """Outcome and digest of each line of a journal file that is whole, mostly without reading its row."""
    with files.open_read(path) as stream:
        for line in files.lines(stream):
            match = _WHOLE.match(line)
            # A line without its end may be torn where a brace closes; two heads in one may be a torn line and the next.
            if match and ((line.endswith(b"}}\n") and line.count(_HEAD) == 1) or decode(line) is not None):
                yield match[2].decode(), bytes.fromhex(match[1].decode())


class SpanIndex:
    """What a run's journal already holds of some spans, as digests and places; rows stay on disk.

    24 bytes an outcome. Files are read once and then only for what was added to them.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, list[files.FileInfo]] = {}
        self._read: dict[str, int] = {}  # how far each file was read, in bytes
        self._paths: list[str] = []
        self._segments: dict[str, list[tuple[DigestSet, npt.NDArray[np.uint64]]]] = {}
        self._objects: dict[str, bytes] = {}

    def refresh(self) -> None:
        """Looks which files there are now. To be called when a bundle begins: it may repeat an earlier one."""
        self._files = {}
        for info in journal_files(self._folder):
            for span in spans_of(info.path):
                self._files.setdefault(span, []).append(info)

    def load(self, span: str) -> None:
        """Reads what is new about one span, as of the last refresh."""
        for info in self._files.pop(span, ()):
            start = self._read.get(info.path, 0)
            if info.size <= start:
                continue
            found = bytearray()
            places: list[int] = []
            self._paths.append(info.path)
            for offset, line in whole_lines(info.path, start):
                self._read[info.path] = offset + len(line)
                match = _WHOLE.match(line)
                if match and line.endswith(b"}\n"):
                    found += bytes.fromhex(match[1].decode())
                    places.append((len(self._paths) - 1) << OFFSET_BITS | offset)
            if places:  # a segment for each file: where a line turns out damaged, another file's may be whole
                order = sort_order(bytes(found))
                ids = np.frombuffer(bytes(found), dtype=(np.void, SIZE))[order].tobytes()
                segment = DigestSet(ids), np.array(places, dtype=np.uint64)[order]
                for each in spans_of(info.path):
                    self._segments.setdefault(each, []).append(segment)

    def find(self, span: str, digest: bytes) -> Entry | None:
        """The outcome of a record of a span, as of its last load, or None."""
        for segment, places in self._segments.get(span, ()):
            at = segment.find(digest)
            if at is not None:
                place = int(places[at])
                entry = decode(self._line(self._paths[place >> OFFSET_BITS], place & ((1 << OFFSET_BITS) - 1)))
                if entry is not None:
                    return entry
        return None

    def _line(self, path: str, offset: int) -> bytes:
        if files.is_local(path):
            with files.open_read(path) as stream:
                stream.seek(offset)
                return stream.readline()
        held = self._objects.pop(path, None)
        if held is None:  # a request a line would cost more than the line
            with files.open_read(path) as stream:
                held = stream.read()
            if len(self._objects) >= _HELD_OBJECTS:
                del self._objects[next(iter(self._objects))]
        self._objects[path] = held  # the last one used is the last to go
        return held[offset : held.index(b"\n", offset) + 1]


def spans_of(path: str) -> list[str]:
    """The spans whose outcomes are in a journal file, by its name."""
    return files.name(path).rsplit("-", 1)[0].split(SPAN_SEPARATOR)


def whole_lines(path: str, start: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a file from byte `start` on that are complete, each with its offset."""
    with files.open_read(path) as stream:
        stream.seek(start)
        for line in files.lines(stream):
            if not line.endswith(b"\n"):
                return
            yield start, line
            start += len(line)

"""The journal: every outcome of a call, on disk the moment it arrives.

One folder a run, one file for each span and instance that works on it, one line for each outcome:

    {"digest":"<32 hex digits>","outcome":"ok"|"dead_letter","row":{...}}

and where the run's account is to know more of it than the row holds, `"notes":{"<name>":<count>}` after the row.
On a store one object holds the outcomes of several spans: see rolled_journal.py.
A file has one writer and is never opened for writing again, so a torn tail costs only itself. Lines are ASCII and
go to the kernel in one write each, so that kill -9 cuts nothing but the line being written. A span's files are
numbered from 1 without gaps: whoever works on it finds those of others, at any time, without listing the folder.
What is called again after an engine repeats work is decided by reading them (span_index.py).
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Iterator
from typing import NamedTuple

from transforms import files
from transforms.records import Row
from transforms.reserve import Reserve

OK = "ok"
DEAD_LETTER = "dead_letter"
SUFFIX = ".jsonl"
HEADER_FILE = "run.json"  # says what run it is: there before the first line, gone when the run is published
SPAN_SEPARATOR = "_"  # in the name of a file that holds the outcomes of several spans
WHOLE = re.compile(rb'\{"digest":"([0-9a-f]{32})","outcome":"(ok|dead_letter)",')  # how a whole line begins

_HEAD = b'{"digest":"'


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
        self._place = folder, span
        self._path = ""
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._torn = False  # the last line was written in part

    @property
    def path(self) -> str | None:
        """Where it is, None before the first outcome."""
        return None if self._descriptor is None else self._path

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
        number = 1
        while self._descriptor is None:
            self._path = numbered_path(*self._place, number)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o644)
            except FileExistsError:
                number += 1
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
            match = WHOLE.match(line)
            # A line without its end may be torn where a brace closes; two heads in one may be a torn line and the next.
            if match and ((line.endswith(b"}}\n") and line.count(_HEAD) == 1) or decode(line) is not None):
                yield match[2].decode(), bytes.fromhex(match[1].decode())


def numbered_path(folder: str, span: str, number: int) -> str:
    """The path of a span's file with that number, on a file system that can append."""
    return files.join(folder, f"{span}-{number:06d}{SUFFIX}")


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

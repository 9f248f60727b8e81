"""Files as what they hold: gzip, bzip2 and Zstandard are told by their first bytes, whatever the name says.

Files of several members, streams or frames are read to the last. One that is cut or damaged gives all that can be
read of it and then raises Damaged: none of the libraries may make it a short file without an error.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

import zstandard

from transforms import files

_HEAD = 10  # bytes that tell the packing
_PACKED_BYTES = 4096  # read at once: what they may grow to is held in memory
_SMALL = 1 << 16

_GZIP = b"\x1f\x8b"
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)


class Damaged(Exception):
    """A packed file ends early or does not unpack. What came before it has been read."""


def open_plain(path: str) -> tuple[IO[bytes], bool]:
    """Opens a file for reading what it holds, unpacked if it is packed. Returns the stream and whether it was.

    Raises OSError; a packed stream raises Damaged where it is cut or damaged."""
    raw = files.open_read(path)
    head = raw.read(_HEAD)
    raw.seek(0)
    unpacked: _Unpacked
    if head.startswith(_GZIP):
        unpacked = _Gzip(raw)
    elif _BZIP2.match(head):
        unpacked = _Frames(raw, bz2.BZ2Decompressor, (OSError, ValueError))
    elif _ZSTD.match(head):
        unpacked = _Frames(raw, lambda: zstandard.ZstdDecompressor().decompressobj(), (zstandard.ZstdError,))
    else:
        return raw, False
    return cast("IO[bytes]", io.BufferedReader(unpacked, _SMALL)), True


class _Unpacked(io.RawIOBase):
    """A stream that closes the file below it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Gzip(_Unpacked):
    """The standard library's reader."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(raw)
        self._reader = gzip.GzipFile(fileobj=raw, mode="rb")

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._reader.read1(len(buffer))  # read() would lose what comes before a cut
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Damaged(str(error)) from None
        buffer[: len(data)] = data
        return len(data)


class _Frames(_Unpacked):
    """Frames, or streams, one after another, each unpacked by an object of its own. The readers of both libraries
    would not do: one takes a cut frame for the file's end, the other a damaged one."""

    def __init__(self, raw: IO[bytes], new: Callable[[], Any], problems: tuple[type[Exception], ...]) -> None:
        super().__init__(raw)
        self._new = new
        self._problems = problems
        self._frame: Any = None  # None: between two frames
        self._packed = b""
        self._plain = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            packed = self._packed or self._raw.read(_PACKED_BYTES)
            self._packed = b""
            if not packed:
                if self._frame is not None:
                    raise Damaged("the file ends within a frame")
                return 0
            if self._frame is None:
                self._frame = self._new()
            try:
                self._plain = memoryview(self._frame.decompress(packed))
            except self._problems as error:
                raise Damaged(str(error)) from None
            if self._frame.eof:
                self._packed = self._frame.unused_data
                self._frame = None
        count = min(len(buffer), len(self._plain))
        buffer[:count] = self._plain[:count]
        self._plain = self._plain[count:]
        return count

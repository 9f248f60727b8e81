"""The lines of a text file, ended by LF alone (one CR before it is dropped), so that U+2028, U+2029 and U+0085 stay
where they are; and its encoding, which a byte order mark tells before the settings do.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO, NamedTuple

from transforms.formats.spans import Cut, InputFile, Span
from transforms.unpack import Damaged, open_plain

_MARKS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
_MARK_BYTES = 3
_BAD = "\udcff"  # stands for bytes that are no character; as UTF-8 it is the byte 0xff, which is none either
_KEEP_BAD = "paidonce.keepbad"


def _keep_bad(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return _BAD, error.end
    if isinstance(error, UnicodeEncodeError):
        return b"\xff" * (error.end - error.start) * (2 if "16" in error.encoding else 1), error.end
    raise error


codecs.register_error(_KEEP_BAD, _keep_bad)


class Line(NamedTuple):
    """A line without its end, as UTF-8, and the byte at which it starts, after decompression."""

    position: int
    text: bytes


class Encoding(NamedTuple):
    """A file's encoding: how to decode it, and the length in bytes of its byte order mark."""

    name: str
    mark: int

    @property
    def is_utf8(self) -> bool:
        """Whether its bytes are UTF-8 as they stand."""
        return self.name == "utf-8"

    @property
    def errors(self) -> str:
        """An error handler that puts lone surrogates where bytes are no characters, so that a row can be told bad."""
        return "surrogateescape" if self.is_utf8 else _KEEP_BAD

    def size(self, text: str) -> int:
        """The bytes that `text` takes in the file."""
        return len(text) if self.is_utf8 and text.isascii() else len(text.encode(self.name, self.errors))


def encoding_of(head: bytes, stated: str) -> Encoding:
    """The encoding of a file that begins with `head`."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Encoding(name, len(mark))
    return Encoding(codecs.lookup(stated).name.removesuffix("-sig"), 0)


def open_text(path: str, stated: str) -> tuple[io.TextIOWrapper, Encoding]:
    """A file's text from after its byte order mark on, lines ended as they are: split at LF, CR and CRLF."""
    stream, _packed, encoding = _open(path, stated)
    stream.read(encoding.mark)
    return io.TextIOWrapper(stream, encoding.name, encoding.errors, newline=""), encoding


def split_lines(item: InputFile, length: int, stated: str) -> Iterator[Span]:
    """Cuts a file into spans of `length` bytes; one that is packed or not in UTF-8 is a single span."""
    stream, packed, encoding = _open(item.path, stated)
    stream.close()
    if packed or not encoding.is_utf8:
        yield Span(item.path, item.number, 0, None, item.format)
        return
    for start in range(0, item.size, length):
        yield Span(item.path, item.number, start, min(start + length, item.size), item.format)


def read_lines(span: Span, stated: str = "utf-8") -> Iterator[Line | Cut]:
    """The lines of a span, blank ones left out. A file that ends early gives a Cut in place of the rest."""
    stream, _packed, encoding = _open(span.path, stated)
    with stream:
        position = span.start
        try:
            if not encoding.is_utf8:
                yield from _decoded_lines(stream, encoding)
                return
            if position > 0:
                stream.seek(position - 1)
                position += len(stream.readline()) - 1  # a line that started before this span is not ours
            while span.end is None or position < span.end:
                raw = stream.readline()
                if not raw:
                    return
                line = raw[encoding.mark :] if position == 0 else raw
                line = line.rstrip(b"\n").removesuffix(b"\r")
                if line and not line.isspace():
                    yield Line(position, line)
                position += len(raw)
        except Damaged as error:
            yield Cut(position, cut_message(error))


def cut_message(error: object) -> str:
    """What a failure row says in the place of the rest of a file."""
    return f"the file cannot be read from here on: {error}"


def _decoded_lines(stream: IO[bytes], encoding: Encoding) -> Iterator[Line | Cut]:
    position = len(stream.read(encoding.mark))
    text = io.TextIOWrapper(stream, encoding.name, encoding.errors, newline="\n")
    try:
        for raw in text:
            line = raw.rstrip("\n").removesuffix("\r")
            if line and not line.isspace():
                yield Line(position, line.encode("utf-8", "surrogateescape"))
            position += encoding.size(raw)
    except Damaged as error:
        yield Cut(position, cut_message(error))


def _open(path: str, stated: str) -> tuple[IO[bytes], bool, Encoding]:
    stream, packed = open_plain(path)
    try:
        head = first_bytes(stream, _MARK_BYTES)
        if packed:  # not every packing can be sought in
            stream.close()
            stream, packed = open_plain(path)
        else:
            stream.seek(0)
    except BaseException:
        stream.close()
        raise
    return stream, packed, encoding_of(head, stated)


def first_bytes(stream: IO[bytes], count: int) -> bytes:
    """Up to `count` bytes from the front of a stream, fewer where it ends or is cut before."""
    found = b""
    try:
        while len(found) < count:
            block = stream.read1(count - len(found))  # type: ignore[attr-defined]
            if not block:
                break
            found += block
    except Damaged:
        pass
    return found

"""Ids as 16-byte digests in sorted arrays: a million ids are 16 MB, where Python strings would be 100.

A digest is BLAKE2b-128 of the id's UTF-8. At 10^9 ids the chance that any two of them share one is about 10^-21.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

SIZE = 16  # bytes of one digest


def digest(text: str) -> bytes:
    """The 16-byte digest of an id. The id must encode to UTF-8: ids with lone surrogates never get here."""
    return hashlib.blake2b(text.encode(), digest_size=SIZE).digest()


def prefix(value: bytes) -> int:
    """The first eight bytes of a digest as a number: enough to find candidates, never enough to be sure."""
    return int.from_bytes(value[:8], "big")


def pack(values: Iterable[bytes], chunk: int = 65_536) -> Iterator[bytes]:
    """Digests joined into blobs of up to `chunk` of them: what travels through a graph instead of single ids."""
    blob = bytearray()
    for value in values:
        blob += value
        if len(blob) >= chunk * SIZE:
            yield bytes(blob)
            blob.clear()
    if blob:
        yield bytes(blob)


def sort_order(blob: bytes) -> npt.NDArray[np.intp]:
    """The positions of a blob's digests in ascending order."""
    return np.frombuffer(blob, _dtype(SIZE)).argsort()


def merge(blobs: Iterable[bytes], size: int = SIZE) -> bytes:
    """Blobs of digests, or parts of them of `size` bytes, as one sorted blob without repeats. Sorts in place: twice the
    blob is held at most."""
    buffer = bytearray()
    for blob in blobs:
        buffer += blob
    values = np.frombuffer(buffer, _dtype(size))
    values.sort()
    repeated = values[1:] == values[:-1]
    if repeated.any():
        return bytes(values[np.append(True, ~repeated)].tobytes())
    return bytes(buffer)


class DigestSet:
    """A read-only set of digests, or parts of them of `size` bytes, over a sorted blob, as `merge` makes it. Lookups
    are binary searches in the blob."""

    def __init__(self, sorted_blob: bytes = b"", size: int = SIZE) -> None:
        self._blob = sorted_blob
        self._size = size
        self._values = np.frombuffer(sorted_blob, _dtype(size))

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: bytes) -> bool:
        return self.find(value) is not None

    def find(self, value: bytes) -> int | None:
        """The position of a digest in sorted order, or None."""
        if not self._blob:  # numpy's search lets other threads run, which costs more than it where many want to
            return None
        at = int(self._values.searchsorted(value))
        return at if self._blob[at * self._size : (at + 1) * self._size] == value else None


def _dtype(size: int) -> str:
    return f"S{size}"  # numpy compares these by bytes, in place, with nothing unpacked

"""A file as a listing gives it."""

from __future__ import annotations

from typing import NamedTuple


class FileInfo(NamedTuple):
    """A file and its size in bytes."""

    path: str
    size: int

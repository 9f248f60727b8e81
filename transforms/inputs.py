"""Which files are read, and what each of them is, before anything is read for good."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from transforms import files
from transforms.database import is_database
from transforms.file_info import FileInfo
from transforms.formats import openai_batch, parquet, sql
from transforms.formats.detect import format_of
from transforms.formats.spans import NUMBER_DIGITS, InputError, InputFile, Reading
from transforms.read import FORMATS

_AT_ONCE = 16  # files that are not local looked into: most of it is waiting


class Surveyed(NamedTuple):
    """What one file is. `columns` may be empty for a file without records; `types` are known of Parquet alone, and
    `parameters` are what the requests of a batch file ask for beside their messages."""

    item: InputFile
    columns: tuple[str, ...]
    types: dict[str, pa.DataType] | None
    parameters: dict[str, object]


def find_inputs(patterns: Sequence[str], query: str | None = None) -> list[InputFile]:
    """The files that match, each once, by their absolute paths and in that order: of a folder all that are in it and
    below, but none whose name, or whose folder's name, begins with . or _. A database is taken as a file, with `query`
    or the table that its URL names. Raises InputError for a pattern without any."""
    found: dict[str, int] = {}
    if not patterns:
        raise InputError("names no file")
    for pattern in patterns:
        if is_database(pattern):
            found[sql.source(pattern, query)] = 0
            continue
        matches = _matches(pattern)
        if not matches:
            raise InputError(f"no file matches {pattern!r}")
        found.update((_absolute(match.path), match.size) for match in matches)
    if len(found) > 10**NUMBER_DIGITS:
        raise InputError(f"{len(found):,} files match, {10**NUMBER_DIGITS:,} is the most: join small ones")
    return [
        InputFile(path, number, found[path], "sql" if is_database(path) else "jsonl")
        for number, path in enumerate(sorted(found))
    ]


def survey(inputs: Iterable[InputFile], reading: Reading) -> Iterator[Surveyed]:
    """Looks into each file. Raises InputError, naming it, for one that cannot be read; OSError."""
    look = partial(_survey, reading)
    inputs = list(inputs)
    if all(item.format == "sql" or files.is_local(item.path) for item in inputs):
        # In this thread, which Ctrl-C ends wherever it waits.
        yield from map(look, inputs)
        return
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield from pool.map(look, inputs)
    finally:
        pool.shutdown(cancel_futures=True)


def _survey(reading: Reading, item: InputFile) -> Surveyed:
    if item.format == "sql":
        return Surveyed(item, tuple(sql.columns(item, reading)), None, {})
    item = item._replace(format=format_of(item.path, reading.format, reading.encoding))
    if item.format == "parquet":
        types = parquet.types(item)
        return Surveyed(item, tuple(types), types, {})
    parameters: dict[str, object] = {}
    if item.format == "openai_batch":
        for body in openai_batch.bodies(item, reading):
            parameters.update(body)
    return Surveyed(item, tuple(FORMATS[item.format].columns(item, reading)), None, parameters)


def _matches(pattern: str) -> list[FileInfo]:
    if files.is_local(pattern) and os.path.isdir(pattern):
        return list(_below(pattern))
    found = [] if pattern.endswith("/") else files.glob(pattern)
    if not found and not files.is_local(pattern):  # where folders are only what paths speak of
        top = pattern.rstrip("/") + "/"
        below = files.glob(f"{top}**")
        return [info for info in below if not any(map(_is_hidden, info.path.removeprefix(top).split("/")))]
    return found


def _below(folder: str) -> Iterator[FileInfo]:
    for top, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in names:
            path = os.path.join(top, name)
            if not _is_hidden(name) and os.path.isfile(path):
                yield FileInfo(path, os.path.getsize(path))


def _absolute(path: str) -> str:
    """`path` for workers that are started in other folders."""
    return os.path.abspath(path) if files.is_local(path) else path


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))

"""Files on any of Beam's file systems, as bytes: the one place that opens, lists, moves and removes them.

Beam's own compression is switched off throughout: it goes by the file's name, which can lie, and it reads a cut
.gz as a short file without an error.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

_REMOVALS = 10  # of a folder in which others are still at work, until that is an error


class FileInfo(NamedTuple):
    """A file and its size in bytes."""

    path: str
    size: int


def open_read(path: str) -> IO[bytes]:
    """Opens a file for reading bytes. Raises OSError."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def create(path: str) -> IO[bytes]:
    """Opens a new file for writing bytes, with its folders. An existing one is replaced when this one is closed."""
    make_folder(parent(path))
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def make_folder(path: str) -> None:
    """Makes a folder and its parents where the file system has folders; an existing one is fine."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)


def parent(path: str) -> str:
    """The folder that holds `path`."""
    return str(FileSystems.split(path)[0])


def join(*parts: str) -> str:
    """A path out of its parts, in the way of the first part's file system."""
    return str(FileSystems.join(*parts))


def name(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system."""
    return FileSystems.get_scheme(path) is None


def glob(pattern: str) -> list[FileInfo]:
    """The files that match a glob, sorted by path. Empty where nothing does."""
    try:
        matches = FileSystems.match([pattern])[0].metadata_list
    except BeamIOError:
        return []
    return sorted(FileInfo(m.path, m.size_in_bytes) for m in matches)


def listing(folder: str) -> list[FileInfo]:
    """The files in a folder, not those in folders below it. Empty where there is no such folder."""
    if is_local(folder):
        try:
            with os.scandir(folder) as entries:
                return sorted(FileInfo(e.path, e.stat().st_size) for e in entries if e.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
    return [f for f in glob(join(folder, "*")) if parent(f.path).rstrip("/") == folder.rstrip("/")]


def subfolders(folder: str) -> list[str]:
    """The names of the folders in a folder, sorted. Where the file system has none, those that paths speak of."""
    if is_local(folder):
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
    return sorted({name(parent(info.path)) for info in glob(join(folder, "*", "*"))})


def exists(path: str) -> bool:
    """Whether there is a file at `path`."""
    return bool(FileSystems.exists(path))


def move(source: str, target: str) -> None:
    """Moves one file, replacing the target: atomic where the file system has an atomic rename."""
    make_folder(parent(target))
    if is_local(source) and is_local(target):
        os.replace(source, target)
        return
    if exists(target):
        FileSystems.delete([target])
    FileSystems.rename([source], [target])


def remove(paths: Iterable[str]) -> None:
    """Removes files; one that is not there is fine."""
    for path in paths:
        if is_local(path):
            try:
                os.remove(path)
            except FileNotFoundError:
                continue
        elif exists(path):
            FileSystems.delete([path])


def remove_folder(path: str) -> None:
    """Removes a folder with all that is in it; one that is not there is fine."""
    if is_local(path):
        _remove_tree(path)
    elif glob(join(path, "**")):
        FileSystems.delete([path])


def _remove_tree(path: str) -> None:
    for left in reversed(range(_REMOVALS)):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:  # the folder, or a file in it that somebody else has just removed
            if not os.path.isdir(path):
                return
        except OSError as error:  # or has just made
            if error.errno != errno.ENOTEMPTY or not left:
                raise
        else:
            return


def read_json(path: str) -> Any:
    """The value in a JSON file. Raises OSError, or ValueError where it isn't JSON."""
    with open_read(path) as stream:
        return json.loads(stream.read())


def write_json(path: str, value: Any) -> None:
    """Writes a value as a JSON file, whole or not at all."""
    aside = f"{path}.part"
    with create(aside) as stream:
        stream.write(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False).encode())
        stream.write(b"\n")
    move(aside, path)


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines of a byte stream, split at LF alone, as they are read."""
    return iter(stream.readline, b"")

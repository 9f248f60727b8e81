"""Files on any of Beam's file systems, as bytes: the one place that opens, lists, moves and removes them.

Local files by the operating system, all others by their store (store.py). Compression is never told by a file's name,
which can lie: Beam, which goes by it, reads a cut .gz as a short file without an error.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileSystem
from apache_beam.io.filesystems import FileSystems

from transforms import store
from transforms.file_info import FileInfo

__all__ = ["FileInfo"]

_REMOVALS = 10  # of a folder in which others are still at work, until that is an error


def open_read(path: str) -> IO[bytes]:
    """Opens a file for reading bytes. Raises OSError."""
    if not is_local(path):
        return store.of(path).open(path)
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def create(path: str) -> IO[bytes]:
    """Opens a new file for writing bytes, with its folders. An existing one is replaced when this one is closed."""
    if not is_local(path):
        return store.of(path).create(path)
    make_folder(parent(path))
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def make_folder(path: str) -> None:
    """Makes a folder and its parents where the file system has folders; an existing one is fine."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)


def parent(path: str) -> str:
    """The folder that holds `path`."""
    return os.path.dirname(path)


def join(*parts: str) -> str:
    """A path out of its parts."""
    return os.path.join(*parts)


def name(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system."""
    return FileSystems.get_scheme(path) is None


def glob(pattern: str) -> list[FileInfo]:
    """The files that match a glob, sorted by path. Empty where nothing does. `*` stops at a slash, `**` does not.
    Raises OSError where a store refuses to say."""
    if not is_local(pattern):
        pattern += "*" if pattern.endswith("/") else ""
        wanted = re.compile(FileSystem.translate_pattern(pattern))
        start = re.split(r"[\[*?]", pattern, maxsplit=1)[0]
        return sorted(info for info in store.of(pattern).under(start) if wanted.match(info.path))
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
    return sorted(store.of(folder).within(folder.rstrip("/"))[0])


def subfolders(folder: str) -> list[str]:
    """The names of the folders in a folder, sorted. Where the file system has none, those that paths speak of."""
    if is_local(folder):
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
    return sorted(store.of(folder).within(folder.rstrip("/"))[1])


def exists(path: str) -> bool:
    """Whether there is a file at `path`."""
    return bool(FileSystems.exists(path)) if is_local(path) else store.of(path).exists(path)


def move(source: str, target: str) -> None:
    """Moves one file, replacing the target: at once on a local path. On a store it is a copy and then a removal, so
    that a cut in between leaves both."""
    if not is_local(source):
        store.of(source).move(source, target)
        return
    make_folder(parent(target))
    os.replace(source, target)


def remove(paths: Iterable[str]) -> None:
    """Removes files; one that is not there is fine. All of them are on one file system."""
    paths = list(paths)
    if paths and not is_local(paths[0]):
        store.of(paths[0]).delete(paths)
        return
    for path in paths:
        try:
            os.remove(path)
        except FileNotFoundError:
            continue


def remove_folder(path: str) -> None:
    """Removes a folder with all that is in it; one that is not there is fine."""
    if is_local(path):
        _remove_tree(path)
    else:
        holder = store.of(path)
        holder.delete([info.path for info in holder.under(f"{path.rstrip('/')}/")])


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
    write(path, _json(value))


def put_json(path: str, value: Any) -> None:
    """Writes a value as a JSON file, whole or not at all, into a folder that is not made where it has gone: then it
    raises FileNotFoundError. A store has no folders."""
    if not is_local(path):
        write_json(path, value)
        return
    aside = f"{path}.part"
    try:
        with open(aside, "wb") as stream:
            stream.write(_json(value))
        os.replace(aside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(aside)
        raise


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"


def write(path: str, data: bytes) -> None:
    """Writes a file, whole or not at all; an existing one is replaced."""
    if not is_local(path):
        store.of(path).put(path, data)
        return
    aside = f"{path}.part"
    with create(aside) as stream:
        stream.write(data)
    move(aside, path)


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines of a byte stream, split at LF alone, as they are read."""
    return iter(stream.readline, b"")

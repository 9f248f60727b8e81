"""Objects of a store, reached through Beam's file systems: no folders, no append, no rename, whole objects only.

S3 has a way of its own (s3.py): Beam builds a client for each operation there, which costs more than the request.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Protocol

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.file_info import FileInfo

# By scheme: the extra of this package that it needs, and the module that this brings.
EXTRAS = {"s3": ("s3", "boto3"), "gs": ("gcs", "google.cloud.storage"), "azfs": ("azure", "azure.storage.blob")}


class Unsupported(OSError):
    """A path that cannot be reached from here; the message says what is missing."""


class Store(Protocol):
    """What is asked of a store. Everything raises OSError where the store refuses."""

    def open(self, path: str) -> IO[bytes]:
        """Opens an object for reading. Raises FileNotFoundError where there is none."""

    def create(self, path: str) -> IO[bytes]:
        """Opens a new object, which is there, whole, when it is closed."""

    def put(self, path: str, data: bytes) -> None:
        """Writes an object, whole or not at all; an existing one is replaced."""

    def exists(self, path: str) -> bool:
        """Whether there is an object."""

    def under(self, prefix: str) -> Iterator[FileInfo]:
        """All objects whose paths begin with `prefix`, at any depth."""

    def within(self, folder: str) -> tuple[list[FileInfo], list[str]]:
        """The objects right in a folder, and the names of the folders that paths speak of."""

    def move(self, source: str, target: str) -> None:
        """Copies an object, replacing the target, then removes the source: both are whole at any time."""

    def delete(self, paths: Sequence[str]) -> None:
        """Removes objects; one that is not there is fine."""


def of(path: str) -> Store:
    """The store that holds `path`. Raises Unsupported."""
    scheme = FileSystems.get_scheme(path)
    if scheme not in EXTRAS:
        raise Unsupported(f"{scheme}:// is not supported: only {', '.join(f'{each}://' for each in EXTRAS)} and files")
    extra, module = EXTRAS[scheme]
    try:
        importlib.import_module(module)
        FileSystems.get_filesystem(path)
    except (ImportError, ValueError):
        raise Unsupported(f"{scheme}:// needs a further package: pip install 'paidonce[{extra}]'") from None
    if scheme == "s3":
        from transforms.s3 import S3Store  # late: it needs a package that other stores do not

        return S3Store()
    return BeamStore()


class BeamStore:
    """Any of Beam's stores, by what its file systems have in common."""

    def open(self, path: str) -> IO[bytes]:
        """See Store."""
        with _errors(path):
            return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]

    def create(self, path: str) -> IO[bytes]:
        """See Store."""
        with _errors(path):
            return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]

    def put(self, path: str, data: bytes) -> None:
        """See Store."""
        with _errors(path):
            stream = self.create(path)
            stream.write(data)
            stream.close()

    def exists(self, path: str) -> bool:
        """See Store."""
        with _errors(path):
            return bool(FileSystems.exists(path))

    def under(self, prefix: str) -> Iterator[FileInfo]:
        """See Store."""
        with _errors(prefix):
            matches = FileSystems.match([f"{prefix}**"])[0].metadata_list
        return (FileInfo(each.path, each.size_in_bytes) for each in matches)

    def within(self, folder: str) -> tuple[list[FileInfo], list[str]]:
        """See Store. It costs a listing of all that is below."""
        found: list[FileInfo] = []
        names: set[str] = set()
        for info in self.under(f"{folder}/"):
            name, slash, _rest = info.path[len(folder) + 1 :].partition("/")
            if slash:
                names.add(name)
            else:
                found.append(info)
        return found, sorted(names)

    def move(self, source: str, target: str) -> None:
        """See Store."""
        with _errors(source):
            FileSystems.rename([source], [target])

    def delete(self, paths: Sequence[str]) -> None:
        """See Store."""
        for path in paths:
            with _errors(path):
                if FileSystems.exists(path):
                    FileSystems.delete([path])


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Stores' clients raise errors of their own; here they are OSErrors that name the path."""
    try:
        yield
    except BeamIOError as error:
        causes = [str(cause) for cause in (error.exception_details or {}).values()]
        raise OSError(f"{path}: {'; '.join(causes) or error}") from None
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{path}: {type(error).__name__}: {error}") from None

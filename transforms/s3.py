"""S3 and what speaks its protocol, as a store: see s3_client.py for why not by Beam's own file system."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from apache_beam.io.aws.s3io import parse_s3_path

from transforms.file_info import FileInfo
from transforms.s3_client import client, errors, place
from transforms.s3_reader import S3Reader
from transforms.s3_writer import S3Writer

READ_AHEAD = 256 * 1024  # bytes: as much as the shortest span
_DELETED_AT_ONCE = 1000  # keys in one request
_COPIED_AT_ONCE = 256 * 1024 * 1024  # bytes, of which a copy ends well before the client would give the answer up


class S3Store:
    """See store.Store."""

    def open(self, path: str) -> IO[bytes]:
        """See Store. One request, and one more for each jump."""
        return io.BufferedReader(S3Reader(path), READ_AHEAD)

    def create(self, path: str) -> IO[bytes]:
        """See Store. One request up to PART_BYTES. What is given up before it is closed is not there."""
        return cast("IO[bytes]", S3Writer(path))

    def put(self, path: str, data: bytes) -> None:
        """See Store."""
        with errors(path):
            client().put_object(**place(path), Body=data)

    def exists(self, path: str) -> bool:
        """See Store."""
        try:
            with errors(path):
                client().head_object(**place(path))
        except FileNotFoundError:
            return False
        return True

    def under(self, prefix: str) -> Iterator[FileInfo]:
        """See Store. A request for each 1,000 objects."""
        for page in _pages(prefix):
            yield from _files(page, prefix)

    def within(self, folder: str) -> tuple[list[FileInfo], list[str]]:
        """See Store. A request for each 1,000 objects and folders, whatever lies below these."""
        found: list[FileInfo] = []
        names: list[str] = []
        for page in _pages(f"{folder}/", Delimiter="/"):
            found += _files(page, folder)
            names += [each["Prefix"].rstrip("/").rsplit("/", 1)[-1] for each in page.get("CommonPrefixes", ())]
        return found, names

    def move(self, source: str, target: str) -> None:
        """See Store. S3 copies the object by itself, in parts where it is large."""
        with errors(source):
            old, new = place(source), place(target)
            if client().head_object(**old)["ContentLength"] <= _COPIED_AT_ONCE:
                client().copy_object(**new, CopySource=old)
            else:
                client().copy(old, new["Bucket"], new["Key"])
        self.delete([source])

    def delete(self, paths: Sequence[str]) -> None:
        """See Store. A request for each 1,000 objects."""
        for start in range(0, len(paths), _DELETED_AT_ONCE):
            places = [place(path) for path in paths[start : start + _DELETED_AT_ONCE]]
            with errors(paths[start]):
                if len(places) == 1:
                    client().delete_object(**places[0])
                    continue
                keys = {"Objects": [{"Key": each["Key"]} for each in places], "Quiet": True}
                failed = client().delete_objects(Bucket=places[0]["Bucket"], Delete=keys).get("Errors")
            if failed:
                raise OSError(errno.EIO, f"cannot be removed: {failed[0].get('Message')}", paths[start])


def _pages(prefix: str, **more: str) -> Iterator[dict[str, Any]]:
    with errors(prefix):
        bucket, start = parse_s3_path(prefix, object_optional=True)
        yield from client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start, **more)


def _files(page: dict[str, Any], prefix: str) -> list[FileInfo]:
    root = f"s3://{parse_s3_path(f'{prefix}/', object_optional=True)[0]}/"
    # A key that ends with a slash is what consoles make of a new folder.
    return [FileInfo(root + each["Key"], each["Size"]) for each in page.get("Contents", ()) if each["Key"][-1] != "/"]

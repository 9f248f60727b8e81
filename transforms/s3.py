"""Objects on S3 and what speaks its protocol, over one boto3 client a process, which Beam's own flags set up.

Beam's S3 file system builds a client for each operation (0.13 s of CPU), sends three requests for a small object,
reads 16 MB ahead where a span has 256 KB, waits for minutes on an endpoint that is not there, and completes an upload
that its writer has given up. So the requests are made here, and of Beam the client's settings are taken. boto3's
clients are safe for threads and repeat a request that failed for now, five times in all.
"""

from __future__ import annotations

import errno
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, cast

from apache_beam.io.aws.clients.s3 import boto3_client
from apache_beam.io.aws.s3io import parse_s3_path
from apache_beam.io.filesystems import FileSystems
from botocore.exceptions import BotoCoreError, ClientError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from transforms.store import FileInfo

READ_AHEAD = 256 * 1024  # bytes: as much as the shortest span
PART_BYTES = 8 * 1024 * 1024  # of an object that is sent in parts; 10,000 of them are the most there may be
_DELETED_AT_ONCE = 1000  # keys in one request
_COPIED_AT_ONCE = 256 * 1024 * 1024  # bytes, of which a copy ends well before the client would give the answer up

_lock = threading.Lock()
_made: tuple[Any, Any] | None = None  # the options that the client was built for, and the client


def client() -> Any:
    """The process's client, for the options that Beam's file systems have at this time."""
    global _made
    options = FileSystems.get_filesystem("s3://")._options
    with _lock:
        if _made is None or _made[0] is not options:
            _made = options, boto3_client.Client({} if options is None else options).client
        return _made[1]


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
        with _errors(path):
            client().put_object(**_place(path), Body=data)

    def exists(self, path: str) -> bool:
        """See Store."""
        try:
            with _errors(path):
                client().head_object(**_place(path))
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
        with _errors(source):
            old, new = _place(source), _place(target)
            if client().head_object(**old)["ContentLength"] <= _COPIED_AT_ONCE:
                client().copy_object(**new, CopySource=old)
            else:
                client().copy(old, new["Bucket"], new["Key"])
        self.delete([source])

    def delete(self, paths: Sequence[str]) -> None:
        """See Store. A request for each 1,000 objects."""
        for start in range(0, len(paths), _DELETED_AT_ONCE):
            places = [_place(path) for path in paths[start : start + _DELETED_AT_ONCE]]
            with _errors(paths[start]):
                if len(places) == 1:
                    client().delete_object(**places[0])
                    continue
                keys = {"Objects": [{"Key": place["Key"]} for place in places], "Quiet": True}
                failed = client().delete_objects(Bucket=places[0]["Bucket"], Delete=keys).get("Errors")
            if failed:
                raise OSError(errno.EIO, f"cannot be removed: {failed[0].get('Message')}", paths[start])


class S3Reader(io.RawIOBase):
    """An object's bytes, from any place on. A connection that breaks is opened again where it broke."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._position = 0
        with _errors(path):
            self._response: Any = client().get_object(**_place(path))
        self._size: int = self._response["ContentLength"]
        self._version: str = self._response["ETag"]

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a place: nothing is asked for before the next read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset != self._position:
            self._let_go()
            self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Reads up to len(buffer) bytes. Raises OSError, also where the object was replaced meanwhile."""
        count = min(len(buffer), self._size - self._position)
        if count <= 0:
            return 0
        with _errors(self._path):
            data = _READS(self._read, count)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Lets the connection go."""
        self._let_go()
        super().close()

    def _read(self, count: int) -> bytes:
        try:
            if self._response is None:
                wanted = f"bytes={self._position}-"
                self._response = client().get_object(**_place(self._path), Range=wanted, IfMatch=self._version)
            data: bytes = self._response["Body"].read(count)
            if not data:
                raise _Broken(error="the object ended early")
            return data
        except BotoCoreError:
            self._let_go()
            raise

    def _let_go(self) -> None:
        response, self._response = getattr(self, "_response", None), None
        if response is not None:
            response["Body"].close()


class S3Writer(io.RawIOBase):
    """A new object: sent in one request, or in parts where it is large. Without `close` it never is there."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._held = bytearray()
        self._length = 0
        self._upload: dict[str, str] | None = None
        self._parts: list[dict[str, Any]] = []

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes so far."""
        return self._length

    def write(self, data: Any) -> int:
        """Takes bytes. Raises OSError where the store refuses a part."""
        count = memoryview(data).nbytes
        self._held += data
        self._length += count
        if len(self._held) >= PART_BYTES:
            with _errors(self._path):
                self._send_part()
        return count

    def close(self) -> None:
        """Finishes the object: only now is it there. Raises OSError where the store refuses it."""
        if self.closed:
            return
        try:
            with _errors(self._path):
                if self._upload is None:
                    client().put_object(**_place(self._path), Body=bytes(self._held))
                else:
                    if self._held:
                        self._send_part()
                    client().complete_multipart_upload(**self._upload, MultipartUpload={"Parts": self._parts})
                    self._upload = None
        finally:
            self.discard()

    def discard(self) -> None:
        """Gives the object up."""
        if self.closed:
            return
        super().close()
        self._held.clear()
        if self._upload is not None:
            with suppress(BotoCoreError, ClientError):  # parts that stay are for the bucket's rules to remove
                client().abort_multipart_upload(**self._upload)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()  # or the base class would close, and so finish, what nobody finished

    def _send_part(self) -> None:
        if self._upload is None:
            place = _place(self._path)
            self._upload = {**place, "UploadId": client().create_multipart_upload(**place)["UploadId"]}
        number = len(self._parts) + 1
        sent = client().upload_part(**self._upload, PartNumber=number, Body=bytes(self._held))
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})
        self._held.clear()


class _Broken(BotoCoreError):
    fmt = "{error}"


# Of a connection that breaks while a body is read: what failed before that, boto3 has tried again itself.
_READS = Retrying(
    retry=retry_if_exception_type(BotoCoreError),
    stop=stop_after_attempt(5),
    wait=wait_exponential(multiplier=0.2, max=5),
    reraise=True,
)


def _place(path: str) -> dict[str, str]:
    bucket, key = parse_s3_path(path)
    return {"Bucket": bucket, "Key": key}


def _pages(prefix: str, **more: str) -> Iterator[dict[str, Any]]:
    with _errors(prefix):
        bucket, start = parse_s3_path(prefix, object_optional=True)
        yield from client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start, **more)


def _files(page: dict[str, Any], prefix: str) -> list[FileInfo]:
    root = f"s3://{parse_s3_path(f'{prefix}/', object_optional=True)[0]}/"
    # A key that ends with a slash is what consoles make of a new folder.
    return [FileInfo(root + each["Key"], each["Size"]) for each in page.get("Contents", ()) if each["Key"][-1] != "/"]


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        kind, number = {
            403: (PermissionError, errno.EACCES),
            404: (FileNotFoundError, errno.ENOENT),
        }.get(status, (OSError, errno.EIO))
        raise kind(number, str(error), path) from None
    except (BotoCoreError, ValueError) as error:
        raise OSError(errno.EIO, str(error), path) from None

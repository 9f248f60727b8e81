"""Reading an object on S3: by a stream that goes on where it broke, or jumps."""

from __future__ import annotations

import io
from typing import Any

from botocore.exceptions import BotoCoreError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from transforms.s3_client import client, errors, place


class S3Reader(io.RawIOBase):
    """An object's bytes, from any place on. A connection that breaks is opened again where it broke."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._position = 0
        with errors(path):
            self._response: Any = client().get_object(**place(path))
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
        with errors(self._path):
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
                self._response = client().get_object(**place(self._path), Range=wanted, IfMatch=self._version)
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


class _Broken(BotoCoreError):
    fmt = "{error}"


# Of a connection that breaks while a body is read: what failed before that, boto3 has tried again itself.
_READS = Retrying(
    retry=retry_if_exception_type(BotoCoreError),
    stop=stop_after_attempt(5),
    wait=wait_exponential(multiplier=0.2, max=5),
    reraise=True,
)

"""Writing an object on S3: whole, or never there."""

from __future__ import annotations

import io
from contextlib import suppress
from types import TracebackType
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from transforms.s3_client import client, errors, place

PART_BYTES = 8 * 1024 * 1024  # of an object that is sent in parts; 10,000 of them are the most there may be


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
            with errors(self._path):
                self._send_part()
        return count

    def close(self) -> None:
        """Finishes the object: only now is it there. Raises OSError where the store refuses it."""
        if self.closed:
            return
        try:
            with errors(self._path):
                if self._upload is None:
                    client().put_object(**place(self._path), Body=bytes(self._held))
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
            into = place(self._path)
            self._upload = {**into, "UploadId": client().create_multipart_upload(**into)["UploadId"]}
        number = len(self._parts) + 1
        sent = client().upload_part(**self._upload, PartNumber=number, Body=bytes(self._held))
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})
        self._held.clear()

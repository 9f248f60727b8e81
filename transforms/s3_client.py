"""The one boto3 client of a process, for S3 and what speaks its protocol; Beam's own flags set it up.

Beam's S3 file system builds a client for each operation (0.13 s of CPU), sends three requests for a small object,
reads 16 MB ahead where a span has 256 KB, waits for minutes on an endpoint that is not there, and completes an upload
that its writer has given up. So the requests are made here, and of Beam the client's settings are taken. boto3's
clients are safe for threads and repeat a request that failed for now, five times in all.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.io.aws.clients.s3 import boto3_client
from apache_beam.io.aws.s3io import parse_s3_path
from apache_beam.io.filesystems import FileSystems
from botocore.exceptions import BotoCoreError, ClientError

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


def place(path: str) -> dict[str, str]:
    """A path as the client's requests name it. Raises ValueError."""
    bucket, key = parse_s3_path(path)
    return {"Bucket": bucket, "Key": key}


@contextmanager
def errors(path: str) -> Iterator[None]:
    """Within it the client's errors are OSErrors that name the path."""
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

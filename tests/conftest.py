"""An S3 server on the loopback interface, in memory, as a process of its own: moto's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PATIENCE = 60.0  # seconds until the server must be there
REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "test-access-key", "AWS_SECRET_ACCESS_KEY": "test-secret-key"}


class S3Server(NamedTuple):
    """A running server, and a bucket on it that the test has to itself."""

    url: str
    bucket: str
    client: Any  # boto3's
    log: Path

    @property
    def root(self) -> str:
        """The bucket's path."""
        return f"s3://{self.bucket}"

    def environment(self) -> dict[str, str]:
        """What a process needs to reach it."""
        return {**KEYS, "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL_S3": self.url}

    def put(self, key: str, data: bytes) -> str:
        """Writes an object and returns its path."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)
        return f"{self.root}/{key}"

    def get(self, key: str) -> bytes:
        """An object's bytes."""
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return data

    def keys(self, prefix: str = "") -> list[str]:
        """All keys that begin so, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))

    def requests(self, pattern: str = "") -> list[str]:
        """Lines of the server's log about this bucket, e.g. `PUT /bucket/key`, that match."""
        lines = re.findall(rf'"(\w+ /{self.bucket}\S*) HTTP', self.log.read_text(encoding="utf-8", errors="replace"))
        return [line for line in lines if re.search(pattern, line)]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("moto")
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("wb") as stream:
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env={**os.environ, **KEYS})
    end = time.monotonic() + PATIENCE
    while (found := re.search(rb"http://127\.0\.0\.1:[1-9]\d*", log.read_bytes())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, "the S3 server does not answer"
        time.sleep(0.05)
    url = found[0].decode()
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
    yield S3Server(url, "", client, log)
    client.close()
    process.terminate()
    process.wait(PATIENCE)


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A bucket of its own, which this process reaches too."""
    server = s3_server._replace(bucket=f"bucket-{uuid.uuid4().hex[:12]}")
    server.client.create_bucket(Bucket=server.bucket)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server

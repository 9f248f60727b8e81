"""Servers that tests write to. S3, in memory, as a process of its own: moto's. PostgreSQL of their own, where its
binaries are installed, beside SQLite. Redis, where that is installed."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.ports import free_port

PATIENCE = 60.0  # seconds until the server must be there
REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "test-access-key", "AWS_SECRET_ACCESS_KEY": "test-secret-key"}


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes that are no text name a test by their argument: what a compressor wrote says when, and processes that share
    the tests out have to name them alike."""
    return argname if isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable()) else None


@pytest.fixture(scope="session", autouse=True)
def signals_end_programs() -> None:
    """Programs that tests start heed SIGHUP and SIGINT also where the tests themselves were started with nohup, or in
    a script's background: who is started inherits what is ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


_numbers = itertools.count()


class PostgreSQL:
    """A cluster that is ours alone, on a port of the loopback interface, with a database for each test."""

    def __init__(self, binaries: Path, folder: Path, as_user: list[str]) -> None:
        self._binaries, self._data, self._as_user = binaries, folder / "data", as_user
        self._log = folder / "log"
        self.port = free_port()
        # Text in another order than code points, as most servers have it: nothing may rely on "C" being the default.
        initdb = ["initdb", "-D", str(self._data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run(*initdb, "--locale-provider=icu", "--icu-locale=en-US")
        self.start()

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._log), "-w", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def url(self, user: str = "tester", database: str = "postgres") -> str:
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"

    def new(self) -> str:
        """The URL of a new database."""
        name = f"test{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(database=name)

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs one statement."""
        import psycopg

        where = f"host=127.0.0.1 port={self.port} user=tester dbname={database}"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._binaries / program), *arguments]
        # Not to a pipe: the server keeps what it inherits open for as long as it runs.
        done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, f"{program} ended with {done.returncode}: {self._log}"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A running server. Skips where PostgreSQL, 15 or later, or the package psycopg is not installed."""
    pytest.importorskip("psycopg")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    binaries = places[-1] if places else Path(on_path).parent if on_path else None
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
    folder, as_user = Path(tempfile.mkdtemp(prefix="paidonce-pg-")), []
    try:
        if os.geteuid() == 0:  # which initdb refuses
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        server = PostgreSQL(binaries, folder, as_user)
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes databases and returns their URLs. A test that asks for it runs on both kinds."""
    if request.param == "sqlite":
        pytest.importorskip("sqlalchemy")
        return lambda: f"sqlite:///{tmp_path}/db{next(_numbers)}.sqlite"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new


class RedisServer:
    """A Redis in memory, on a port of the loopback interface, that can be killed and started again, empty."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.password = ""
        self.start()

    def start(self) -> None:
        command = [self._binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        if self.password:
            command += ["--requirepass", self.password]
        with (self._folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self.process.poll() is None, (self._folder / "redis.log").read_text()
            assert time.monotonic() < end, "Redis does not answer"
            time.sleep(0.01)

    def kill(self) -> None:
        """As kill -9 does."""
        self.process.kill()
        self.process.wait(PATIENCE)

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is gone meanwhile, and has forgotten all when it is back."""
        self.kill()
        yield
        self.start()

    def _answers(self) -> bool:
        try:
            with closing(socket.create_connection(("127.0.0.1", self.port), 1)) as connection:
                connection.sendall(b"PING\r\n")
                return bool(connection.recv(100))
        except OSError:
            return False


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A running server. Skips where Redis, or the package redis, is not installed."""
    pytest.importorskip("redis")
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("Redis is not installed")
    server = RedisServer(binary, tmp_path)
    yield server
    server.kill()


@pytest.fixture
def redis_link(redis_server: RedisServer) -> Iterator[Any]:
    """One process's connection to a running server."""
    from transforms.redis_link import RedisLink

    with closing(RedisLink(redis_server.url)) as link:
        yield link

"""Databases that tests write to: a PostgreSQL server of their own, where its binaries are installed, and SQLite."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count()


class PostgreSQL:
    """A cluster that is ours alone, on a port of the loopback interface, with a database for each test."""

    def __init__(self, binaries: Path, folder: Path, as_user: list[str]) -> None:
        self._binaries, self._data, self._as_user = binaries, folder / "data", as_user
        self._log = folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
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

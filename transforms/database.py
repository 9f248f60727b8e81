"""Databases by their URLs: which are taken, how they are reached, and what is said where they are not.

A URL holds no password: `${NAME}` in its place is the environment variable of that name, read by each process that
connects, and PostgreSQL's own PGPASSWORD and ~/.pgpass work as everywhere. So no password is in a graph, a file or
a message. SQLAlchemy and psycopg are imported only where a database is used: they are the extra `sql`.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from transforms.llm.secrets import MASK, hide
from transforms.llm.text import excerpt

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Select, TextClause

_DRIVERS = {"postgresql": "postgresql+psycopg", "postgresql+psycopg": "postgresql+psycopg", "sqlite": "sqlite"}
_URL = re.compile(r"(?P<scheme>[a-z0-9+]+)://(?P<rest>.*)", re.DOTALL)
_PASSWORD = re.compile(r"(?P<before>://[^:/]*:)(?P<password>[^@]*)(?=@)")  # as SQLAlchemy reads a URL
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_PARAMETER = re.compile(r"[?&](password|passfile|sslpassword)=", re.IGNORECASE)
NAME_BYTES = 63  # of a name in PostgreSQL, which cuts longer ones
_ATTEMPTS = 5  # of a transaction that may succeed later, about 8 seconds: a restart, a deadlock, a locked file
_ROWS = 5_000  # fetched at once from a server-side cursor
# A server that is gone without a word is noticed after about a minute, not after two hours.
_POSTGRESQL = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "paidonce",
}
_SQLITE_SECONDS = 60.0  # to wait for another writer

Result = TypeVar("Result")


class DatabaseError(Exception):
    """A database cannot be reached, or refuses what is asked of it. One line, which names it without a secret."""


def is_database(path: str) -> bool:
    """Whether a path of the input is a database's URL."""
    match = _URL.match(path)
    return match is not None and match["scheme"].partition("+")[0] in {"postgresql", "postgres", "mysql", "sqlite"}


def check_url(url: str) -> None:
    """Raises ValueError where a URL is of no kind that is taken. Connects to nothing."""
    match = _URL.match(url)
    if match is None or match["scheme"] not in _DRIVERS:
        raise ValueError("must be postgresql+psycopg://USER@HOST/DATABASE or sqlite:///FILE")
    if match["scheme"] == "sqlite" and not match["rest"].removeprefix("/"):
        raise ValueError("must name a file: sqlite:///FILE, or sqlite:////FILE where its path begins with /")
    if _SECRET_PARAMETER.search(url):
        raise ValueError("must not hold a password: write ${NAME} in its place, an environment variable")


def split_table(text: str) -> tuple[str, str]:
    """URL and table of `URL#TABLE`. Raises ValueError where it is none."""
    url, _sign, name = text.partition("#")
    check_url(url)
    parts = name.split(".")
    if not name or len(parts) > 2 or not all(parts):
        raise ValueError("must end with the table's name: #TABLE, or #SCHEMA.TABLE in PostgreSQL")
    if len(parts) == 2 and url.startswith("sqlite:"):
        raise ValueError(f"SQLite has no schemas: {name!r} must be a name without a dot")
    if "\0" in name or len(f"{parts[-1]}_failures".encode()) > NAME_BYTES:
        raise ValueError(f"the table's name must have at most {NAME_BYTES - len('_failures')} bytes, and no NUL")
    return url, name


def hidden(url: str) -> str:
    """`url` without the password that may stand in it: whatever characters that has, they are not its own."""
    return _PASSWORD.sub(rf"\g<before>{MASK}", url, count=1)


def without_password(url: str, variable: str) -> str:
    """`url` with a password that stands in it moved to the environment of this process, under `variable`. Workers
    on other machines need one that is set there."""

    def move(match: re.Match[str]) -> str:
        if _VARIABLE.fullmatch(match["password"]):
            return match[0]
        os.environ[variable] = unquote(match["password"])
        hide(unquote(match["password"]))
        return f"{match['before']}${{{variable}}}"

    return _PASSWORD.sub(move, url, count=1)


def filled(text: str | None) -> str | None:
    """`text` with each ${NAME} replaced by that environment variable. Raises ValueError where it is not set."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ValueError(f"the environment variable {match[1]} is not set")
        return found

    return None if text is None else _VARIABLE.sub(value, text)


def missing_file(url: str) -> str | None:
    """The SQLite file of a URL that is not there, in a folder that is; None for all else."""
    file = absolute(url).removeprefix("sqlite:///")
    is_missing = url.startswith("sqlite:") and not os.path.exists(file) and os.path.isdir(os.path.dirname(file))
    return file if is_missing else None


def absolute(url: str) -> str:
    """`url` with the path of a SQLite file made absolute: workers may be elsewhere than who started them."""
    file = url.removeprefix("sqlite:///")
    return url if file == url else f"sqlite:///{os.path.abspath(file)}"


def shown(url: str) -> str:
    """A database for people: without user, password and parameters."""
    match = _URL.match(url.partition("?")[0])
    if match is None:
        return "the database"
    return f"{match['scheme'].partition('+')[0]}://{match['rest'].rpartition('@')[2]}"


def connect(url: str, *, write: bool = False) -> Engine:
    """What opens connections, none of them yet. With `write`, a SQLite file is made where it is missing, and set to
    let others read meanwhile.

    Raises ValueError for a URL or an environment that is wrong, or where the extra is not installed."""
    check_url(url)
    try:
        from sqlalchemy import create_engine, event, make_url
        from sqlalchemy.exc import ArgumentError

        address = make_url(url)
        address = address.set(
            drivername=_DRIVERS[address.drivername],
            username=filled(address.username),
            password=filled(str(address.password)) if address.password is not None else None,
            host=filled(address.host),
            database=filled(address.database),
        )
        hide(str(address.password) if address.password is not None else None)
        sqlite = address.drivername == "sqlite"
        if sqlite and not write:
            engine = create_engine(address, pool_size=1, creator=lambda: _existing(str(address.database)))
        else:
            engine = create_engine(
                address, pool_size=1, connect_args={"timeout": _SQLITE_SECONDS} if sqlite else _POSTGRESQL
            )
    except ImportError as error:
        raise ValueError(f"a database needs the extra sql: pip install 'paidonce[sql]' ({error})") from None
    except (ArgumentError, ValueError) as error:
        raise ValueError(f"{shown(url)}: {excerpt(str(error))}") from None
    if sqlite:
        # Python's driver begins a transaction when it thinks fit; ours begin where they are said to.
        @event.listens_for(engine, "connect")
        def _connected(connection: object, _record: object) -> None:
            connection.isolation_level = None  # type: ignore[attr-defined]
            mode = "journal_mode=WAL" if write else "query_only=ON"
            connection.execute(f"PRAGMA {mode}").close()  # type: ignore[attr-defined]

        @event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def transaction(engine: Engine, url: str, work: Callable[[Connection], Result]) -> Result:
    """Does `work` in one transaction, again where that may help: it has to be the same done twice.

    Raises DatabaseError."""
    from sqlalchemy.exc import DBAPIError, OperationalError

    def may_pass(error: BaseException) -> bool:
        return isinstance(error, OperationalError) or (isinstance(error, DBAPIError) and error.connection_invalidated)

    retrying = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_exponential(multiplier=0.5, max=4),
        retry=retry_if_exception(may_pass),
        reraise=True,
    )
    with reporting(url):
        for attempt in retrying:
            with attempt, engine.begin() as connection:
                return work(connection)
    raise AssertionError("tenacity gives a result or raises")


def stream(engine: Engine, url: str, query: Select[tuple[object, ...]] | TextClause) -> Iterator[dict[str, object]]:
    """The rows of a query by a server-side cursor, so that memory does not grow with them. Raises DatabaseError."""
    with reporting(url), engine.connect() as connection:
        options = connection.execution_options(stream_results=True, yield_per=_ROWS)
        with closing(options.execute(query)) as result:
            for row in result.mappings():
                yield dict(row)


@contextmanager
def reporting(url: str) -> Iterator[None]:
    """Makes a DatabaseError of what a database or its driver raises inside."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except DBAPIError as error:
        raise DatabaseError(f"database {shown(url)}: {excerpt(str(error.orig))}") from None
    except (SQLAlchemyError, OSError) as error:
        raise DatabaseError(f"database {shown(url)}: {excerpt(str(error))}") from None


def _existing(file: str) -> sqlite3.Connection:
    """Opens a SQLite file; a missing one is an error, not a new one."""
    return sqlite3.connect(f"file:{quote(file)}?mode=rw", uri=True, check_same_thread=False, timeout=_SQLITE_SECONDS)

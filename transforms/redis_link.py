"""The Redis that worker processes share limits and a budget by: how it is reached, and whether it is there.

Its URL holds no password: `${NAME}` in its place is the environment variable of that name, as for databases. redis-py
is imported only where there is one: it is the extra `redis`.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from transforms.database import filled
from transforms.llm.secrets import hide
from transforms.llm.text import excerpt

if TYPE_CHECKING:
    from redis import Redis

_URL = re.compile(r"rediss?://([^@/\s]*@)?(\[[\da-fA-F:.]+\]|[^@/:?#\s]+)(:\d+)?(/\d+)?(\?[^#\s]*)?")
_SECRET_PARAMETER = re.compile(r"[?&](username|password)=", re.IGNORECASE)
_PASSWORD = re.compile(r"(?<=:)\$\{\w+\}(?=@)")
_TIMEOUT = 1.0  # seconds, to connect and for each answer: calls wait for it
_CONNECTIONS = 8  # of a process: more threads than that wait for one another, a millisecond each
_IDLE = 30.0  # seconds: a connection that was idle for so long is tried before it is used
RETRY_SECONDS = 30.0  # between two looks whether a Redis that was gone is back
_PROCESS = uuid.uuid4().hex


class Unreachable(Exception):
    """Redis does not answer, or refuses what is asked of it. One line, without a secret."""


def check_redis_url(url: str) -> None:
    """Raises ValueError where a URL is of no kind that is taken. Connects to nothing."""
    if not _URL.fullmatch(url):
        raise ValueError(
            "must be redis://HOST:PORT/DATABASE, or rediss:// with TLS; a password goes before HOST as :${NAME}@"
        )
    if _SECRET_PARAMETER.search(url):
        raise ValueError("must not hold a password as a parameter: write ${NAME} before the host, as :${NAME}@HOST")


def shown_redis(url: str) -> str:
    """A Redis for people: without user, password and parameters."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def process_name() -> str:
    """What tells this process from all others, on any machine."""
    return f"{_PROCESS}-{os.getpid()}"  # also after a fork


class RedisLink:
    """A Redis that may go away and come back. While it is away, `run` says so at once, and only every RETRY_SECONDS a
    caller waits for another try. Safe for threads. `clock` is monotonic, in seconds.

    Raises ValueError for a URL or an environment that is wrong, or where the extra is not installed. Connects to
    nothing yet."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.shown = shown_redis(url)
        self._clock = clock
        self._redis = _open(url)
        self._lock = threading.Lock()
        self._up = True
        self._try_at = 0.0
        self._said = False

    @property
    def ready(self) -> bool:
        """Whether it is worth to ask it now."""
        return self._up or self._clock() >= self._try_at

    def script(self, text: str) -> Callable[[Sequence[str], Sequence[str | float]], Any]:
        """What runs a Lua script with keys and arguments, and returns its answer. Raises Unreachable."""
        script = self._redis.register_script(text)

        def run(keys: Sequence[str], arguments: Sequence[str | float]) -> Any:
            return self._run(lambda: script(keys, arguments))

        return run

    def ping(self) -> None:
        """Raises Unreachable where it does not answer."""
        self._run(self._redis.ping)

    def close(self) -> None:
        """Closes the connections."""
        self._redis.close()

    def _run(self, ask: Callable[[], Any]) -> Any:
        from redis.exceptions import RedisError

        with self._lock:
            if not self._up:
                if self._clock() < self._try_at:
                    raise Unreachable(f"{self.shown} did not answer a moment ago")
                self._try_at = self._clock() + RETRY_SECONDS  # others need not wait for this try
        try:
            answer = ask()
        except (RedisError, OSError) as error:
            message = f"{self.shown} does not answer: {excerpt(str(error)) or type(error).__name__}"
            self._down(message)
            raise Unreachable(message) from None
        if not self._up:
            self._up = True
        return answer

    def _down(self, message: str) -> None:
        with self._lock:
            self._up = False
            self._try_at = self._clock() + RETRY_SECONDS
            said, self._said = self._said, True
        if not said:
            logging.getLogger(__name__).warning(
                "limits.shared: %s; until it does, this worker keeps to its part of the limits and the budget", message
            )


_links: dict[str, RedisLink] = {}
_links_lock = threading.Lock()


def redis_link(url: str) -> RedisLink:
    """The process's link to that Redis, whoever asks for it."""
    with _links_lock:
        if url not in _links:
            _links[url] = RedisLink(url)
        return _links[url]


def _open(url: str) -> Redis:
    check_redis_url(url)
    try:
        from redis import BlockingConnectionPool, Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ValueError(f"needs the extra redis: pip install 'paidonce[redis]' ({error})") from None

    def value(found: re.Match[str]) -> str:
        password = filled(found[0])
        hide(password)
        return quote(password or "", safe="")

    pool = BlockingConnectionPool.from_url(
        filled(_PASSWORD.sub(value, url)) or "",
        max_connections=_CONNECTIONS,
        timeout=_TIMEOUT,
        socket_timeout=_TIMEOUT,
        socket_connect_timeout=_TIMEOUT,
        health_check_interval=_IDLE,
        retry=Retry(NoBackoff(), 0),  # what is done twice would be counted twice
        decode_responses=True,
    )
    return Redis(connection_pool=pool)

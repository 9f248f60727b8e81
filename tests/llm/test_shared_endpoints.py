"""Threads of several processes that wait for their turn at one account: each process has Endpoints of its own here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from transforms.llm.completion import Completion, Usage
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import Stopped, TransientError
from transforms.llm.gate import Gate
from transforms.llm.paces import Paces
from transforms.llm.prompt import Prompt
from transforms.llm.rate_headers import Rate, RateHeaders
from transforms.llm.shared_paces import SharedPaces
from transforms.redis_link import RedisLink

DONE = Completion("A", usage=Usage(20, 5))


class Client:
    """One that is only looked at."""

    def complete(self, prompt: Prompt) -> Completion:
        raise NotImplementedError

    def close(self) -> None:
        pass


@pytest.fixture
def process(redis_server: Any) -> Iterator[Callable[..., Endpoints]]:
    """Makes processes, each with a link of its own."""
    links: list[RedisLink] = []

    def make(stop: threading.Event | None = None, max_in_flight: int = 20, **limits: float) -> Endpoints:
        links.append(RedisLink(redis_server.url))
        name, local = str(len(links)), Paces(**limits)
        shared = SharedPaces(links[-1], "account", name, local, headroom=1.0, others=lambda: 2)
        gate = Gate(max_in_flight=max_in_flight, paces=shared)
        return Endpoints([LiveEndpoint(Client(), gate)], stop=stop or threading.Event())

    yield make
    for link in links:
        link.close()


def test_threads_of_two_processes_share_one_rate_also_without_redis(
    process: Callable[..., Endpoints], redis_server: Any
) -> None:
    both = [process(requests_per_minute=60 * 200) for _ in range(2)]
    started: list[float] = []
    divided: list[float] = []

    def work(found: Endpoints) -> None:
        for _ in range(15):
            lease = found.acquire()
            started.append(time.monotonic())
            if lease.divided:
                divided.append(started[-1])
            lease.release(DONE)

    threads = [threading.Thread(target=work, args=(found,)) for found in both for _ in range(20)]
    for thread in threads:
        thread.start()
    while len(started) < 200:
        time.sleep(0.005)
    redis_server.kill()
    for thread in threads:
        thread.join(60)
    assert len(started) == 600
    assert started[-1] - started[0] > 0.95 * (600 - 50) / 200
    assert 300 < len(divided) < 420
    assert [found.counts()[:2] for found in both] == [(300, 0), (300, 0)]
    assert both[0].slept > 0


def test_a_refusal_of_one_pauses_the_other(process: Callable[..., Endpoints]) -> None:
    a, b = process(), process()
    for found in (a, b):
        found.acquire().release(DONE)
    began = time.monotonic()
    a.acquire().release(TransientError("rate_limited", "", http_status=429, retry_after=0.7))
    b.acquire().release(DONE)
    assert time.monotonic() - began >= 0.69


def test_tokens_that_were_not_used_are_there_for_the_other(process: Callable[..., Endpoints]) -> None:
    a, b = (process(tokens_per_minute=60_000) for _ in range(2))
    began = time.monotonic()
    lease = a.acquire(40_000)  # ten thousand tokens, at a thousand a second
    lease.release(Completion("A", usage=Usage(90, 10)))
    b.acquire(400).release(DONE)
    assert time.monotonic() - began < 5


def test_a_limit_that_one_learns_is_the_others(process: Callable[..., Endpoints]) -> None:
    a, b = process(), process()
    a.acquire().release(DONE._replace(rate=RateHeaders(Rate(300.0, 299.0, 0.2))))
    began = time.monotonic()
    for _ in range(6):
        b.acquire().release(DONE)
    assert time.monotonic() - began > 0.9 * 5 * 60 / 300 - 0.25


@pytest.mark.parametrize("away", [False, True])
def test_a_stop_wakes_all_that_wait(process: Callable[..., Endpoints], redis_server: Any, away: bool) -> None:
    stop = threading.Event()
    found = process(stop, requests_per_minute=1)
    found.acquire()
    if away:
        redis_server.kill()
    outcomes: list[str] = []

    def acquire() -> None:
        try:
            found.acquire()
        except Stopped:
            outcomes.append("stopped")

    threads = [threading.Thread(target=acquire) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join(10)
    assert outcomes == ["stopped"] * 4
    assert found.counts().in_flight == 1


def test_each_process_has_its_own_most_in_flight(process: Callable[..., Endpoints]) -> None:
    a, b = process(max_in_flight=1), process(max_in_flight=1)
    leases = [a.acquire(), b.acquire()]
    with closing(a):
        thread = threading.Thread(target=lambda: a.acquire().release(DONE))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        leases[0].release(DONE)
        thread.join(10)
        assert not thread.is_alive()

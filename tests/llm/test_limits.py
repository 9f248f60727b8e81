"""A gate against a server with limits: thousands of calls, on a clock that only moves when all wait."""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

import pytest

from transforms.llm.amounts import Amounts
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import CallError, TransientError
from transforms.llm.estimate import TokenEstimate
from transforms.llm.gate import Gate
from transforms.llm.paces import Paces
from transforms.llm.rate_headers import Rate, RateHeaders

CHARACTERS = 120


@dataclass
class Bucket:
    """A limit as servers keep it: refills steadily, up to `burst` seconds' worth."""

    per_minute: float
    burst: float = 5.0
    level: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.level = self.most

    @property
    def most(self) -> float:
        return max(1.0, self.per_minute / 60 * self.burst)

    def missing(self, amount: float, now: float) -> float:
        """Seconds until it is there."""
        self.level = min(self.most, self.level + (now - self.at) * self.per_minute / 60)
        self.at = now
        return max(0.0, min(amount, self.most) - self.level) / self.per_minute * 60

    def rate(self) -> Rate:
        return Rate(self.per_minute, max(0.0, self.level) // 1, (self.most - self.level) / self.per_minute * 60)


class Server:
    """Answers after `latency` seconds, on average, or refuses at once."""

    def __init__(
        self,
        requests: float | None = None,
        tokens: float | None = None,
        burst: float = 5.0,
        latency: float = 0.05,
        headers: bool = True,
        retry_after: bool = True,
        seed: int = 1,
    ) -> None:
        self.buckets = [(name, Bucket(limit, burst)) for name, limit in (("r", requests), ("t", tokens)) if limit]
        self.latency, self.headers, self.retry_after = latency, headers, retry_after
        self.random = random.Random(seed)
        self.admitted: list[tuple[float, int]] = []
        self.refused: list[float] = []

    def reply(self, now: float) -> tuple[float, Completion | CallError]:
        prompt, answer = 40 + self.random.randrange(20), 5 + self.random.randrange(10)
        amounts = {"r": 1.0, "t": float(prompt + answer)}
        wait = max((bucket.missing(amounts[name], now) for name, bucket in self.buckets), default=0.0)
        if wait == 0:
            for name, bucket in self.buckets:
                bucket.level -= amounts[name]
        rates = {name: bucket.rate() for name, bucket in self.buckets}
        rate = RateHeaders(rates.get("r"), rates.get("t")) if self.headers and rates else None
        if wait:
            self.refused.append(now)
            error = TransientError("rate_limited", "", retry_after=wait + 0.001 if self.retry_after else None)
            error.rate = rate
            return 0.002, error
        self.admitted.append((now, prompt + answer))
        return self.random.uniform(0.5, 1.5) * self.latency, Completion("A", usage=Usage(prompt, answer), rate=rate)


def run(gate: Gate, server: Server, rows: int, threads: int = 100) -> float:
    """Calls for all rows, again where refused; returns the seconds it took."""
    random.seed(1)  # the gate's jitter
    estimate, now, numbers = TokenEstimate({}), 0.0, 0
    out: list[tuple[float, int, int, Amounts, float, Any]] = []
    while rows or out:
        amounts = estimate.amounts(CHARACTERS)
        delay = gate.delay(amounts, now) if rows and len(out) < threads else float("inf")
        if delay == 0:
            rows, numbers = rows - 1, numbers + 1
            number = gate.start(amounts, now)
            seconds, outcome = server.reply(now)
            heapq.heappush(out, (now + seconds, numbers, number, amounts, now, outcome))
        elif out and out[0][0] <= now + delay:
            now, _, number, amounts, started, outcome = heapq.heappop(out)
            gate.end(number, amounts, started, outcome, now)
            if isinstance(outcome, Completion):
                estimate.learn(CHARACTERS, outcome.usage)
            else:
                rows += 1
        else:
            now += delay
    return now


def most_in_a_minute(events: list[tuple[float, int]]) -> int:
    times, sums = [at for at, _ in events], [0]
    for _, amount in events:
        sums.append(sums[-1] + amount)
    return max(sums[bisect_left(times, at + 59.999)] - sums[index] for index, at in enumerate(times))


def rate(events: list[tuple[float, int]], start: float = 10.0) -> tuple[float, float]:
    """Calls and tokens per minute, from `start` seconds on."""
    later = [amount for at, amount in events if at >= start]
    minutes = (events[-1][0] - start) / 60
    return len(later) / minutes, sum(later) / minutes


def share_refused(server: Server) -> float:
    return len(server.refused) / (len(server.refused) + len(server.admitted))


@pytest.mark.parametrize("latency", [0.05, 2.0])
@pytest.mark.parametrize("burst", [1.0, 5.0, 60.0])
def test_own_limit_on_requests(burst: float, latency: float) -> None:
    server = Server(requests=1200, burst=burst, latency=latency)
    run(Gate(max_in_flight=100, paces=Paces(requests_per_minute=1200)), server, 3000)
    assert most_in_a_minute([(at, 1) for at, _ in server.admitted]) <= 1200
    assert rate(server.admitted)[0] >= 0.95 * 1200
    assert share_refused(server) <= 0.01


@pytest.mark.parametrize("latency", [0.05, 2.0])
@pytest.mark.parametrize("burst", [1.0, 5.0, 60.0])
def test_own_limit_on_tokens(burst: float, latency: float) -> None:
    server = Server(tokens=60_000, burst=burst, latency=latency)
    run(Gate(max_in_flight=100, paces=Paces(tokens_per_minute=60_000)), server, 3000)
    assert most_in_a_minute(server.admitted) <= 60_000
    assert rate(server.admitted)[1] >= 0.95 * 60_000
    assert share_refused(server) <= 0.01


def test_both_limits_the_tighter_one_sets_the_pace() -> None:
    server = Server(requests=1200, tokens=30_000)
    run(Gate(max_in_flight=100, paces=Paces(requests_per_minute=1200, tokens_per_minute=30_000)), server, 1500)
    assert most_in_a_minute(server.admitted) <= 30_000
    assert rate(server.admitted)[1] >= 0.95 * 30_000


def test_headroom() -> None:
    server = Server(requests=1200)
    run(Gate(max_in_flight=100, paces=Paces(requests_per_minute=1200, headroom=0.5)), server, 1500)
    assert most_in_a_minute([(at, 1) for at, _ in server.admitted]) <= 600
    assert rate(server.admitted)[0] >= 0.95 * 600


@pytest.mark.parametrize("latency", [0.05, 2.0])
@pytest.mark.parametrize("burst", [1.0, 5.0, 60.0])
def test_limits_learned_from_headers(burst: float, latency: float) -> None:
    for limits in ({"requests": 1200.0}, {"tokens": 60_000.0}):
        server = Server(**limits, burst=burst, latency=latency)  # type: ignore[arg-type]
        run(Gate(max_in_flight=100), server, 3000)
        calls, tokens = rate(server.admitted)
        assert max(calls / 1200, tokens / 60_000) >= 0.9
        assert share_refused(server) < 0.05


def test_headroom_counts_for_learned_limits_too() -> None:
    server = Server(requests=1200, burst=60)
    run(Gate(max_in_flight=100, paces=Paces(headroom=0.5)), server, 1500)
    assert most_in_a_minute([(at, 1) for at, _ in server.admitted if at > 1]) <= 600


@pytest.mark.parametrize("latency", [0.05, 2.0])
@pytest.mark.parametrize("retry_after", [True, False])
@pytest.mark.parametrize("burst", [1.0, 5.0])
def test_limits_felt_by_429s_alone(burst: float, retry_after: bool, latency: float) -> None:
    server = Server(requests=1200, burst=burst, latency=latency, headers=False, retry_after=retry_after)
    run(Gate(max_in_flight=100), server, 3000)
    assert rate(server.admitted)[0] >= 0.5 * 1200
    assert share_refused(server) < 0.15


def test_an_account_that_others_use_as_well() -> None:
    """The limit is stated as 1,200, and half of it is taken."""
    server = Server(requests=600, headers=False)
    run(Gate(max_in_flight=100, paces=Paces(requests_per_minute=1200)), server, 1500)
    assert rate(server.admitted)[0] >= 0.8 * 600
    assert share_refused(server) < 0.1


def test_without_limits_nothing_is_held_up() -> None:
    server = Server(latency=0.2)
    seconds = run(Gate(max_in_flight=100), server, 5000)
    assert seconds < 1.05 * 5000 * 0.2 / 100

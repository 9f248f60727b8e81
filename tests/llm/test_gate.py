"""When a request may start at one endpoint: pauses, and how calls start again after them."""

from __future__ import annotations

from math import inf
from statistics import mean
from typing import Any

import pytest

from transforms.llm.amounts import Amounts
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import CallError, RowError, TransientError
from transforms.llm.gate import Gate, used_by
from transforms.llm.rate_headers import Rate, RateHeaders

ONE = Amounts()
DONE = Completion("A", usage=Usage(20, 5))


def limited(retry_after: float | None = None) -> TransientError:
    return TransientError("rate_limited", "slow down", http_status=429, retry_after=retry_after)


def busy(retry_after: float | None = None) -> TransientError:
    return TransientError("upstream_error", "busy", http_status=503, retry_after=retry_after)


def opened(**settings: Any) -> Gate:
    """A gate that has had its first reply, at 1000 seconds."""
    gate = Gate(**{"max_in_flight": 100, **settings})
    gate.end(gate.start(ONE, 1000.0), ONE, 1000.0, DONE, 1000.0)
    return gate


def flight(gate: Gate, count: int, now: float = 1000.0) -> list[int]:
    return [gate.start(ONE, now) for _ in range(count)]


def end(gate: Gate, number: int, outcome: Completion | CallError | None, now: float = 1000.0) -> None:
    gate.end(number, ONE, now, outcome, now)


def test_without_limits_only_max_in_flight_holds() -> None:
    gate = opened()
    numbers = []
    for _ in range(100):
        assert gate.delay(ONE, 1000.0) == 0
        numbers.append(gate.start(ONE, 1000.0))
    assert gate.delay(ONE, 1000.0) == inf
    end(gate, numbers[0], DONE)
    assert gate.delay(ONE, 1000.0) == 0


def test_a_few_calls_go_first_until_there_is_a_reply() -> None:
    gate = Gate(max_in_flight=100)
    numbers = []
    while gate.delay(ONE, 1000.0) == 0:
        numbers.append(gate.start(ONE, 1000.0))
    assert len(numbers) == 8
    assert gate.delay(ONE, 1000.4) == pytest.approx(0.6)
    end(gate, numbers[0], limited(30.0), 1000.5)  # seven more are out, not 99
    assert gate.delay(ONE, 1000.5) >= 30


def test_a_slow_first_reply_is_not_waited_for() -> None:
    gate = Gate(max_in_flight=100)
    flight(gate, 8)
    assert gate.delay(ONE, 1001.0) == 0


@pytest.mark.parametrize("error", [limited(2.0), busy(2.0)])
def test_retry_after_pauses_all(error: TransientError) -> None:
    gate = opened()
    end(gate, flight(gate, 1)[0], error)
    assert 2.0 <= gate.delay(ONE, 1000.0) <= 2.2


def test_a_longer_pause_that_is_on_stays() -> None:
    gate = opened()
    first, second = flight(gate, 2)
    end(gate, first, limited(5.0))
    end(gate, second, limited(2.0))
    assert 5.0 <= gate.delay(ONE, 1000.0) <= 5.5


def test_a_pause_is_made_longer_by_whoever_hears_of_it_later() -> None:
    gate = opened()
    first, second = flight(gate, 2)
    end(gate, first, limited(5.0))
    end(gate, second, limited(20.0), 1001.0)
    assert 20.0 <= gate.delay(ONE, 1001.0) <= 21


def test_the_pause_that_a_server_can_ask_for_has_a_cap() -> None:
    gate = opened(longest_pause=120.0)
    end(gate, flight(gate, 1)[0], limited(86400.0))
    assert 120 <= gate.delay(ONE, 1000.0) <= 121


def test_other_errors_pause_nobody() -> None:
    gate = opened()
    for error in (busy(), RowError("bad_request", "no"), TransientError("timeout", "")):
        end(gate, flight(gate, 1)[0], error)
    end(gate, flight(gate, 1)[0], None)
    assert gate.delay(ONE, 1000.0) == 0
    assert gate.concurrency.limit == 100


@pytest.mark.parametrize("retry_after", [None, 0.0])
def test_429s_without_retry_after_pause_for_longer_each_time(retry_after: float | None) -> None:
    found = []
    for _ in range(50):
        gate, now, waits = opened(), 1000.0, []
        for _ in range(9):
            end(gate, flight(gate, 1, now)[0], limited(retry_after), now)
            waits.append(gate.delay(ONE, now))
            now += waits[-1]
        found.append(waits)
    for waits, most in zip(zip(*found, strict=True), [0.5, 1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert most / 2 <= min(waits)
        assert max(waits) <= min(most * 1.1, most + 1)
        assert mean(waits) == pytest.approx(most * 0.79, rel=0.15)


def test_refusals_for_a_whole_day() -> None:
    gate, now = opened(), 1000.0
    for _ in range(3000):
        end(gate, flight(gate, 1, now)[0], limited(), now)
        now += gate.delay(ONE, now)
    assert gate.delay(ONE, now) <= 31


def test_a_retry_after_that_is_not_enough_is_added_to() -> None:
    gate, now = opened(), 1000.0
    for _ in range(10):
        end(gate, flight(gate, 1, now)[0], limited(0.05), now)
        now += gate.delay(ONE, now)
    assert now - 1000 > 5


def test_a_hundred_429s_at_once_are_one_cut_and_one_pause() -> None:
    gate = opened()
    for number in flight(gate, 100):
        end(gate, number, limited())
    assert gate.concurrency.limit == 50
    assert gate.delay(ONE, 1000.0) <= 0.55


def test_after_a_pause_calls_start_one_after_another() -> None:
    gate = opened()
    for number in flight(gate, 100):
        end(gate, number, limited(10.0))
    now, starts = 1000.0, []
    while (delay := gate.delay(ONE, now)) < inf:
        now += delay
        if delay == 0:
            starts.append(now)
            gate.start(ONE, now)
    assert len(starts) == 50  # half of what there was
    assert starts[0] >= 1010
    assert 0.5 < starts[-1] - starts[0] < 2  # spread over about a second
    assert max(sum(at <= other < at + 0.05 for other in starts) for at in starts) < 15


def test_processes_do_not_wake_together() -> None:
    waits = []
    for _ in range(20):
        gate = opened()
        end(gate, flight(gate, 1)[0], limited(10.0))
        waits.append(gate.delay(ONE, 1000.0))
    assert max(waits) - min(waits) > 0.3


def test_the_limit_grows_back() -> None:
    gate = opened(max_in_flight=10)
    for number in flight(gate, 10):
        end(gate, number, limited(1.0))
    assert gate.concurrency.limit == 5
    now = 1005.0
    for _ in range(60):
        now += 1
        end(gate, flight(gate, 1, now)[0], DONE, now)
    assert gate.concurrency.limit == 10


def test_limits_of_input_and_output_are_kept_apart() -> None:
    """Anthropic's are: the prompt counts for one, the answer for the other."""
    gate = opened()
    rates = RateHeaders(None, None, Rate(60_000.0), Rate(6_000.0))
    end(gate, flight(gate, 1)[0], DONE._replace(rate=rates))
    amounts = Amounts(1.0, 110.0, 10.0, 100.0)
    gate.start(amounts, 1000.0)
    assert gate.delay(amounts, 1000.0) == pytest.approx(1.0, abs=0.1)
    assert gate.too_large(Amounts(1.0, 70_000.0, 70_000.0, 0.0)) == 60_000
    assert gate.too_large(Amounts(1.0, 50_000.0, 50_000.0, 0.0)) is None


def test_what_a_request_took() -> None:
    reserved = Amounts(1.0, 300.0, 50.0, 250.0)
    assert used_by(Completion("A", usage=Usage(20, 5, 8)), reserved) == (1, 25, 12, 5)
    assert used_by(Completion("A"), reserved) == reserved  # nobody knows
    assert used_by(limited(), reserved) == (1, 0, 0, 0)
    assert used_by(TransientError("timeout", "", maybe_billed=True), reserved) == reserved
    assert used_by(RowError("refusal", "", completion=DONE), reserved) == (1, 25, 20, 5)
    assert used_by(None, reserved) == reserved

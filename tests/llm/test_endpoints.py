"""Which endpoint takes a call, and how threads wait for their turn."""

from __future__ import annotations

import random
import threading
import time as clock
from collections import Counter
from typing import Any

import pytest

from transforms.llm.completion import Completion, Usage
from transforms.llm.endpoint import LiveEndpoint, connect_all, local_paces
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, RowError, Stopped, TransientError
from transforms.llm.gate import Gate
from transforms.llm.lease import Lease
from transforms.llm.paces import Paces
from transforms.llm.prompt import Prompt
from transforms.llm.rate_headers import Rate, RateHeaders
from transforms.settings import Limits, Model, Task

DONE = Completion("A", usage=Usage(20, 5))


class Named:
    """A client that is only looked at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False

    def complete(self, prompt: Prompt) -> Completion:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def endpoints(time: Any, *gates: Gate, **more: Any) -> Endpoints:
    live = [LiveEndpoint(Named(name), gate) for name, gate in zip("abcdef", gates, strict=False)]
    return Endpoints(live, stop=time.stop, clock=time.clock, wait=time.stop.wait, **more)


def two(time: Any, **limits: Any) -> Endpoints:
    """Two endpoints that have both answered before."""
    found = endpoints(time, *(Gate(max_in_flight=10, paces=Paces(**limits)) for _ in range(2)))
    for lease in [found.acquire() for _ in range(2)]:
        lease.release(DONE)
    return found


def name(lease: Lease) -> str:
    assert isinstance(lease.client, Named)
    return lease.client.name


def used(found: Endpoints, count: int, outcome: Completion | CallError = DONE) -> str:
    """Which endpoints take so many calls, one after another."""
    names = []
    for _ in range(count):
        lease = found.acquire()
        names.append(name(lease))
        lease.release(outcome)
    return "".join(names)


def down() -> TransientError:
    return TransientError("transport", "ConnectionRefusedError")


def test_calls_are_spread(time: Any) -> None:
    found = two(time)
    assert Counter(name(found.acquire()) for _ in range(10)) == {"a": 5, "b": 5}
    assert Counter(used(two(time), 10)) == {"a": 5, "b": 5}


def test_by_the_room_that_each_has(time: Any) -> None:
    found = endpoints(time, Gate(max_in_flight=8), Gate(max_in_flight=2))
    assert Counter(name(found.acquire()) for _ in range(10)) == {"a": 8, "b": 2}


def test_a_pause_of_one_is_no_pause_of_the_other(time: Any) -> None:
    found = two(time)
    lease = found.acquire()
    lease.release(TransientError("rate_limited", "", retry_after=60.0))
    other = "ab".replace(name(lease), "")
    assert used(found, 20) == other * 20
    assert time.now == 1000


def test_each_has_its_own_rate_and_the_calls_go_where_they_start_soonest(time: Any) -> None:
    gates = (
        Gate(max_in_flight=10, paces=Paces(requests_per_minute=600)),
        Gate(max_in_flight=10, paces=Paces(requests_per_minute=1200)),
    )
    names = Counter(used(endpoints(time, *gates), 1800))
    assert names["b"] == pytest.approx(2 * names["a"], rel=0.03)
    assert 59 < time.now - 1000 < 62


def test_without_room_anywhere_a_call_waits(time: Any) -> None:
    found = two(time, requests_per_minute=60)
    assert found.slept == 0
    used(found, 8)
    assert time.now - 1000 == pytest.approx(4, abs=0.3)
    assert found.slept == pytest.approx(time.now - 1000)


def test_one_that_is_down_is_left_out_for_a_while(time: Any) -> None:
    found = two(time)
    names = Counter()
    for _ in range(200):
        lease = found.acquire()
        names[name(lease)] += 1
        lease.release(down() if name(lease) == "a" else DONE)
    assert names["a"] == 5  # failures in a row
    time.now += 16
    lease = next(lease for lease in iter(found.acquire, None) if name(lease) == "a")
    others = [found.acquire() for _ in range(6)]
    assert {name(each) for each in others} == {"b"}  # it is tried with a single call
    lease.release(down())
    time.now += 16
    assert "a" not in used(found, 20)  # now for longer
    time.now += 16
    for each in others:
        each.release(DONE)
    assert "a" in used(found, 20)  # and answers: it is back
    assert Counter(used(found, 40))["a"] >= 15


def test_answers_in_between_keep_it_in(time: Any) -> None:
    found = two(time)
    for number in range(60):
        found.acquire().release(DONE if number % 8 > 5 else down())
    assert set(used(found, 10)) == {"a", "b"}


def test_where_all_are_down_all_are_asked(time: Any) -> None:
    found = two(time)
    assert Counter(used(found, 100, down())).keys() == {"a", "b"}
    assert time.now == 1000


def test_a_single_one_is_never_out(time: Any) -> None:
    found = endpoints(time, Gate(max_in_flight=10))
    assert used(found, 100, down()) == "a" * 100
    assert found.acquire().release(AccountError("auth", "no")) is False
    assert used(found, 3) == "aaa"


@pytest.mark.parametrize("reason", ["auth", "quota_exhausted", "config_rejected"])
def test_one_that_refuses_the_account_is_out_for_the_run(time: Any, reason: Any) -> None:
    found = two(time)
    leases = [found.acquire() for _ in range(6)]
    refused = name(leases[0])
    for lease in leases:  # all that are under way hear the same
        if name(lease) == refused:
            assert lease.release(AccountError(reason, "no")) is True
    time.now += 1e6
    assert refused not in used(found, 20)
    assert found.acquire().release(AccountError(reason, "no")) is False  # nobody is left


def test_too_large_for_a_minute_is_never_waited_for(time: Any) -> None:
    found = endpoints(time, Gate(max_in_flight=10, paces=Paces(tokens_per_minute=1000, headroom=0.5)))
    with pytest.raises(RowError) as caught:
        found.acquire(5000)
    assert caught.value.reason == "request_too_large"
    assert "1250 tokens" in caught.value.message
    assert "1000" in caught.value.message
    assert (time.waits, found.slept) == ([], 0)
    found.acquire(3000)  # more than with headroom, less than the account's limit


def test_a_large_one_goes_where_it_may(time: Any) -> None:
    gates = [Gate(max_in_flight=10, paces=Paces(tokens_per_minute=limit)) for limit in (1000, 100_000)]
    assert name(endpoints(time, *gates).acquire(5000)) == "b"


def test_a_guess_at_the_answer_condemns_no_row(time: Any) -> None:
    found = endpoints(
        time, Gate(max_in_flight=10, paces=Paces(tokens_per_minute=200)), parameters={"max_tokens": 100_000}
    )
    found.acquire(400).release(DONE)
    assert time.now == 1000


def test_the_estimate_is_settled_with_what_was_billed(time: Any) -> None:
    found = endpoints(time, Gate(max_in_flight=10, paces=Paces(tokens_per_minute=6000)))
    for _ in range(30):
        found.acquire(100).release(Completion("A", usage=Usage(90, 10)))  # 25 and 256 were expected
    assert time.now - 1000 == pytest.approx(30, rel=0.05)


def test_a_learned_limit_holds_for_the_next_call(time: Any) -> None:
    found = endpoints(time, Gate(max_in_flight=10))
    rates = RateHeaders(Rate(60.0, 59.0, 1.0))
    for _ in range(5):
        found.acquire().release(DONE._replace(rate=rates))
    assert time.now - 1000 == pytest.approx(3, abs=0.3)


def test_less_than_one_request_a_minute(time: Any) -> None:
    used(endpoints(time, Gate(max_in_flight=10, paces=Paces(requests_per_minute=0.5))), 2)
    assert 120 <= time.now - 1000 <= 125


def test_who_comes_after_the_stop_does_not_start(time: Any) -> None:
    found = two(time)
    time.stop.set()
    with pytest.raises(Stopped):
        found.acquire()
    with pytest.raises(Stopped):
        found.sleep(1)


@pytest.mark.parametrize("waits_for", ["pause", "rate", "room"])
def test_a_stop_wakes_all_that_wait(waits_for: str) -> None:
    stop = threading.Event()
    gate = Gate(
        max_in_flight=1 if waits_for == "room" else 10,
        paces=Paces(requests_per_minute=0.01 if waits_for == "rate" else None),
    )
    found = Endpoints([LiveEndpoint(Named("a"), gate)], stop=stop)
    lease = found.acquire()
    if waits_for == "pause":
        lease.release(TransientError("rate_limited", "", retry_after=100.0))
    outcomes: list[str] = []

    def acquire() -> None:
        try:
            found.acquire()
        except Stopped:
            outcomes.append("stopped")

    threads = [threading.Thread(target=acquire) for _ in range(8)]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join(5)
    assert outcomes == ["stopped"] * 8


def test_threads_above_the_limit_wait_for_a_free_place() -> None:
    found = Endpoints([LiveEndpoint(Named("a"), Gate(max_in_flight=5))], stop=threading.Event())
    most, now, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal most, now
        for _ in range(20):
            lease = found.acquire()
            with lock:
                now += 1
                most = max(most, now)
            clock.sleep(random.uniform(0, 0.002))
            with lock:
                now -= 1
            lease.release(DONE)

    threads = [threading.Thread(target=work) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most, now) == (5, 0)


def test_many_threads_share_one_rate() -> None:
    gate = Gate(max_in_flight=100, paces=Paces(requests_per_minute=60 * 2000))
    found = Endpoints([LiveEndpoint(Named("a"), gate)], stop=threading.Event())
    started: list[float] = []

    def work() -> None:
        for _ in range(25):
            lease = found.acquire()
            started.append(clock.monotonic())
            lease.release(DONE)

    threads = [threading.Thread(target=work) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(started) == 2500
    assert started[-1] - started[0] > 0.9  # (2,500 - a quarter of a second's) / 2,000
    assert found.slept > 0


def test_endpoints_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_A", "key-a-123")
    monkeypatch.setenv("KEY_B", "key-b-123")
    model = Model(
        provider="openai",
        name="m",
        base_url="http://127.0.0.1:9/v1",
        api_key_env="KEY_A",
        endpoints=[
            {"api_key_env": "KEY_B", "name": "m-b", "tokens_per_minute": 500, "max_in_flight": 3},
            {"base_url": "http://127.0.0.1:10/v1"},
            {},
        ],
    )
    assert [(each.base_url, each.api_key_env, each.name) for each in model.per_endpoint] == [
        ("http://127.0.0.1:9/v1", "KEY_B", "m-b"),
        ("http://127.0.0.1:10/v1", None, "m"),  # no key goes to where it was not meant for
        ("http://127.0.0.1:9/v1", "KEY_A", "m"),
    ]
    limits = Limits(requests_per_minute=60)
    live = connect_all(Task(prompt="x"), model, limits, max_in_flight=20, paces=local_paces(model, limits))
    assert [each.gate.concurrency.most for each in live] == [3, 20, 20]
    assert all(each.gate.counting for each in live)
    for each in live:
        each.client.close()
    assert Model(provider="openai", name="m").per_endpoint == [Model(provider="openai", name="m")]


def test_a_missing_key_of_one_is_found_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    model = Model(provider="openai", name="m", base_url="http://x/v1", endpoints=[{}, {"api_key_env": "NO_SUCH_KEY"}])
    with pytest.raises(ValueError, match="NO_SUCH_KEY"):
        connect_all(Task(prompt="x"), model, Limits(), max_in_flight=20, paces=[Paces(), Paces()])


def test_closing_closes_all(time: Any) -> None:
    found = two(time)
    leases = [found.acquire() for _ in range(2)]
    found.close()
    assert all(lease.client.closed for lease in leases)  # type: ignore[attr-defined]


def test_throttled_is_time_by_the_clock_that_limits_and_pauses_held_calls_back(time: Any) -> None:
    found = two(time, requests_per_minute=60)
    used(found, 8)
    assert found.counts().throttled == pytest.approx(time.now - 1000) == pytest.approx(4, abs=0.3)
    before = found.throttled
    for name_ in "ab":
        lease = next(lease for lease in iter(found.acquire, None) if name(lease) == name_)
        lease.release(TransientError("rate_limited", "", retry_after=60.0))
    found.acquire()
    assert found.throttled - before >= 60


def test_neither_a_rows_own_backoff_is_throttled_nor_a_full_house(time: Any) -> None:
    found = two(time)
    found.sleep(10)
    leases = [found.acquire() for _ in range(20)]  # all places of both

    def somebody_ends(seconds: float) -> None:
        time.now += seconds
        leases.pop().release(DONE)

    found._wait = somebody_ends
    found.acquire()
    assert time.now > 1010
    assert (found.throttled, found.slept) == (0, time.now - 1000)


def test_a_house_that_refusals_made_smaller_is_throttled(time: Any) -> None:
    found = endpoints(time, Gate(max_in_flight=8))
    found.acquire().release(DONE)
    first, *others = [found.acquire() for _ in range(8)]
    first.release(TransientError("rate_limited", "", retry_after=0.001))
    time.now += 10

    def somebody_ends(seconds: float) -> None:
        time.now += seconds
        others.pop().release(DONE)

    found._wait = somebody_ends
    found.acquire()
    assert found.throttled == pytest.approx(time.now - 1010) != 0

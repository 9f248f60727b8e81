"""How often a request is made, and what is waited for in between."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from transforms.llm.completion import Completion
from transforms.llm.errors import AccountError, CallError, RowError, Stopped, TransientError
from transforms.llm.limits import Gate
from transforms.llm.retries import Retries
from transforms.settings import Limits

DONE = Completion("A")


class Script:
    """A request that does what it is told, the last thing for ever."""

    def __init__(self, *steps: Exception | Completion, before: Callable[[], None] = lambda: None) -> None:
        self.steps, self.calls, self.before = steps, 0, before

    def __call__(self) -> Completion:
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        self.before()
        if isinstance(step, Exception):
            raise step
        return step


def busy(retry_after: float | None = None) -> TransientError:
    return TransientError("upstream_error", "busy", http_status=503, retry_after=retry_after)


def limited(retry_after: float | None = None) -> TransientError:
    return TransientError("rate_limited", "slow down", http_status=429, retry_after=retry_after)


@pytest.fixture
def gate(time: Any) -> Gate:
    return Gate(None, 0.8, stop=time.stop, clock=time.clock)


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_exactly_max_attempts_requests(gate: Gate, attempts: int) -> None:
    request = Script(busy())
    with pytest.raises(TransientError) as caught:
        Retries(Limits(max_attempts=attempts), gate).call(request)
    assert (request.calls, caught.value.attempts) == (attempts, attempts)


def test_success_after_failures(gate: Gate) -> None:
    called = Retries(Limits(), gate).call(Script(busy(), limited(), DONE))
    assert (called.completion, called.attempts) == (DONE, 3)


def test_latency_is_that_of_the_last_request(gate: Gate) -> None:
    ticks = iter([0.0, 100.0, 100.25])
    called = Retries(Limits(), gate, clock=lambda: next(ticks)).call(Script(busy(), DONE))
    assert called.latency_ms == 250


@pytest.mark.parametrize(
    "error",
    [RowError("bad_request", "no"), AccountError("auth", "no"), AccountError("quota_exhausted", "no")],
)
def test_what_asking_again_does_not_change_is_asked_once(gate: Gate, time: Any, error: CallError) -> None:
    request = Script(error)
    with pytest.raises(type(error)) as caught:
        Retries(Limits(), gate).call(request)
    assert (request.calls, caught.value.attempts, time.waits) == (1, 1, [])


def test_backoff_grows_with_full_jitter(gate: Gate, time: Any) -> None:
    longest = [0.0] * 8
    for _ in range(200):
        time.waits.clear()
        with pytest.raises(TransientError):
            Retries(Limits(max_attempts=9), gate).call(Script(busy()))
        longest = [max(pair) for pair in zip(longest, time.waits, strict=True)]
    for wait, most in zip(longest, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=True):
        assert most * 0.8 < wait <= most


def test_no_wait_after_the_last_attempt(gate: Gate, time: Any) -> None:
    with pytest.raises(TransientError):
        Retries(Limits(max_attempts=1), gate).call(Script(busy()))
    assert time.waits == []


@pytest.mark.parametrize("error", [limited(2.0), busy(2.0)])
def test_retry_after_pauses_the_process(gate: Gate, time: Any, error: TransientError) -> None:
    seen: list[float] = []
    request = Script(error, DONE, before=lambda: seen.append(time.now))
    Retries(Limits(), gate).call(request)
    assert 2.0 <= seen[1] - seen[0] <= 2.3
    with pytest.raises(TransientError):
        Retries(Limits(max_attempts=1), gate).call(Script(error))
    before = time.now
    gate.acquire()  # another row's
    assert time.now - before >= 2.0


def test_a_429_without_retry_after_pauses_the_process_too(gate: Gate, time: Any) -> None:
    with pytest.raises(TransientError):
        Retries(Limits(max_attempts=1), gate).call(Script(limited()))
    gate.acquire()
    assert time.now > 1000


def test_a_longer_pause_than_the_cap_ends_at_the_cap(gate: Gate, time: Any) -> None:
    called = Retries(Limits(max_retry_after_seconds=120), gate).call(Script(limited(86400), DONE))
    assert called.attempts == 2
    assert 120 <= time.now - 1000 <= 122


def test_a_retry_after_of_zero_is_no_invitation_to_hammer(gate: Gate, time: Any) -> None:
    with pytest.raises(TransientError):
        Retries(Limits(max_attempts=5), gate).call(Script(limited(0.0)))
    assert time.now > 1000


def test_anything_unexpected_is_this_rows_failure(gate: Gate) -> None:
    with pytest.raises(RowError) as caught:
        Retries(Limits(), gate).call(Script(busy(), KeyError("x")))
    assert (caught.value.reason, caught.value.attempts) == ("bad_response", 2)
    assert caught.value.message == "unexpected KeyError: 'x'"


def test_a_stop_ends_the_waiting_at_once() -> None:
    stop = threading.Event()
    gate = Gate(None, 0.8, stop=stop)
    request = Script(limited(3600.0), before=stop.set)
    with pytest.raises(Stopped):
        Retries(Limits(max_retry_after_seconds=3600), gate).call(request)
    assert request.calls == 1


def test_an_answer_that_arrives_after_the_stop_counts() -> None:
    stop = threading.Event()
    request = Script(DONE, before=stop.set)
    assert Retries(Limits(), Gate(None, 0.8, stop=stop)).call(request).completion == DONE


def test_threads_do_not_disturb_each_other(gate: Gate) -> None:
    retries = Retries(Limits(max_attempts=3), gate)
    found: dict[int, int] = {}

    def work(failures: int) -> None:
        found[failures] = retries.call(Script(*[busy()] * (failures % 3), DONE)).attempts

    threads = [threading.Thread(target=work, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {number: number % 3 + 1 for number in range(60)}

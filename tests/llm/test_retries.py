"""How often a request is made, and what is waited for in between."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from transforms.llm.completion import Completion
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, FormatRefused, RowError, Stopped, TransientError
from transforms.llm.gate import Gate
from transforms.llm.prompt import Prompt
from transforms.llm.retries import Called, Retries
from transforms.settings import Limits

DONE = Completion("A")


class Script:
    """A client that does what it is told, the last thing for ever."""

    def __init__(self, *steps: Exception | Completion, before: Callable[[], None] = lambda: None) -> None:
        self.steps, self.calls, self.before = steps, 0, before

    def complete(self, prompt: Prompt) -> Completion:
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        self.before()
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        pass


def busy(retry_after: float | None = None) -> TransientError:
    return TransientError("upstream_error", "busy", http_status=503, retry_after=retry_after)


def limited(retry_after: float | None = None) -> TransientError:
    return TransientError("rate_limited", "slow down", http_status=429, retry_after=retry_after)


class Place:
    """Makes endpoints of scripts, on the clock of the test."""

    def __init__(self, time: Any) -> None:
        self.time = time

    def __call__(self, *scripts: Script) -> Endpoints:
        live = [LiveEndpoint(script, Gate(max_in_flight=64)) for script in scripts]
        return Endpoints(live, stop=self.time.stop, clock=self.time.clock, wait=self.time.stop.wait)

    def call(self, *scripts: Script, **limits: Any) -> Called:
        return Retries(Limits(**limits), self(*scripts)).call(Prompt.of("s", "u"))


@pytest.fixture
def at(time: Any) -> Place:
    return Place(time)


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_exactly_max_attempts_requests(at: Place, attempts: int) -> None:
    script = Script(busy())
    with pytest.raises(TransientError) as caught:
        at.call(script, max_attempts=attempts)
    assert (script.calls, caught.value.attempts) == (attempts, attempts)


def test_success_after_failures(at: Place) -> None:
    called = at.call(Script(busy(), limited(), DONE))
    assert (called.completion, called.attempts) == (DONE, 3)


def test_latency_is_that_of_the_last_request(at: Place) -> None:
    ticks = iter([0.0, 100.0, 100.25])
    called = Retries(Limits(), at(Script(busy(), DONE)), clock=lambda: next(ticks)).call(Prompt.of("s", "u"))
    assert called.latency_ms == 250


@pytest.mark.parametrize(
    "error",
    [RowError("bad_request", "no"), AccountError("auth", "no"), AccountError("quota_exhausted", "no")],
)
def test_what_asking_again_does_not_change_is_asked_once(at: Place, time: Any, error: CallError) -> None:
    script = Script(error)
    with pytest.raises(type(error)) as caught:
        at.call(script)
    assert (script.calls, caught.value.attempts, time.waits) == (1, 1, [])


def test_backoff_grows_with_full_jitter(at: Place, time: Any) -> None:
    longest = [0.0] * 8
    for _ in range(200):
        time.waits.clear()
        with pytest.raises(TransientError):
            at.call(Script(busy()), max_attempts=9)
        longest = [max(pair) for pair in zip(longest, time.waits, strict=True)]
    for wait, most in zip(longest, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=True):
        assert most * 0.8 < wait <= most


def test_no_wait_after_the_last_attempt(at: Place, time: Any) -> None:
    with pytest.raises(TransientError):
        at.call(Script(busy()), max_attempts=1)
    assert time.waits == []


@pytest.mark.parametrize("error", [limited(2.0), busy(2.0)])
def test_retry_after_pauses_the_process(at: Place, time: Any, error: TransientError) -> None:
    seen: list[float] = []
    endpoints = at(Script(error, DONE, error, before=lambda: seen.append(time.now)))
    Retries(Limits(), endpoints).call(Prompt.of("s", "u"))
    assert 2.0 <= seen[1] - seen[0] <= 2.3
    with pytest.raises(TransientError):
        Retries(Limits(max_attempts=1), endpoints).call(Prompt.of("s", "u"))
    before = time.now
    endpoints.acquire()  # another row's
    assert time.now - before >= 2.0


def test_a_longer_pause_than_the_cap_ends_at_the_cap(at: Place, time: Any) -> None:
    assert at.call(Script(limited(86400), DONE)).attempts == 2
    assert 120 <= time.now - 1000 <= 122


def test_a_retry_after_of_zero_is_no_invitation_to_hammer(at: Place, time: Any) -> None:
    with pytest.raises(TransientError):
        at.call(Script(limited(0.0)), max_attempts=5)
    assert time.now > 1003


def test_anything_unexpected_is_this_rows_failure(at: Place) -> None:
    endpoints = at(Script(busy(), KeyError("x"), DONE))
    with pytest.raises(RowError) as caught:
        Retries(Limits(), endpoints).call(Prompt.of("s", "u"))
    assert (caught.value.reason, caught.value.attempts) == ("bad_response", 2)
    assert caught.value.message == "unexpected KeyError: 'x'"
    assert endpoints._all[0].gate.concurrency.in_flight == 0


def test_a_stop_ends_the_waiting_at_once() -> None:
    stop = threading.Event()
    script = Script(limited(3600.0), before=stop.set)
    endpoints = Endpoints([LiveEndpoint(script, Gate(max_in_flight=4, longest_pause=3600))], stop=stop)
    with pytest.raises(Stopped):
        Retries(Limits(), endpoints).call(Prompt.of("s", "u"))
    assert script.calls == 1


def test_an_answer_that_arrives_after_the_stop_counts(at: Place, time: Any) -> None:
    assert at.call(Script(DONE, before=time.stop.set)).completion == DONE


def test_attempts_that_may_have_been_billed_are_counted(at: Place) -> None:
    lost = TransientError("timeout", "", maybe_billed=True)
    assert at.call(Script(lost, busy(), lost, DONE)).maybe_billed == 2
    with pytest.raises(TransientError) as caught:
        at.call(Script(lost, busy(), busy()), max_attempts=3)
    assert caught.value.maybe_billed == 1


def test_another_way_to_ask_for_json_is_tried_at_once_and_is_no_retry(at: Place, time: Any) -> None:
    script = Script(FormatRefused(""), FormatRefused(""), DONE)
    assert at.call(script, max_attempts=1).attempts == 3
    assert time.waits == []


def test_an_endpoint_that_refuses_for_ever_is_not_asked_for_ever(at: Place) -> None:
    script = Script(FormatRefused(""))
    with pytest.raises(FormatRefused):
        at.call(script)
    assert script.calls == 3


def test_max_attempts_counts_over_all_endpoints(at: Place) -> None:
    scripts = [Script(busy()), Script(busy()), Script(busy())]
    with pytest.raises(TransientError) as caught:
        at.call(*scripts, max_attempts=4)
    assert caught.value.attempts == sum(script.calls for script in scripts) == 4
    assert min(script.calls for script in scripts) == 1  # a retry goes elsewhere


def test_a_refused_key_costs_the_row_no_attempt(at: Place) -> None:
    refusing, answering = Script(AccountError("auth", "no")), Script(DONE)
    called = at.call(refusing, answering, max_attempts=1)
    assert (called.completion, called.attempts, refusing.calls) == (DONE, 2, 1)


def test_only_the_last_endpoint_stops_the_run(at: Place) -> None:
    scripts = [Script(AccountError("auth", "one")), Script(AccountError("quota_exhausted", "two"))]
    with pytest.raises(AccountError) as caught:
        at.call(*scripts)
    assert (caught.value.reason, caught.value.attempts) == ("quota_exhausted", 2)


def test_threads_do_not_disturb_each_other(time: Any) -> None:
    left = {str(number): number % 3 for number in range(60)}

    class Client:
        def complete(self, prompt: Prompt) -> Completion:
            user = json.loads(prompt.messages)[0]["content"]
            if left[user]:
                left[user] -= 1
                raise busy()
            return Completion(user)

        def close(self) -> None:
            pass

    endpoints = Endpoints([LiveEndpoint(Client(), Gate(max_in_flight=64))], stop=time.stop, clock=time.clock)
    retries = Retries(Limits(max_attempts=3), endpoints)
    found: dict[int, tuple[str | None, int]] = {}

    def work(number: int) -> None:
        called = retries.call(Prompt.of("", str(number)))
        found[number] = (called.completion.text, called.attempts)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {number: (str(number), number % 3 + 1) for number in range(60)}

"""Which endpoint takes the next call, and when: the one place where the threads of a process wait for their turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from transforms.llm.amounts import Amounts
from transforms.llm.completion import Completion
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.errors import AccountError, CallError, RowError, Stopped, TransientError
from transforms.llm.estimate import TokenEstimate
from transforms.llm.gate import used_by
from transforms.llm.lease import Lease, Outcome
from transforms.llm.shared_paces import SharedPaces

_ONE = Amounts()
_POLL = 0.1  # seconds: how soon whoever is first in line sees that the run is being stopped


class Counts(NamedTuple):
    """What a process's calls add up to: requests made so far, those under way now, those answered with a 429, the
    seconds that threads have waited on purpose, added up over all of them, and the seconds for which limits or
    pauses held calls back, however many threads waited meanwhile."""

    calls: int
    in_flight: int
    rate_limited: int
    slept: float
    throttled: float


class Endpoints:
    """The endpoints of a process, shared by all of its threads.

    A call goes to the endpoint at which it may start soonest, and of several to the one with the most room, in
    turns. Those that cannot start wait in one line; only the first of it looks at the clock. Endpoints that fail
    again and again get calls only if all do; one that refuses the account or the configuration gets none, as long as
    there is another: the last one stays, and its AccountError is for the caller to act on.

    `parameters` are those of the model, for a first estimate of an answer's length. `stop` set: all that wait raise
    Stopped at once, and so does whoever comes later. `clock` is monotonic, in seconds; `wait` waits for so many
    seconds or less.
    """

    def __init__(
        self,
        endpoints: Sequence[LiveEndpoint],
        *,
        stop: threading.Event,
        parameters: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._all = list(endpoints)
        self._stop = stop
        self._estimate = TokenEstimate(parameters or {})
        self._clock = clock
        self._lock = threading.Lock()  # of everything here
        self._turn = threading.Lock()  # held by the first in line
        self._held_up = False  # it has found that it must wait
        self._bell = threading.Event()  # something has changed since it looked
        self._wait = wait or self._bell.wait
        self._counting = any(endpoint.gate.counting for endpoint in self._all)
        self._sharing = any(endpoint.gate.shared is not None for endpoint in self._all)
        self._slept = 0.0
        self._throttled = 0.0  # written by the first in line alone
        self._rate_limited = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def slept(self) -> float:
        """Seconds that threads have waited here on purpose, added up over all of them."""
        return self._slept

    @property
    def throttled(self) -> float:
        """Seconds for which the account's limits or pauses held calls back, so far: time by the clock, however many
        threads waited. Neither a row's own backoff is in it nor that all places were taken."""
        return self._throttled

    def counts(self) -> Counts:
        """The figures of all endpoints together."""
        with self._lock:
            gates = [endpoint.gate.concurrency for endpoint in self._all]
            calls, in_flight = sum(gate.started for gate in gates), sum(gate.in_flight for gate in gates)
            return Counts(calls, in_flight, self._rate_limited, self._slept, self._throttled)

    def acquire(self, characters: int = 0, avoid: LiveEndpoint | None = None) -> Lease:
        """Return when a request with a prompt of so many characters may start; rather not at `avoid`.

        Raises Stopped, and RowError request_too_large for what no endpoint's limits ever let through.
        """
        if self._stop.is_set():
            raise Stopped()
        # Those in line pass one by one: whoever comes by meanwhile need not join them, unless the first really waits.
        # Limits that are shared are asked for by one thread at a time: the process takes turns with others.
        if not self._held_up and not self._sharing:
            lease, _ = self._try(characters, avoid)
            if lease is not None:
                return lease
        before = self._clock()
        try:
            with self._turn:
                return self._stand_in_line(characters, avoid)
        finally:
            self._add_slept(before)

    def sleep(self, seconds: float) -> None:
        """Wait, on purpose. Raises Stopped as soon as the run is being stopped."""
        before = self._clock()
        stopped = self._stop.wait(seconds)
        self._add_slept(before)
        if stopped:
            raise Stopped()

    def close(self) -> None:
        """Close the clients."""
        for endpoint in self._all:
            endpoint.client.close()

    def _release(self, lease: Lease, outcome: Outcome) -> bool:
        """See Lease.release."""
        endpoint = lease.endpoint
        with self._lock:
            now = self._clock()
            pause = endpoint.gate.end(lease.number, lease.amounts, lease.started, outcome, now)
            self._counting = self._counting or endpoint.gate.counting
            self._rate_limited += isinstance(outcome, CallError) and outcome.http_status == 429
            if isinstance(outcome, Completion):
                endpoint.health.succeeded()
                self._estimate.learn(lease.characters, outcome.usage)
            elif _down(outcome) and len(self._all) > 1 and endpoint.health.failed(now):
                endpoint.gate.concurrency.restart()  # when it is back: one call, then more
            left = isinstance(outcome, AccountError) and self._refuse(endpoint)
        if self._held_up:
            self._bell.set()
        if endpoint.gate.shared is not None and lease.turn is not None:
            rate = None if outcome is None else outcome.rate
            used = used_by(outcome, lease.amounts)
            endpoint.gate.shared.tell(lease.turn, lease.amounts, used, rate, pause)
        return left

    def _refuse(self, endpoint: LiveEndpoint) -> bool:
        if all(each is endpoint or each.health.out_until == inf for each in self._all):
            return False
        endpoint.health.refuse()
        return True

    def _stand_in_line(self, characters: int, avoid: LiveEndpoint | None) -> Lease:
        try:
            while not self._stop.is_set():
                self._bell.clear()
                lease, delay = self._try(characters, avoid)
                if lease is not None:
                    return lease
                if self._held_up:
                    before = self._clock()
                    self._wait(min(delay, _POLL))
                    if delay < inf or self._cut_back():
                        self._throttled += self._clock() - before
                self._held_up = True  # and once more: what ended just before rang no bell
            raise Stopped()
        finally:
            self._held_up = False

    def _cut_back(self) -> bool:
        """Whether it is refusals that leave no place for another call."""
        with self._lock:
            gates = [endpoint.gate.concurrency for endpoint in self._all]
            return any(gate.limit < gate.most for gate in gates)

    def _try(self, characters: int, avoid: LiveEndpoint | None) -> tuple[Lease | None, float]:
        """A lease, or the seconds until it is worth another look."""
        with self._lock:
            now = self._clock()
            amounts = self._estimate.amounts(characters) if self._counting else _ONE
            best, delay = self._soonest(amounts, characters, avoid, now)
            if delay > 0:
                return None, delay
            if best.gate.shared is None or not best.gate.shared.asks:
                return self._start(best, characters, amounts, now), 0.0
            best.gate.concurrency.hold()
        return self._ask(best, best.gate.shared, characters, amounts)

    def _start(
        self, endpoint: LiveEndpoint, characters: int, amounts: Amounts, now: float, turn: str | None = None
    ) -> Lease:
        number = endpoint.gate.start(amounts, now)
        return Lease(endpoint, characters, amounts, number, now, self._release, turn)

    def _ask(
        self, endpoint: LiveEndpoint, shared: SharedPaces, characters: int, amounts: Amounts
    ) -> tuple[Lease | None, float]:
        """As `_try`, by those who share the limits of the endpoint. Nothing is locked while they are asked, nor until
        its turn has come."""
        turn = shared.ask(amounts)
        if turn is not None and turn.starts_in > 0:
            self._stop.wait(turn.starts_in)
        with self._lock:
            endpoint.gate.concurrency.let_go()
            now = self._clock()
            delay = endpoint.gate.heard(turn, amounts, now)
            if turn is None or delay > 0 or self._stop.is_set():
                return None, delay
            return self._start(endpoint, characters, amounts, now, turn.at), 0.0

    def _soonest(
        self, amounts: Amounts, characters: int, avoid: LiveEndpoint | None, now: float
    ) -> tuple[LiveEndpoint, float]:
        """The endpoint that takes the request, and the seconds until it does."""
        choice = self._all
        if len(choice) > 1:
            choice = [endpoint for endpoint in choice if endpoint.health.out_until < inf]
            choice = [endpoint for endpoint in choice if endpoint.health.out_until <= now] or choice
        if self._counting:
            choice = self._fitting(choice, characters)
        if len(choice) == 1:
            return choice[0], choice[0].gate.delay(amounts, now)
        delays = {each: each.gate.delay(amounts, now) for each in choice}

        def rank(each: LiveEndpoint) -> tuple[float, bool, float, int]:
            concurrency = each.gate.concurrency
            return delays[each], each is avoid, concurrency.load, concurrency.started

        best = min(choice, key=rank)
        return best, delays[best]

    def _fitting(self, endpoints: list[LiveEndpoint], characters: int) -> list[LiveEndpoint]:
        least = self._estimate.least(characters)
        limits = [endpoint.gate.too_large(least) for endpoint in endpoints]
        fitting = [endpoint for endpoint, limit in zip(endpoints, limits, strict=True) if limit is None]
        if not fitting:
            most = max(limit for limit in limits if limit is not None)
            message = f"about {least.tokens:.0f} tokens, and the account has {most:.0f} in a whole minute"
            raise RowError("request_too_large", message)
        return fitting

    def _add_slept(self, before: float) -> None:
        with self._lock:
            self._slept += self._clock() - before


def _down(outcome: Outcome) -> bool:
    """Whether there was no usable response at all. A 429 is one: the gate sees to it."""
    return isinstance(outcome, TransientError) and outcome.reason != "rate_limited"

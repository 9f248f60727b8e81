"""The limits per minute of one account, shared by all worker processes over Redis, and what holds while that is gone.

Each request asks once before it starts (take.lua), and tells what it really took where that was otherwise (tell.lua).
It is given its turn up to AHEAD seconds before that comes, so that processes take turns, and do not all come back at
the moment when the next one is due.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import NamedTuple

from transforms.llm import pace
from transforms.llm.amounts import Amounts
from transforms.llm.paces import Paces
from transforms.llm.rate_headers import RateHeaders
from transforms.redis_link import RETRY_SECONDS, RedisLink, Unreachable

AHEAD = 0.5  # seconds that a request may be given its turn before it may start
_LONGEST = 1.0  # seconds until a request that found no room asks again: others may have given back what they took
_CONSTANTS = {
    "MINUTE": pace.MINUTE,
    "BIN": pace.BIN,
    "BURST": pace.BURST,
    "PACED": pace.MINUTE_SECONDS,
    "NEVER_MIND": pace.NEVER_MIND,
    "GATHERING": RETRY_SECONDS + 10,  # until all processes that are alive have seen that Redis is back
    "CLAIM": 3 * _LONGEST,
}


class Turn(NamedTuple):
    """The answer to a request that asks: `wait` seconds until it is worth to ask again, 0 where it has its turn, in
    `starts_in` seconds, at the time `at` of Redis. `pause`: seconds in which nobody starts. `alive`: the processes that
    have asked within a minute. `debt`: seconds until all that is taken is paid off. `learned`: the limits as the
    provider states them, inf where it does not."""

    wait: float
    starts_in: float
    at: str
    pause: float
    alive: int
    debt: float
    learned: tuple[float, ...]


class SharedPaces:
    """What Paces is to a process alone. `key` is the same for all who use the account, `process` for nobody else.
    `local` are the account's limits, of which `headroom` is used.

    While Redis is gone each process keeps to its part of them: a `divisor` of `workers`, the processes that were alive
    when Redis last answered, or those that `others` counts, whichever are most.

    `ask` and `tell` wait for Redis, and are for one thread at a time, or several, without a lock; all else is quick,
    and for one thread at a time."""

    counting = True

    def __init__(
        self,
        link: RedisLink,
        key: str,
        process: str,
        local: Paces,
        *,
        headroom: float,
        workers: int = 1,
        others: Callable[[], int] = lambda: 1,
        now: Callable[[], float | str] = lambda: "",
        ahead: float = AHEAD,
    ) -> None:
        # Within braces: a cluster of Redis keeps keys with the same text in them in one place, as scripts need it.
        self._keys = [f"paidonce:{{{key}}}:limits", f"paidonce:{{{key}}}:workers"]
        self._link = link
        self._process = process
        self._local = local
        self._headroom = headroom
        self._workers = workers
        self._others = others
        self._now = now  # for tests; Redis's own clock else
        self._ahead = ahead
        self._take, self._tell = link.script(_lua("take")), link.script(_lua("tell"))
        self._sharing = True
        self._not_before = -inf
        self._alive = 1
        self._divisor = 1
        self._learned: tuple[float, ...] = (inf,) * len(Amounts._fields)  # as Redis knows it
        self._paid_at = -inf  # when all that is taken, by anybody, is paid off
        self._divided_at = -inf

    @property
    def sharing(self) -> bool:
        """Whether Redis says when a request may start. Else this process keeps to its part."""
        return self._sharing

    @property
    def asks(self) -> bool:
        """Whether Redis is to be asked before a request starts."""
        return self._sharing or self._link.ready

    def too_large(self, amounts: Amounts) -> float | None:
        """See Paces."""
        return self._local.too_large(amounts)

    def delay(self, amounts: Amounts, now: float) -> float:
        """Seconds until it is worth to ask, or where nobody is asked, until such a request may start; 0 or less:
        now."""
        return self._not_before - now if self._sharing else self._local.delay(amounts, now)

    def take(self, amounts: Amounts, now: float) -> None:
        """A request starts."""
        if not self._sharing:
            self._local.take(amounts, now)

    def settle(self, amounts: Amounts, used: Amounts, taken_at: float) -> None:
        """See Paces. What was taken when Redis was there is for `tell`."""
        if not self._sharing and taken_at >= self._divided_at:
            self._local.settle(amounts, used, taken_at)

    def observe(self, rates: RateHeaders, used: Amounts, now: float) -> None:
        """See Paces."""
        self._local.observe(rates, used, now)

    def ask(self, amounts: Amounts) -> Turn | None:
        """Asks Redis for a turn. None where it does not answer. `heard` has to follow."""
        arguments: list[float | str] = [self._now(), self._process, self._headroom, self._ahead]
        arguments.append(0 if self._sharing else self._divisor)
        for amount, most in zip(amounts, self._local.most, strict=True):
            arguments += [amount, _text(most)]
        try:
            granted, wait, at, pause, alive, debt, *learned = self._take(self._keys, arguments)
        except Unreachable:
            if self._sharing:
                self._divisor = max(self._workers, self._alive, self._others())
            return None
        limits = tuple(float(limit or inf) for limit in learned)
        wait = float(wait)
        if granted:
            return Turn(0.0, wait, at, 0.0, int(alive), float(debt), limits)
        wait = min(wait, _LONGEST) + random.uniform(0, self._ahead / 2)  # not all at once
        return Turn(wait, 0.0, "", float(pause), int(alive), 0.0, limits)

    def heard(self, turn: Turn | None, amounts: Amounts, now: float) -> None:
        """What a request that asked, and is to take so much, was answered."""
        if turn is None:
            if self._sharing:
                self._divide(amounts, now)
            return
        self._sharing = True
        self._alive = turn.alive
        self._learned = turn.learned
        self._local.learn(turn.learned, now)
        self._not_before = now + turn.wait
        self._paid_at = max(self._paid_at, now + turn.debt)

    def tell(self, turn: str, amounts: Amounts, used: Amounts, rates: RateHeaders | None, pause: float) -> None:
        """Tells Redis what came of the request that had its turn then: what it has used, what the provider says, and
        for how many seconds nobody is to start because of it."""
        arguments: list[float | str] = [self._now(), self._headroom, turn, pause]
        news = pause > 0
        for at, most in enumerate(self._local.most):
            rate = rates[at] if rates is not None else None
            difference = used[at] - amounts[at] if most < inf else 0.0
            learned, hold = None, 0.0
            if rate is not None:
                hold = pace.hold_seconds(rate, used[at])
                if rate.limit is not None and rate.limit != self._learned[at]:
                    learned = rate.limit
            arguments += [_text(most), difference, "" if learned is None else learned, hold]
            news = news or difference != 0 or learned is not None or hold > 0
        if news:
            with suppress(Unreachable):  # the next request that asks will see
                self._tell(self._keys, arguments)

    def _divide(self, amounts: Amounts, now: float) -> None:
        """Goes on without Redis.

        No minute is above the limit by that. Until now all processes together took at the limit's pace, a minute's in
        61 seconds; from now on each takes at its part of that pace, and all of them have seen Redis go before they
        took anything without it. What had been taken in advance is paid off first (`debt`), nobody has a burst, and
        the request that found Redis gone counts as one that went, so that each process lets the time for one pass
        before its first. So at no moment is more taken than the limit's pace allows; what an account is above the
        divisor, because processes came that nobody here has seen, the provider refuses.
        """
        self._sharing = False
        self._divided_at = now
        self._local = self._local.divided(self._divisor, max(now, self._paid_at))
        self._local.take(amounts, now)


def _text(most: float) -> float | str:
    return "" if most == inf else most


def _lua(name: str) -> str:
    folder = Path(__file__).parent
    head = "".join(f"local {constant} = {value!r}\n" for constant, value in _CONSTANTS.items())
    return head + "".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("limits", name))

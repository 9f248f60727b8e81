"""When a request may start at one endpoint: its rates, its pauses and how much it bears at once."""

from __future__ import annotations

import random
from math import inf

from transforms.llm.amounts import Amounts
from transforms.llm.completion import Completion
from transforms.llm.concurrency import Concurrency
from transforms.llm.errors import CallError
from transforms.llm.paces import Paces
from transforms.llm.shared_paces import SharedPaces, Turn

FIRST_PAUSE = 0.5  # seconds, after a 429 without Retry-After; doubles with each that comes too soon
FIRST_ADDED_PAUSE = 0.05  # the same where the server says how long, and it was not long enough
LONGEST_PAUSE = 30.0  # seconds, of our own choice
_MOST_STRIKES = 10  # from there on a pause is LONGEST_PAUSE anyway
_CLEAN = 20  # answers per refusal: fewer of them between two pauses, and the next one is longer
_SPREAD = 0.1  # of a pause: over how much time calls start again, so that not all come at once
_LONGEST_SPREAD = 1.0  # seconds
_FIRST_CALLS = 8  # may start before the first reply: it may tell the limits, or refuse the key ...
_FIRST_REPLY = 1.0  # ... but no longer than these seconds are waited for it


class Gate:
    """Says when the next request may start. It waits for nothing and holds no lock: Endpoints does both.

    `paces` are the account's limits per minute, `shared` the same where other processes keep to them too: then who may
    start by `delay` asks them, and brings their answer to `heard`. `longest_pause` caps what a server can ask for, in
    seconds. Times are of one monotonic clock, in seconds.
    """

    def __init__(
        self, *, max_in_flight: int, paces: Paces | SharedPaces | None = None, longest_pause: float = 120.0
    ) -> None:
        self.concurrency = Concurrency(max_in_flight)
        self.paces = Paces() if paces is None else paces
        self.shared = paces if isinstance(paces, SharedPaces) else None
        self._longest_pause = longest_pause
        self._not_before = -inf
        self._spread = 0.0  # seconds over which calls start again after the pause
        self._spread_until = -inf
        self._clean = inf  # answers since the last cut
        self._refusals = 0  # since then, for load
        self._strikes = 0  # pauses in a row that were too short
        self._first_until = inf  # until when the first calls wait for the first reply; -inf once it is here

    @property
    def counting(self) -> bool:
        """Whether there is any limit per minute, so that amounts matter."""
        return self.paces.counting

    def too_large(self, amounts: Amounts) -> float | None:
        """The minute's limit on tokens that this request alone would exceed, None if there is none."""
        return self.paces.too_large(amounts)

    def delay(self, amounts: Amounts, now: float) -> float:
        """Seconds until such a request may start, if nothing changes; 0: now; inf: when another one ends."""
        concurrency = self.concurrency
        if concurrency.in_flight + 1 > concurrency.limit:
            return inf
        wait = self._not_before - now
        if self.paces.counting:
            wait = max(wait, self.paces.delay(amounts, now))
        if concurrency.in_flight >= _FIRST_CALLS and now < self._first_until:
            wait = max(wait, self._first_until - now)
        return wait if wait > 0 else 0.0

    def start(self, amounts: Amounts, now: float) -> int:
        """Counts a request in that starts now. Its number, for `end`."""
        if self.paces.counting:
            self.paces.take(amounts, now)
        if now < self._spread_until:
            self._not_before = now + random.uniform(0, 2 * self._spread / self.concurrency.limit)
        if self._first_until == inf:
            self._first_until = now + _FIRST_REPLY
        return self.concurrency.start()

    def heard(self, turn: Turn | None, amounts: Amounts, now: float) -> float:
        """Seconds until such a request may start, by what the shared paces say of it, None where they do not answer;
        0: now."""
        assert self.shared is not None
        self.shared.heard(turn, amounts, now)
        if turn is None:
            return self.delay(amounts, now)
        if turn.pause > 0:
            self.pause(turn.pause, now)
        return turn.wait

    def end(
        self, number: int, amounts: Amounts, started: float, outcome: Completion | CallError | None, now: float
    ) -> float:
        """Counts a request out: what it really took, and what its reply says. None: it broke on our side. Returns the
        seconds for which no request is to start because of it, 0 where that is nothing new."""
        before = self._not_before
        rate = None if outcome is None else outcome.rate
        if rate is not None or self.paces.counting:
            used = used_by(outcome, amounts)
            self.paces.settle(amounts, used, started)
            if rate is not None:
                self.paces.observe(rate, used, now)
        if isinstance(outcome, Completion):
            self.concurrency.grow(number)
            self._clean += 1
        elif outcome is not None and (outcome.reason == "rate_limited" or outcome.retry_after):
            self._refused(number, outcome.retry_after, now)
        self.concurrency.end()
        self._first_until = -inf
        return max(0.0, self._not_before - now) if self._not_before > before else 0.0

    def pause(self, seconds: float, now: float) -> None:
        """Lets no request start for so long. A longer pause that is on stays as it is."""
        spread = min(_LONGEST_SPREAD, seconds * _SPREAD)
        until = now + seconds + random.uniform(0, spread)  # other processes pause for the same time
        if until > self._not_before:
            self._not_before, self._spread, self._spread_until = until, spread, until + spread

    def _refused(self, number: int, retry_after: float | None, now: float) -> None:
        news = self.concurrency.cut(number)
        if news:
            # Servers may say "in 50 ms" to each of many callers; what they say is enough only if it helps.
            short = self._clean < _CLEAN * self._refusals
            self._strikes = min(_MOST_STRIKES, self._strikes + 1) if short else max(0, self._strikes - 1)
            self._clean = self._refusals = 0
        self._refusals += 1
        if retry_after:
            self.pause(min(retry_after, self._longest_pause), now)
            own = FIRST_ADDED_PAUSE if self._strikes else 0.0
        else:
            own = FIRST_PAUSE
        if news and own:
            self.pause(min(LONGEST_PAUSE, own * 2**self._strikes) * random.uniform(0.5, 1), now)


def used_by(outcome: Completion | CallError | None, reserved: Amounts) -> Amounts:
    """What a request took, as far as its outcome tells; else what was reserved for it."""
    completion = outcome.completion if isinstance(outcome, CallError) else outcome
    if completion is not None:
        usage = completion.usage
        prompt, answer, cached = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
        if prompt is None or answer is None:
            return reserved
        return Amounts(1.0, prompt + answer, max(0, prompt - (cached or 0)), answer)
    if isinstance(outcome, CallError) and not outcome.maybe_billed:
        return Amounts()  # a request all the same: refused ones count at OpenAI
    return reserved

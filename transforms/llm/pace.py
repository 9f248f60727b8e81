"""One limit per minute: how soon the next amount may be taken from it."""

from __future__ import annotations

from math import inf

from transforms.llm.rate_headers import Rate

MINUTE = 60.0
BIN = 0.5  # seconds: how finely the last minute is remembered, so that its memory does not grow with the rate
BURST = 0.25  # seconds' worth that may be taken at once, to make up for threads that wake late
_SLACK = 1.0  # seconds: the pace is a minute's limit in 61, so that burst and network never add up to more
NEVER_MIND = 1e-6  # seconds; less than that is rounding
MINUTE_SECONDS = MINUTE + _SLACK  # in which a minute's limit goes out


def hold_seconds(rate: Rate, amount: float) -> float:
    """How long nothing is to be taken after a response that says so, to a request that took `amount`."""
    if rate.remaining is None or rate.remaining >= amount or rate.reset is None:
        return 0.0
    # Until all is there again, not only enough for one: some count in whole minutes, and with those that refill
    # steadily one long wait is better than a minute of refusals at the brink.
    return min(rate.reset, MINUTE)


class Pace:
    """A token bucket (as GCRA, ITU-T I.371: it keeps only the time at which the next request is due), and behind
    it the sum of the last 60 seconds, which stays within the limit whatever the amounts are. A bucket alone
    cannot do that: it passes two requests of 0.9 minutes each within one minute.

    `per_minute` is the account's limit as the user states it, None if he does not; `headroom` is the share of it
    that is used. What the provider states (`observe`) counts where it is lower. Of `workers` processes that have the
    account together each keeps to its part: bursts and slack are parts too, so that all parts make one whole. Amounts
    may turn out otherwise than was thought (`settle`), even when more of them than the limit has gone out. Times are
    of one monotonic clock, in seconds; nothing is taken before `due`. Not for several threads at once.
    """

    def __init__(self, per_minute: float | None, headroom: float, *, workers: int = 1, due: float = -inf) -> None:
        self._own = inf if per_minute is None else per_minute
        self._learned = inf
        self._headroom = headroom
        self._workers = workers
        self._due = due  # when the bucket is no longer in debt
        self._held = -inf  # until when the provider has nothing left
        self._bins: dict[int, float] = {}  # what was taken, by BIN since the clock's zero; the oldest first
        self._sum = 0.0
        self._apply()

    @property
    def most(self) -> float:
        """The largest amount that the account ever lets through: a whole minute's, headroom included, of all workers
        together. inf: there is no limit."""
        return min(self._own, self._learned)

    @property
    def learned(self) -> float:
        """The account's limit as the provider states it, inf if it has not."""
        return self._learned

    @property
    def idle(self) -> bool:
        """Whether there is nothing to keep to, so that amounts need not be counted."""
        return self._limit == inf and self._held == -inf

    def delay(self, amount: float, now: float) -> float:
        """Seconds until `amount` may be taken, if nobody else comes before; 0: now."""
        wait = max(self._due, self._held) - now
        if self._limit < inf:
            self._forget(now)
            # More than the limit (headroom, or an estimate that was too low): alone in its minute.
            over = self._sum + min(amount, self._limit) * (1 - 1e-9) - self._limit
            if over > 0 and self._bins:
                wait = max(wait, self._free_at(over) - now)
        return wait if wait > NEVER_MIND else 0.0

    def take(self, amount: float, now: float) -> None:
        """Takes it, whether or not it may be taken."""
        if self._limit < inf:
            self._due = max(self._due, now - BURST) + amount / self._rate
            place = int(now // BIN)
            self._bins[place] = self._bins.get(place, 0.0) + amount
            self._sum += amount

    def settle(self, difference: float, taken_at: float) -> None:
        """Corrects what was taken at that time, up or down."""
        place = int(taken_at // BIN)
        if place in self._bins:  # else it was taken before there was a limit, or more than a minute ago
            self._due += difference / self._rate
            self._bins[place] += difference
            self._sum += difference

    def observe(self, rate: Rate, amount: float, now: float) -> None:
        """What the provider says in the response to a request that took `amount`."""
        if rate.limit is not None:
            self.learn(rate.limit, now)
        if hold := hold_seconds(rate, amount):
            self._held = max(self._held, now + hold)

    def learn(self, limit: float, now: float) -> None:
        """The account's limit is so much, by what the provider states."""
        if limit != self._learned:
            if self._limit == inf:
                self._due = max(self._due, now)  # no burst on top of what went out uncounted
            self._learned = limit
            self._apply()

    def divided(self, workers: int, due: float) -> Pace:
        """A pace that has taken nothing yet, of the same account, for one of so many processes."""
        pace = Pace(None if self._own == inf else self._own, self._headroom, workers=workers, due=due)
        pace._learned, pace._held = self._learned, self._held
        pace._apply()
        return pace

    def _apply(self) -> None:
        self._limit = self.most * self._headroom / self._workers
        self._rate = self._limit / MINUTE_SECONDS  # per second

    def _forget(self, now: float) -> None:
        while self._bins:
            place = next(iter(self._bins))
            if (place + 1) * BIN + MINUTE > now + NEVER_MIND:
                return
            self._sum -= self._bins.pop(place)
        self._sum = 0.0  # and with it what adding floats left over

    def _free_at(self, over: float) -> float:
        """When so much of the last minute's sum will be forgotten."""
        freed_at = 0.0
        for place, amount in self._bins.items():
            freed_at = (place + 1) * BIN + MINUTE
            over -= amount
            if over <= 0:
                break
        return freed_at

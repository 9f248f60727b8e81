"""The limits per minute of one account, those of requests and of tokens, and what is left of them."""

from __future__ import annotations

from math import inf

from transforms.llm.amounts import Amounts
from transforms.llm.pace import Pace
from transforms.llm.rate_headers import RateHeaders


class Paces:
    """One Pace for each of Amounts, as one. Limits are per minute, None where the user sets none; `headroom` and
    `workers` are as for Pace. Not for several threads at once."""

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        headroom: float = 1.0,
        workers: int = 1,
    ) -> None:
        self._set(
            [Pace(each, headroom, workers=workers) for each in (requests_per_minute, tokens_per_minute, None, None)]
        )

    def _set(self, paces: list[Pace]) -> None:
        self._all = paces
        self._find_counting()

    @property
    def most(self) -> tuple[float, ...]:
        """The account's limits per minute, inf where there is none."""
        return tuple(pace.most for pace in self._all)

    @property
    def learned(self) -> tuple[float, ...]:
        """Those that the provider states, inf where it does not."""
        return tuple(pace.learned for pace in self._all)

    def too_large(self, amounts: Amounts) -> float | None:
        """The minute's limit on tokens that this request alone would exceed, None if there is none."""
        return next((pace.most for at, pace in self._counting if at > 0 and amounts[at] > pace.most), None)

    def delay(self, amounts: Amounts, now: float) -> float:
        """Seconds until such a request may start, if nobody else comes before; 0 or less: now."""
        wait = 0.0
        for at, pace in self._counting:
            wait = max(wait, pace.delay(amounts[at], now))
        return wait

    def take(self, amounts: Amounts, now: float) -> None:
        """A request starts, whether or not it may."""
        for at, pace in self._counting:
            pace.take(amounts[at], now)

    def settle(self, amounts: Amounts, used: Amounts, taken_at: float) -> None:
        """A request that was taken as `amounts` has used so much."""
        for at, pace in self._counting:
            if used[at] != amounts[at]:
                pace.settle(used[at] - amounts[at], taken_at)

    def observe(self, rates: RateHeaders, used: Amounts, now: float) -> None:
        """What the provider says in the response to a request that has used so much."""
        for pace, rate, amount in zip(self._all, rates, used, strict=True):
            if rate is not None:
                pace.observe(rate, amount, now)
        self._find_counting()

    def learn(self, limits: tuple[float, ...], now: float) -> None:
        """The account's limits, by what the provider has stated to other workers; inf where it has not."""
        for pace, limit in zip(self._all, limits, strict=True):
            if limit < inf:
                pace.learn(limit, now)
        self._find_counting()

    def divided(self, workers: int, due: float) -> Paces:
        """Paces of the same account that have taken nothing yet, for one of so many processes; nothing is taken
        before `due`."""
        paces = Paces()
        paces._set([pace.divided(workers, due) for pace in self._all])
        return paces

    def _find_counting(self) -> None:
        self._counting = [(at, pace) for at, pace in enumerate(self._all) if not pace.idle]
        self.counting = bool(self._counting)  # whether there is any limit per minute, so that amounts matter

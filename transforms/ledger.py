"""What of a budget is spent, and what is set aside for calls under way, where one process keeps count."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Room(Enum):
    """Whether there is room for a call: YES, and it is set aside; LATER, as calls under way may leave more of it than
    they have set aside; or NEVER, as there are none."""

    YES = "yes"
    LATER = "later"
    NEVER = "never"


class Ledger(Protocol):
    """All amounts are US dollars. Each `reserve` that says YES needs one `settle`. Not for several threads at once."""

    @property
    def spent_usd(self) -> float:
        """What is spent, by earlier runs and by all whom the ledger knows of."""

    @property
    def budget(self) -> str:
        """What may be spent, for people."""

    def reserve(self, usd: float) -> Room:
        """Sets so much aside for a call, where there is room for it."""

    def settle(self, usd: float, cost_usd: float) -> None:
        """A call has ended for which `usd` were set aside, and has cost `cost_usd`."""


class LocalLedger:
    """The ledger of a process that shares with nobody: `most_usd` is what may be spent in all, its part of
    `max_cost_usd` where others have parts too, and `spent_usd` what is spent of it already. `reserved_usd` are set
    aside for so many calls `under_way`."""

    def __init__(
        self,
        max_cost_usd: float,
        spent_usd: float,
        *,
        most_usd: float | None = None,
        reserved_usd: float = 0.0,
        under_way: int = 0,
    ) -> None:
        self._max = max_cost_usd
        self._most = max_cost_usd if most_usd is None else most_usd
        self._spent = spent_usd
        self._reserved = reserved_usd
        self._under_way = under_way

    @property
    def spent_usd(self) -> float:
        """See Ledger."""
        return self._spent

    @property
    def budget(self) -> str:
        """See Ledger."""
        whole = f"budget.max_cost_usd ${self._max:,.4f}"
        return whole if self._most == self._max else f"${self._most:,.4f}, with this worker's part of {whole},"

    def reserve(self, usd: float) -> Room:
        """See Ledger."""
        if self._spent + self._reserved + usd <= self._most:
            self._under_way += 1
            self._reserved += usd
            return Room.YES
        return Room.LATER if self._under_way else Room.NEVER

    def settle(self, usd: float, cost_usd: float) -> None:
        """See Ledger."""
        self._under_way -= 1
        self._reserved = self._reserved - usd if self._under_way else 0.0
        self._spent += cost_usd

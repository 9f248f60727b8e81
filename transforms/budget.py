"""What a run may spend: no call is made whose cost, with that of all calls under way, could pass the budget.

It counts what the accounts of earlier runs, the run's journal and the calls of this process, or of all, have cost, as
its ledger knows them. Near its end fewer and fewer calls are under way, so that nearly all of it can be used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from transforms import journal
from transforms.journal import OK, Entry
from transforms.ledger import Ledger, Room
from transforms.llm.completion import Usage
from transforms.llm.errors import Stopped
from transforms.llm.forecast import Forecast, Size
from transforms.llm.group_caller import GroupOutcome
from transforms.llm.notes import REASKED
from transforms.stop import POLL_SECONDS, StopSign


class BudgetSpec(NamedTuple):
    """US dollars: all that may be spent, and what earlier runs have spent of it."""

    max_cost_usd: float
    spent_usd: float


class Spent(Exception):
    """The next call could pass the budget, and no call is under way whose end would leave more of it."""


class Share(NamedTuple):
    """What is set aside for a call under way: US dollars, for a request of that size."""

    usd: float
    size: Size


class Budget:
    """Safe for threads. Each `reserve` that returns needs one `settle`."""

    def __init__(self, ledger: Ledger, forecast: Forecast) -> None:
        self._ledger = ledger
        self._forecast = forecast
        self._freed = threading.Condition()  # of everything here
        self._over = False

    @property
    def spent_usd(self) -> float:
        """US dollars, those of earlier runs included."""
        return self._ledger.spent_usd

    def reserve(self, fields: Mapping[str, Any], stop: StopSign) -> Share:
        """Sets aside what a row's call may cost, when there is room for it: where calls under way hold too much, it
        waits for their ends. Raises Spent, or Stopped if the run stops meanwhile."""
        return self._reserve(self._size(fields), stop)

    def reserve_group(self, rows: Sequence[Mapping[str, Any]], stop: StopSign) -> Share:
        """The same for one request about several rows."""
        try:
            size = self._forecast.group_size(rows)
        except Exception:  # see _size
            size = Size(0, None, len(rows))
        return self._reserve(size, stop)

    def _reserve(self, size: Size, stop: StopSign) -> Share:
        with self._freed:
            while not self._over:
                usd = self._forecast.cost_usd(size)
                room = self._ledger.reserve(usd)
                if room is Room.YES:
                    self._freed.notify()  # there may be room for one more of those that wait
                    return Share(usd, size)
                if room is Room.NEVER:
                    self._over = True
                    self._freed.notify_all()
                    raise Spent(
                        f"${self._ledger.spent_usd:,.4f} of {self._ledger.budget} is spent, and the next call may cost "
                        f"${usd:,.6f}; raise it to go on"
                    )
                self._freed.wait(POLL_SECONDS)
                if stop.is_set():
                    break
        raise Stopped()

    def settle(self, share: Share, entry: Entry | None) -> None:
        """A call has ended, with the outcome `entry` or None without one: what was set aside for it becomes what it
        has cost."""
        if entry is None:
            self._settle(share, 0.0, Usage(), answered=False)
            return
        row = entry.row
        answered = entry.outcome == OK or row["output_text"] is not None
        usage = Usage(row["prompt_tokens"], row["completion_tokens"])
        self._settle(share, row["cost_usd"], usage, answered=answered, answers=1 + entry.notes.get(REASKED, 0))

    def settle_group(self, share: Share, outcome: GroupOutcome | None) -> None:
        """The same for a request about several rows."""
        if outcome is None:
            self._settle(share, 0.0, Usage(), answered=False)
        else:
            self._settle(share, outcome.cost_usd, outcome.usage, answered=outcome.completions > 0)

    def _settle(self, share: Share, cost_usd: float | None, usage: Usage, *, answered: bool, answers: int = 1) -> None:
        if cost_usd is None:  # unknown: for an answer that came, what was set aside is the best guess there is
            cost_usd = share.usd if answered else 0.0
        with self._freed:
            self._ledger.settle(share.usd, cost_usd)
            if usage.prompt_tokens is not None and usage.completion_tokens is not None:
                taken = usage.prompt_tokens, usage.completion_tokens
                self._forecast.learn(share.size.characters, *taken, answers, share.size.records)
            self._freed.notify()

    def _size(self, fields: Mapping[str, Any]) -> Size:
        try:
            return self._forecast.size(fields)
        except Exception:  # a row that no prompt can be made of is never sent, and fails where it is tried
            return Size(0)


_lock = threading.Lock()
_budgets: dict[str, Budget] = {}


def of_run(journal_folder: str, make: Callable[[], Budget]) -> Budget:
    """The process's budget of the run with that journal, made where it is the first to ask. It outlives the threads
    of the run, which may end and be started again."""
    with _lock:
        if journal_folder not in _budgets:
            _budgets[journal_folder] = make()
        return _budgets[journal_folder]


def journal_cost_usd(journal_folder: str) -> float:
    """US dollars that the outcomes in a run's journal have cost: what the run spent before this process was in it."""
    found = journal.journal_files(journal_folder)
    entries = (entry for info in found for entry in journal.read(info.path) if entry is not None)
    return sum(entry.row["cost_usd"] or 0.0 for entry in entries)

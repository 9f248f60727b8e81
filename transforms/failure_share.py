"""When most rows fail: the fault is hardly theirs, and a million more calls would not find that out any better."""

from __future__ import annotations

import threading
from collections import Counter

from transforms.journal import DEAD_LETTER, Entry
from transforms.llm.text import excerpt

FIRST_ROWS = 100  # with an outcome, before a share of them says anything


class FailureShare:
    """Counts the outcomes of calls in a process since the run began there. `most` is the share of failures among
    them up to which it goes on; None: any. Safe for threads."""

    def __init__(self, most: float | None) -> None:
        self._most = most
        self._rows = 0
        self._reasons: Counter[str] = Counter()
        self._examples: dict[str, str] = {}  # the first message of each reason
        self._lock = threading.Lock()

    def add(self, entry: Entry, *, grouped: bool = False) -> str | None:
        """Counts an outcome. Why the run is to stop, None as long as it is not. `grouped`: the row shared its call,
        whose attempts another may have."""
        row = entry.row
        if self._most is None or not (row["attempts"] or grouped):  # none: the row was refused before a call
            return None
        with self._lock:
            self._rows += 1
            if entry.outcome != DEAD_LETTER:
                return None
            self._reasons[row["reason"]] += 1
            self._examples.setdefault(row["reason"], row["message"])
            failed = self._reasons.total()
            if self._rows < FIRST_ROWS or failed <= self._most * self._rows:
                return None
            reason, count = self._reasons.most_common(1)[0]
            return (
                f"{failed:,} of the first {self._rows:,} rows failed, more than limits.max_failure_share "
                f"{self._most:g} allows; {count:,} of them by {reason}, e.g. {excerpt(self._examples[reason], 200)!r}. "
                "Look at some of the failures, change the prompt, the schema or the model, and run again (--retry=all "
                "tries these rows again); a higher share, or null, lets it go on as it is"
            )


_lock = threading.Lock()
_shares: dict[str, FailureShare] = {}


def of_run(journal_folder: str, most: float | None) -> FailureShare:
    """The process's count for the run with that journal. It outlives the threads of the run, which may end and be
    started again."""
    with _lock:
        return _shares.setdefault(journal_folder, FailureShare(most))

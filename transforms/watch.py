"""How a run is going, read from its journal: it works from any process and whichever engine runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from transforms import files, journal
from transforms.journal import OK
from transforms.layout import Layout
from transforms.plan import PLAN_FILE
from transforms.tally import Tally, add, row_tally

_STORE_SECONDS = 5.0  # a look costs a request for each 1,000 objects


@dataclass
class Progress:
    """What is known so far. `rows` and `todo` are None until the plan is made."""

    rows: int | None = None
    todo: int | None = None
    ok: int = 0
    failed: int = 0
    tally: Tally = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Rows with an outcome."""
        return self.ok + self.failed

    @property
    def tokens(self) -> int:
        """Tokens that are known to be used, of prompts and answers."""
        return int(self.tally.get("prompt_tokens", 0)) + int(self.tally.get("completion_tokens", 0))

    @property
    def cost_usd(self) -> float | None:
        """US dollars so far, None while no price is known."""
        return self.tally.get("cost_usd")

    @property
    def projected_cost_usd(self) -> float | None:
        """US dollars that the whole run will have cost if the rows to come cost what those so far did."""
        if self.cost_usd is None or not self.todo or not self.done:
            return None
        return self.cost_usd / self.done * max(self.todo, self.done)


class JournalWatch:
    """Follows a run's journal folder. Each `update` reads only what was added; on a store it looks no more often than
    objects come."""

    def __init__(self, output: str, run_id: str) -> None:
        self._folder = Layout(output).journal(run_id)
        self._every = 0.0 if files.is_local(output) else _STORE_SECONDS
        self._next = time.monotonic()
        self._read: dict[str, int] = {}
        self.progress = Progress()

    def update(self) -> Progress:
        """Reads what is new. Raises OSError where the folder cannot be read."""
        progress = self.progress
        if time.monotonic() < self._next:
            return progress
        self._next = time.monotonic() + self._every
        if progress.rows is None:
            path = files.join(self._folder, PLAN_FILE)
            if files.exists(path):
                plan = files.read_json(path)
                progress.rows, progress.todo = plan["rows"], plan["todo"]
        for info in journal.journal_files(self._folder):
            if info.size > self._read.get(info.path, 0):
                for line in self._new_lines(info.path):
                    self._count(line)
        return progress

    def _new_lines(self, path: str) -> Iterator[bytes]:
        for offset, line in journal.whole_lines(path, self._read.get(path, 0)):
            self._read[path] = offset + len(line)
            yield line

    def _count(self, line: bytes) -> None:
        entry = journal.decode(line)
        if entry is None:
            return
        if entry.outcome == OK:
            self.progress.ok += 1
        else:
            self.progress.failed += 1
        add(self.progress.tally, row_tally(entry.row))

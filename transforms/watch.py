"""How a run is going, read from its journal folder: it works from any process and whichever engine runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from transforms import files, journal
from transforms.heartbeat import WorkersAtWork
from transforms.journal import HEADER_FILE, OK
from transforms.layout import Layout
from transforms.plan import PLAN_FILE
from transforms.tally import Tally, add, row_tally

_LOOK_SECONDS = 1.0  # between looks at the workers' signs of life
_STORE_SECONDS = 5.0  # between any looks at a store, where each costs a request for each 1,000 objects


@dataclass
class Progress:
    """What is known so far. `rows` and `todo` are None until the plan is made, `in_flight` is None until a worker has
    said how many calls are under way. `requests` and `rate_limited` are as of the workers' last signs of life;
    `silent_seconds` is how long there has been nothing new."""

    rows: int | None = None
    todo: int | None = None
    ok: int = 0
    failed: int = 0
    tally: Tally = field(default_factory=dict)
    requests: int = 0
    rate_limited: int = 0
    in_flight: int | None = None
    silent_seconds: float = field(default=0.0, compare=False)

    @property
    def ok_share(self) -> float | None:
        """The share of rows with an outcome that have an answer, None while there are none."""
        return self.ok / self.done if self.done else None

    @property
    def calls(self) -> int:
        """Requests made so far. Those of rows without an outcome yet are known a few seconds late."""
        return max(self.requests, int(self.tally.get("calls", 0)))

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
    objects come. `clock` is monotonic, in seconds."""

    def __init__(self, output: str, run_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = Layout(output).journal(run_id)
        self._clock = clock
        self._every = 0.0 if files.is_local(output) else _STORE_SECONDS
        self._next = clock()
        self._read: dict[str, int] = {}
        self._workers = WorkersAtWork(self._folder, clock)
        self._news = clock()
        self._looked = -float("inf")
        self.progress = Progress()

    def update(self) -> Progress:
        """Reads what is new. Raises OSError where the folder cannot be read."""
        progress, now = self.progress, self._clock()
        if now < self._next:
            progress.silent_seconds = now - self._news
            return progress
        self._next = now + self._every
        before = progress.done, progress.todo
        if progress.rows is None:
            self._read_plan()
        for info in journal.journal_files(self._folder):
            if info.size > self._read.get(info.path, 0):
                for line in self._new_lines(info.path):
                    self._count(line)
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._read_beats()
        if (progress.done, progress.todo) != before and before != (0, None):  # the first look finds what is old
            self._news = now
        progress.silent_seconds = now - self._news
        return progress

    def _read_plan(self) -> None:
        path = files.join(self._folder, PLAN_FILE)
        if files.exists(path):
            plan = files.read_json(path)
            limit = None
            with suppress(OSError, ValueError, AttributeError):
                limit = files.read_json(files.join(self._folder, HEADER_FILE)).get("limit")
            todo = plan["todo"]
            self.progress.todo = todo if limit is None else min(todo, limit)
            self.progress.rows = plan["rows"]

    def _read_beats(self) -> None:
        first = self._workers.latest is None
        at_work = self._workers.look()
        latest = self._workers.latest
        if latest is None:
            return
        self._news = latest if first else max(self._news, latest)
        self.progress.requests = sum(beat.calls for beat in self._workers.beats)
        self.progress.rate_limited = sum(beat.rate_limited for beat in self._workers.beats)
        self.progress.in_flight = sum(beat.in_flight for beat in at_work)

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

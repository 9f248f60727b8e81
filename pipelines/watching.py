"""Finding the run that is going in an output directory, and following it to its end."""

from __future__ import annotations

import sys
import time
from typing import Any

from pipelines import summary
from pipelines.opened import layout_of, nothing_in
from pipelines.progress import Show, clock
from pipelines.terminal import say
from transforms import files
from transforms.heartbeat import beat_seconds
from transforms.holder import holder
from transforms.layout import Layout
from transforms.recover import interrupted_runs
from transforms.watch import JournalWatch

_LOOK_SECONDS = 0.5  # between looks at who is there: a run that has the lock may have no journal yet
_STORE_SECONDS = 5.0  # where each look is some requests


def watch(output: str, *, once: bool, silent_seconds: float) -> None:
    """Shows the run that is going in `output` until it ends (`once`: as it is now), or the last one's account. Raises
    UsageError where there is no output of any run, OSError where a store refuses to say."""
    layout = layout_of(output)
    run_id = _going(layout)
    if run_id is None and not layout.accounts() and holder(layout.root) is None:
        raise nothing_in(output)
    while run_id is None and holder(layout.root) is not None and _is_alive(layout):
        if once:
            say(f"a run is starting: {holder(layout.root)}")
            return
        time.sleep(_look_seconds(layout))
        run_id = _going(layout)
    if run_id is None:
        _show_last(layout, None)
        return
    following = Following(layout, run_id, silent_seconds)
    if once or not _is_alive(layout):
        following.look()
        return
    following.until_the_end()
    _show_last(layout, run_id)


class Following:
    """One run that is going, or looks as if it was."""

    def __init__(self, layout: Layout, run_id: str, silent_seconds: float) -> None:
        self._layout = layout
        self._run_id = run_id
        self._silent_seconds = silent_seconds
        self._watch = JournalWatch(layout.root, run_id)
        self._show = Show(self._watch, sys.stdout)
        self._warned = False
        self._look_seconds = _look_seconds(layout)
        self._looked = -float("inf")

    def look(self) -> None:
        """Shows it once."""
        self._watch.update()
        if self._is_silent():
            # How long it has been is told by two clocks that may differ.
            time.sleep(beat_seconds(self._layout.root) + 1)
        say(f"run {self._run_id}")
        self._show.line()
        self._warn()

    def until_the_end(self) -> None:
        """Shows it until it is published, or its process has gone."""
        say(f"run {self._run_id}")
        self._show.until(self._is_over)
        if not self._is_published():
            self._warn()

    def _is_over(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._looked >= self._look_seconds:
                self._looked = time.monotonic()
                if self._is_published() or not _is_alive(self._layout):
                    return True
                silent = self._is_silent()
                if silent and not self._warned:
                    self._warn()
                self._warned = silent
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _LOOK_SECONDS))

    def _is_published(self) -> bool:
        return files.exists(self._layout.account(self._run_id)) or not files.exists(self._layout.header(self._run_id))

    def _is_silent(self) -> bool:
        progress = self._watch.progress
        known = holder(self._layout.root)
        if progress.todo is None and known is not None and known.alive:
            return False  # it reads the input, which may take its time
        return progress.silent_seconds > self._silent_seconds

    def _warn(self) -> None:
        """Says whether it looks dead, and why."""
        known = holder(self._layout.root)
        goes_on = "the same command publishes what is in its journal and goes on"
        if known is None or known.alive is False:
            who = "the process that ran it" if known is None else str(known)
            say(f"this run looks dead: {who} is gone; {goes_on}", error=True)
        elif self._is_silent():
            since = clock(self._watch.progress.silent_seconds)
            say(f"this run looks dead: no outcome and no sign of life for {since}; look at {known}", error=True)


def _look_seconds(layout: Layout) -> float:
    return _LOOK_SECONDS if files.is_local(layout.root) else _STORE_SECONDS


def _going(layout: Layout) -> str | None:
    """The newest run with a journal that is not published."""
    runs = [run for run in interrupted_runs(layout) if files.exists(layout.header(run))]
    newest = max(runs, default=None)
    return None if newest is None or files.exists(layout.account(newest)) else newest


def _is_alive(layout: Layout) -> bool:
    """False where the process that holds the directory has gone, or nobody holds it."""
    known = holder(layout.root)
    return known is not None and known.alive is not False


def _show_last(layout: Layout, run_id: str | None) -> None:
    """The account of that run, or of the last one, in short."""
    accounts = layout.accounts() if run_id is None else [layout.account(run_id)]
    if not accounts or not files.exists(accounts[-1]):
        return
    account: dict[str, Any] = files.read_json(accounts[-1])
    when = f"{account['started_at']} to {account['finished_at']}"
    say(f"no run is going; the last one, {account['run_id']}, {when}:" if run_id is None else "it has ended:")
    how = account["status"] if account["stop_reason"] is None else f"{account['status']}: {account['stop_reason']}"
    say(how)
    summary.print_figures(account)
    summary.print_places(account, layout)

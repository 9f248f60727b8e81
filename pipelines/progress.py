"""How a run is going, while it goes: a bar on a terminal, a line every few seconds elsewhere.

Fed by the run's own journal, so it is the same whichever engine runs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from pipelines.summary import dollars
from pipelines.terminal import say
from transforms.watch import JournalWatch, Progress

_BAR_SECONDS = 0.5
_LINE_SECONDS = 5.0
_WINDOW_SECONDS = 15.0  # over which rates are taken


class Rates:
    """Rows and tokens a second, over the last seconds. `now` is when there were none, in seconds."""

    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, int, int]] = deque([(now, 0, 0)])

    def add(self, now: float, done: int, tokens: int) -> tuple[float, float]:
        """Takes a sample at `now` (seconds); returns rows and tokens a second."""
        if done == 0:
            self._samples.clear()  # reading the input is no part of the rate
        self._samples.append((now, done, tokens))
        while len(self._samples) > 2 and now - self._samples[0][0] > _WINDOW_SECONDS:
            self._samples.popleft()
        start, first_done, first_tokens = self._samples[0]
        seconds = now - start
        if seconds <= 0:
            return 0.0, 0.0
        return (done - first_done) / seconds, (tokens - first_tokens) / seconds


def describe(progress: Progress, rates: tuple[float, float]) -> str:
    """One line on how far a run is."""
    if progress.rows is None or progress.todo is None:
        return "reading the input"
    per_second, tokens_per_second = rates
    parts = [
        f"{progress.done:,}/{progress.todo:,}",
        f"ok {progress.ok:,}",
        f"failed {progress.failed:,}",
        f"skipped {progress.rows - progress.todo:,}",
        f"{per_second:,.1f} rows/s",
        f"{tokens_per_second:,.0f} tokens/s",
    ]
    if progress.cost_usd is not None:
        projected = progress.projected_cost_usd
        whole = "" if projected is None else f" of about {dollars(projected)}"
        parts.append(f"{dollars(progress.cost_usd)}{whole}")
    left = progress.todo - progress.done
    if per_second > 0 and left > 0:
        parts.append(f"{clock(left / per_second)} left")
    return " | ".join(parts)


def clock(seconds: float) -> str:
    """A duration for people, e.g. 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@contextmanager
def showing_progress(output: str, run_id: str) -> Iterator[None]:
    """Shows a run's progress on stderr until the block ends."""
    ended = threading.Event()
    watch = JournalWatch(output, run_id)
    show = _show_bar if sys.stderr.isatty() else _show_lines
    thread = threading.Thread(target=show, args=(watch, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show_lines(watch: JournalWatch, ended: threading.Event) -> None:
    rates = Rates(time.monotonic())
    while not ended.wait(_LINE_SECONDS):
        progress = _update(watch)
        say(describe(progress, rates.add(time.monotonic(), progress.done, progress.tokens)), error=True)


def _show_bar(watch: JournalWatch, ended: threading.Event) -> None:
    rates = Rates(time.monotonic())
    console = Console(stderr=True)
    with Bar(BarColumn(bar_width=24), TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("reading the input", total=None)
        while not ended.wait(_BAR_SECONDS):
            progress = _update(watch)
            line = describe(progress, rates.add(time.monotonic(), progress.done, progress.tokens))
            bar.update(task, description=line, total=progress.todo, completed=progress.done)


def _update(watch: JournalWatch) -> Progress:
    try:
        return watch.update()
    except OSError:  # the journal goes when the run is published
        return watch.progress

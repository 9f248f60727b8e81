"""How a run is going, while it goes: a bar on a terminal, a line every few seconds elsewhere.

Fed by the run's journal folder, so it is the same whichever engine runs, and whoever looks: the run itself or
`pipelines.watch`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live

from pipelines.bar import Bar
from pipelines.rates import Rates, Speed
from pipelines.summary import dollars
from pipelines.terminal import say
from transforms.watch import JournalWatch, Progress

BAR_SECONDS = 0.5
LINE_SECONDS = 5.0
_SILENT_SECONDS = 60.0  # without an outcome and a worker's beat; a worker that waits long for an answer beats
# On a terminal: what stands beside the bar, and what below it. Where there is no room for all of a line, the last in
# order of importance go first.
_BESIDE, _BELOW = ("done", "ok", "failed", "skipped", "left"), ("calls", "tokens", "in flight", "429", "cost")
_IMPORTANCE = ("done", "left", "failed", "ok", "skipped", "cost", "calls", "429", "in flight", "tokens")


def describe(progress: Progress, speed: Speed | None) -> str:
    """One line on how far a run is."""
    return " | ".join(_parts(progress, speed).values())


def describe_beside(progress: Progress, speed: Speed | None, width: int) -> str:
    """What stands beside a bar, in at most `width` characters."""
    return _fit(_parts(progress, speed), _BESIDE, width)


def describe_below(progress: Progress, speed: Speed | None, width: int) -> str:
    """What stands below a bar, in at most `width` characters."""
    return _fit(_parts(progress, speed), _BELOW, width)


def _fit(parts: dict[str, str], names: tuple[str, ...], width: int) -> str:
    kept = {name: parts[name] for name in names if name in parts}
    for name in reversed(_IMPORTANCE):
        if len(" | ".join(kept.values())) <= width or len(kept) == 1:
            break
        kept.pop(name, None)
    return " | ".join(kept.values())[: max(0, width)]


def _parts(progress: Progress, speed: Speed | None) -> dict[str, str]:
    if progress.rows is None or progress.todo is None:
        return {"done": "reading the input"}
    share = "" if progress.ok_share is None else f" ({progress.ok_share:.1%})"
    parts = {
        "done": f"{progress.done:,}/{progress.todo:,}",
        "ok": f"ok {progress.ok:,}{share}",
        "failed": f"failed {progress.failed:,}",
        "skipped": f"skipped {progress.rows - progress.todo:,}",
    }
    if speed is not None:
        parts |= {"calls": f"{speed.calls:,.1f} calls/s", "tokens": f"{speed.tokens:,.0f} tokens/s"}
    if progress.in_flight is not None:
        parts["in flight"] = f"{progress.in_flight:,} in flight"
        parts["429"] = f"429s {progress.rate_limited:,}"
    if progress.cost_usd is not None:
        projected = progress.projected_cost_usd
        whole = "" if projected is None else f" of about {dollars(projected)}"
        parts["cost"] = f"{dollars(progress.cost_usd)}{whole}"
    left = progress.todo - progress.done
    if left > 0 and progress.silent_seconds > _SILENT_SECONDS:
        parts["left"] = f"no sign of life for {clock(progress.silent_seconds)}"
    elif left > 0 and speed is not None and speed.rows > 0:
        parts["left"] = f"{clock(left / speed.rows)} left"
    return parts


def clock(seconds: float) -> str:
    """A duration for people, e.g. 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@contextmanager
def showing_progress(output: str, run_id: str) -> Iterator[None]:
    """Shows a run's progress on stderr until the block ends."""
    ended = threading.Event()
    show = Show(JournalWatch(output, run_id), sys.stderr)
    thread = threading.Thread(target=show.until, args=(ended.wait,), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Show:
    """Shows what a watch finds on a stream: a bar where that is a terminal that can move its cursor, else lines."""

    def __init__(self, watch: JournalWatch, stream: TextIO) -> None:
        self._watch = watch
        self._rates = Rates()
        self._stream = stream
        self._console = Console(file=stream)
        self._is_bar = self._console.is_terminal and not self._console.is_dumb_terminal

    def until(self, ended: Callable[[float], bool]) -> None:
        """Shows it until `ended`, which waits for so many seconds or less, says that the run is over."""
        self._look()  # what is there before: rates are taken from here
        if not self._is_bar:
            while not ended(LINE_SECONDS):
                self.line()
            return
        bar = Bar(describe_beside, describe_below)
        with Live(bar, console=self._console, auto_refresh=False, transient=True) as live:
            while not ended(BAR_SECONDS):
                bar.progress, bar.speed = self._look()
                live.refresh()

    def line(self) -> None:
        """Shows it now, as one line."""
        say(describe(*self._look()), error=self._stream is sys.stderr)

    def _look(self) -> tuple[Progress, Speed | None]:
        try:
            progress = self._watch.update()
        except (OSError, ValueError):  # the journal goes when the run is published
            progress = self._watch.progress
        return progress, self._rates.add(time.monotonic(), progress)

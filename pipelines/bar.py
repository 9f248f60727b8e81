"""A bar and a text on one line of a terminal, whatever its width is just now."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.text import Text

from pipelines.rates import Speed
from transforms.watch import Progress

_BAR_WIDTH, _LEAST_BAR = 24, 8  # characters
_ROOM_FOR_BAR = 5  # a bar takes one in so many


class Line:
    """How far a run is. `describe` says it in at most so many characters."""

    def __init__(self, describe: Callable[[Progress, Speed, int], str]) -> None:
        self._describe = describe
        self.progress = Progress()
        self.speed = Speed()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = _width(console, options) - 1  # some terminals go to the next line after the last column
        bar = min(_BAR_WIDTH, width // _ROOM_FOR_BAR)
        if bar >= _LEAST_BAR:
            todo = self.progress.todo
            yield ProgressBar(total=todo, completed=self.progress.done, width=bar, pulse=todo is None)
            yield Text(" ", end="")
            width -= bar + 1
        yield Text(self._describe(self.progress, self.speed, width), no_wrap=True, overflow="crop", end="")


def _width(console: Console, options: ConsoleOptions) -> int:
    """The terminal's own: what COLUMNS says may be of another one, or of before it was resized."""
    width = options.max_width
    with contextlib.suppress(OSError, ValueError, AttributeError):
        width = min(width, os.get_terminal_size(console.file.fileno()).columns or width)
    return width

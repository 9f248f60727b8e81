"""A bar and its figures on a terminal, whatever the width of that is just now."""

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


class Bar:
    """How far a run is: a bar with the text of `beside`, and that of `below` under it. Each of them says it in at most
    so many characters."""

    def __init__(
        self, beside: Callable[[Progress, Speed | None, int], str], below: Callable[[Progress, Speed | None, int], str]
    ) -> None:
        self._beside = beside
        self._below = below
        self.progress = Progress()
        self.speed: Speed | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        progress, speed = self.progress, self.speed
        width = max(1, _width(console, options) - 1)  # some terminals go to the next line after the last column
        room, bar = width, min(_BAR_WIDTH, width // _ROOM_FOR_BAR)
        if bar >= _LEAST_BAR:
            yield ProgressBar(total=progress.todo, completed=progress.done, width=bar, pulse=progress.todo is None)
            yield Text(" ", end="")
            room -= bar + 1
        yield Text(self._beside(progress, speed, room), no_wrap=True, overflow="crop")
        yield Text(self._below(progress, speed, width), no_wrap=True, overflow="crop", end="")


def _width(console: Console, options: ConsoleOptions) -> int:
    """The terminal's own: what COLUMNS says may be of another one, or of before it was resized."""
    width = options.max_width
    with contextlib.suppress(OSError, ValueError, AttributeError):
        width = min(width, os.get_terminal_size(console.file.fileno()).columns or width)
    return width

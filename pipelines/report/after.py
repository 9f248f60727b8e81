"""The report at the end of a run, which changes nothing about the run whatever happens to it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from pipelines import summary
from pipelines.terminal import say
from transforms import files
from transforms.layout import Layout
from transforms.llm.secrets import masked


def write_report_if_possible(layout: Layout) -> None:
    """Writes the report and says where it is. All is published by now: whatever goes wrong, Ctrl-C and SIGTERM
    included, costs the report alone, and is one line on stderr."""
    try:
        with _interruptible():
            from pipelines.report.write import write_report

            path = files.join(layout.root, "report.html")
            write_report(layout, path)
        say(f"report:   {path}")
    except (Exception, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else masked(summary.root_cause(error))
        say(f"no report was written: {why}; python -m pipelines.report {layout.root} writes it", error=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Both signals raise KeyboardInterrupt until the block ends."""
    before = {number: signal.signal(number, _raise) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt

"""Runs the classify command in this process, with HTTP answered at once, and says which step took how much CPU.

Each step of the fused graph runs in its engine's thread, as a generator that is left while a row is in the steps after
it: the thread's CPU clock around each turn of the generator is the step's own time. The threads that call have clocks
of their own. What is in no step is Beam's, the interpreter's start and the clocks' own (about 1 microsecond a turn).

python tests/benchmarks/cpu_clocks.py TOTALS.json [arguments of pipelines.classify]
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measured import ROOT

sys.path.insert(0, str(ROOT))

from pipelines import graph
from pipelines.run import main
from transforms import ask, call, journal, plan, read, repeats, resume, screen, write
from transforms.llm import transport

CONTENT = json.dumps(
    {
        "model": "mock-1",
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": '{"label": "positive"}'}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5},
    }
).encode()
HEADERS = {"Content-Type": "application/json"}


class Answered:
    """The response that every request gets: as much of requests' own as the transport looks at."""

    status_code = 200
    headers = HEADERS
    content = CONTENT


class Clocks:
    """CPU seconds by step."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._lock = threading.Lock()

    def _add(self, step: str, started: float) -> None:
        took = time.thread_time() - started
        with self._lock:
            self.seconds[step] += took

    def put(self, owner: Any, name: str, step: str) -> None:
        """Has all that `owner.name` does, its generator's turns included, counted as `step`."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*values: Any, **named: Any) -> Any:
            started = time.thread_time()
            found = function(*values, **named)
            self._add(step, started)
            return self._turns(found, step) if hasattr(found, "__next__") else found

        setattr(owner, name, timed)

    def _turns(self, found: Iterator[Any], step: str) -> Iterator[Any]:
        while True:
            started = time.thread_time()
            try:
                value = next(found)
            except StopIteration:
                return
            finally:
                self._add(step, started)
            yield value


def answer_at_once() -> None:
    """Takes the place of all that is below the transport."""
    transport._OneUrl.send = lambda self, request, **settings: Answered()  # type: ignore[method-assign, assignment]


def run() -> int:
    """Runs the command and writes the totals; returns its exit code."""
    clocks = Clocks()
    for owner, step in (
        (resume._ReadIds, "done ids"),
        (plan.PlanSpan, "plan"),
        (read.ReadSpan, "read"),
        (repeats._DropRepeats, "repeats"),
        (resume._DropDone, "resume"),
        (screen._ScreenContent, "screen"),
        (call.CallModel, "call: bundle"),
        (write._WriteBundle, "write"),
    ):
        clocks.put(owner, "process", step)
        clocks.put(owner, "finish_bundle", step)
    clocks.put(graph, "publish", "commit")
    clocks.put(ask.Asker, "work", "call: threads")
    clocks.put(journal.JournalFile, "append", "journal")
    clocks.put(transport.Transport, "post", "transport")
    answer_at_once()
    code = main("classify", "with CPU clocks", sys.argv[2:])
    inside = clocks.seconds["journal"] + clocks.seconds["transport"]  # which the threads' time includes
    clocks.seconds["call: threads"] -= inside
    clocks.seconds["all else"] = time.process_time() - sum(clocks.seconds.values())
    Path(sys.argv[1]).write_text(json.dumps(clocks.seconds))
    return code


if __name__ == "__main__":
    sys.exit(run())

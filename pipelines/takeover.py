"""Workers of an earlier run that still call the model, as an engine's may after who started it was killed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pipelines.terminal import say
from transforms.heartbeat import Beat, WorkersAtWork
from transforms.layout import Layout
from transforms.stop import LOCK_LOST, POLL_SECONDS, StopSign


def let_workers_end(layout: Layout, run_id: str, *, wait: Callable[[float], object] | None = None) -> None:
    """Returns once no worker of that run makes calls: what they answer until then is in its journal. Those that do
    are asked to stop. `wait` waits for so many seconds."""
    workers = WorkersAtWork(layout.journal(run_id))
    found = workers.look()
    if not found:
        return
    say(
        f"run {run_id} was cut short, but workers of it still make calls ({_names(found)}): they are asked to stop, "
        "and the calls under way are waited for",
        error=True,
    )
    StopSign(layout.journal(run_id)).set(LOCK_LOST, "another run has taken the output over")
    while workers.look():
        (wait or threading.Event().wait)(POLL_SECONDS)


def _names(beats: list[Beat]) -> str:
    return ", ".join(sorted({f"process {beat.pid} on {beat.host}" for beat in beats}))

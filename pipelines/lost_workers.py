"""Worker processes that the in-process runner starts: the end of one is the end of the run.

Nothing is repeated there, and the runner finds out only after all other workers are done. Beam tells of a worker's
end by an exception in the thread that waits for it (local_job_service.SubprocessSdkWorker).
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LAST_SECONDS = 7.0  # that the calls of other workers may take to end and be kept

_ENDED = re.compile(r"Worker subprocess exited with return code (-?\d+)")
_SHELL_SIGNAL = 128  # what a shell adds to the number of the signal that ended its command


@contextmanager
def watched(lost: Callable[[str], None], give_up: Callable[[], None]) -> Iterator[None]:
    """While the block runs, the first end of a worker process calls `lost` with what happened; `give_up` is called
    if the block has not ended within LAST_SECONDS of that."""
    before = threading.excepthook
    timer = threading.Timer(LAST_SECONDS, give_up)
    timer.daemon = True
    once = threading.Lock()

    def hook(unhandled: threading.ExceptHookArgs) -> None:
        ended = _ENDED.search(str(unhandled.exc_value))
        if ended is None:
            before(unhandled)
        elif once.acquire(blocking=False):
            timer.start()
            lost(_what_happened(int(ended[1])))

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
        timer.cancel()


def _what_happened(code: int) -> str:
    number = code - _SHELL_SIGNAL if code > _SHELL_SIGNAL else -code
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"a worker process ended with exit code {code}"
    cause = ", by hand or because the machine is out of memory" if number == signal.SIGKILL else ""
    return f"a worker process was ended by {name}{cause}"

"""The threads that wait for the model: one pool a process, shared by every bundle that runs in it.

Several bundles run at once in one worker process, so what is limited per process is held here and not by a DoFn.
Jobs go in by one queue and each comes out by the queue of whoever sent it; nothing waits for its slowest neighbour.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

Job = TypeVar("Job")
Pool = TypeVar("Pool", bound="Workers[Any]")


class Workers(Generic[Job]):
    """`count` daemon threads that run `work` on jobs. `work` never raises: it reports by the job itself."""

    def __init__(self, count: int, work: Callable[[Job], None], close: Callable[[], None]) -> None:
        self.count = count
        self._inbox: SimpleQueue[Job | None] = SimpleQueue()
        self._work = work
        self._close = close
        self._threads = [
            threading.Thread(target=self._run, name=f"call-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Queues a job; the first free thread takes it."""
        self._inbox.put(job)

    def close(self) -> None:
        """Ends the threads after the jobs that are queued, then closes what they use."""
        for _thread in self._threads:
            self._inbox.put(None)
        for thread in self._threads:
            thread.join()
        self._close()

    def _run(self) -> None:
        while (job := self._inbox.get()) is not None:
            self._work(job)


_lock = threading.Lock()
_pools: dict[Hashable, tuple[Workers[Any], int]] = {}


def acquire(key: Hashable, make: Callable[[], Pool]) -> Pool:
    """The process's pool of that key, made when it is the first to ask. Each acquire needs a release."""
    with _lock:
        pool, users = _pools.get(key) or (make(), 0)
        _pools[key] = pool, users + 1
        return cast("Pool", pool)


def release(key: Hashable) -> None:
    """Gives a pool back; the last user closes it."""
    with _lock:
        pool, users = _pools.pop(key, (None, 0))
        if pool is not None and users > 1:
            _pools[key] = pool, users - 1
            return
    if pool is not None:
        pool.close()


def close_all() -> None:
    """Closes every pool of the process, whoever uses it: what is under way is finished, for a process that ends."""
    with _lock:
        pools = [pool for pool, _users in _pools.values()]
        _pools.clear()
    for pool in pools:
        pool.close()

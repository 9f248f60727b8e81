"""The pool of threads that a process shares."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from transforms import workers
from transforms.workers import Workers, acquire, close_all, release

WAIT = 30  # seconds: for what comes at once, unless something is broken


@pytest.fixture(autouse=True)
def _no_pools_left() -> Iterator[None]:
    yield
    assert workers._pools == {}


def nothing(_job: int) -> None:
    pass


def test_all_jobs_are_done_before_it_closes() -> None:
    done: SimpleQueue[object] = SimpleQueue()
    pool: Workers[int] = Workers(3, done.put, lambda: done.put("closed"))
    for number in range(50):
        pool.submit(number)
    pool.close()
    *numbers, last = (done.get_nowait() for _ in range(51))
    assert sorted(numbers) == list(range(50))  # type: ignore[type-var]
    assert last == "closed"


def test_as_many_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(4)
    most, under_way, lock = 0, 0, threading.Lock()

    def work(_job: int) -> None:
        nonlocal most, under_way
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait(WAIT)
        with lock:
            under_way -= 1

    pool: Workers[int] = Workers(4, work, lambda: None)
    for number in range(20):
        pool.submit(number)
    pool.close()
    assert most == 4


def test_users_of_one_key_share_a_pool_that_the_last_one_closes() -> None:
    closed: list[str] = []
    made: list[Workers[int]] = []

    def make() -> Workers[int]:
        made.append(Workers(1, nothing, lambda: closed.append("run")))
        return made[-1]

    pools = [acquire("run", make) for _ in range(3)]
    assert len(made) == 1
    assert all(pool is made[0] for pool in pools)
    release("run")
    release("run")
    assert closed == []
    release("run")
    assert closed == ["run"]
    assert acquire("run", make) is made[1]
    release("run")


def test_keys_have_pools_of_their_own() -> None:
    first = acquire("a", lambda: Workers(1, nothing, lambda: None))
    second = acquire("b", lambda: Workers(1, nothing, lambda: None))
    assert first is not second
    release("a")
    release("b")


def test_a_pool_that_cannot_be_made_leaves_nothing() -> None:
    def fail() -> Workers[int]:
        raise ValueError("no key")

    with pytest.raises(ValueError, match="no key"):
        acquire("run", fail)
    release("run")


def test_close_all_closes_whoever_uses_them() -> None:
    closed: list[str] = []
    for key in ("a", "a", "b"):
        acquire(key, lambda key=key: Workers(1, nothing, lambda: closed.append(key)))
    close_all()
    assert sorted(closed) == ["a", "b"]
    release("a")  # as the users do when they end
    release("a")
    release("b")
    assert sorted(closed) == ["a", "b"]


def test_many_threads_make_one_pool() -> None:
    together = threading.Barrier(8)
    made: list[Workers[int]] = []

    def make() -> Workers[int]:
        made.append(Workers(1, nothing, lambda: None))
        return made[-1]

    def use() -> None:
        together.wait(WAIT)
        acquire("run", make)
        together.wait(WAIT)
        release("run")

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1

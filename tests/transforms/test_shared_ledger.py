"""A budget that several processes share over a Redis of their own."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from transforms.ledger import Room
from transforms.redis_link import RedisLink
from transforms.shared_ledger import NANO, SharedLedger

ROOT = Path(__file__).parents[2]
_keys = itertools.count()


class Processes:
    """Processes of one run, with a budget of $1. `now` is the clock of Redis and theirs; `journal` what all have spent
    as the run's journal says it."""

    def __init__(self, link: RedisLink) -> None:
        self.now = 1000.0
        self.journal = 0.0
        self.link, self.key = link, f"test{next(_keys)}"

    def new(self, name: str, workers: int = 1) -> SharedLedger:
        return SharedLedger(
            self.link,
            self.key,
            name,
            1.0,
            lambda: self.journal,
            lapse_seconds=60.0,
            workers=lambda: workers,
            clock=lambda: self.now,
            now=lambda: self.now,
        )

    def spend(self, ledger: SharedLedger, usd: float) -> None:
        """A call that costs what was set aside, and is in the journal at once."""
        assert ledger.reserve(usd) is Room.YES
        ledger.settle(usd, usd)
        self.journal += usd

    def look_again(self) -> None:
        """It is time to see whether Redis is back."""
        self.link._try_at = 0.0


@pytest.fixture
def processes(redis_link: RedisLink) -> Processes:
    return Processes(redis_link)


def test_what_one_sets_aside_another_cannot_have(processes: Processes) -> None:
    a, b = processes.new("a"), processes.new("b")
    assert a.reserve(0.7) is Room.YES
    assert b.reserve(0.4) is Room.LATER
    assert b.reserve(0.3) is Room.YES
    a.settle(0.7, 0.1)
    assert b.reserve(0.6) is Room.YES
    assert a.reserve(0.01) is Room.LATER
    b.settle(0.3, 0.3)
    b.settle(0.6, 0.6)
    assert a.reserve(0.01) is Room.NEVER
    assert a.spent_usd == pytest.approx(1.0)


def test_what_earlier_runs_have_spent_is_counted_once(processes: Processes) -> None:
    processes.journal = 0.5
    a, b = processes.new("a"), processes.new("b")
    processes.spend(a, 0.2)
    processes.spend(b, 0.2)
    assert (a.reserve(0.2), b.reserve(0.1)) == (Room.NEVER, Room.YES)


def test_what_a_dead_process_has_set_aside_lapses(processes: Processes) -> None:
    a, b = processes.new("a"), processes.new("b")
    assert a.reserve(0.9) is Room.YES
    processes.now += 59
    assert b.reserve(0.2) is Room.LATER
    processes.now += 2
    assert b.reserve(0.2) is Room.YES


def test_what_a_process_at_work_has_set_aside_stays(redis_link: RedisLink) -> None:
    a, b = (
        SharedLedger(redis_link, "renewed", name, 1.0, lambda: 0.0, lapse_seconds=0.4, workers=lambda: 1)
        for name in "ab"
    )
    assert a.reserve(0.9) is Room.YES
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert b.reserve(0.2) is Room.LATER
    a.settle(0.9, 0.5)
    assert b.reserve(0.2) is Room.YES
    b.settle(0.2, 0.2)


def test_a_process_that_is_killed_frees_what_it_has_set_aside(redis_server: Any, redis_link: RedisLink) -> None:
    code = f"""
from transforms.redis_link import RedisLink
from transforms.shared_ledger import SharedLedger
redis_link = RedisLink({redis_server.url!r})
ledger = SharedLedger(redis_link, "killed", "other", 1.0, lambda: 0.0, lapse_seconds=1.0, workers=lambda: 1)
print(ledger.reserve(0.9).name, flush=True)
input()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "YES\n"
        mine = SharedLedger(redis_link, "killed", "mine", 1.0, lambda: 0.0, lapse_seconds=1.0, workers=lambda: 1)
        assert mine.reserve(0.2) is Room.LATER
        other.send_signal(signal.SIGKILL)
    end = time.monotonic() + 30
    while mine.reserve(0.2) is not Room.YES:
        assert time.monotonic() < end
        time.sleep(0.05)
    mine.settle(0.2, 0.2)


@pytest.mark.parametrize("killed", [False, True])
def test_many_threads_of_several_processes_never_pass_it(processes: Processes, redis_server: Any, killed: bool) -> None:
    """Also where Redis goes away in between, and comes back empty."""
    lock, stop = threading.Lock(), threading.Event()
    ends: list[Room] = []

    def work(ledger: SharedLedger, own: threading.Lock, draw: random.Random) -> None:
        while not stop.is_set():
            usd = draw.uniform(0.0005, 0.002)
            with own:
                room = ledger.reserve(usd)
            if room is Room.NEVER:
                ends.append(room)
                stop.set()
            elif room is Room.LATER:
                stop.wait(0.002)
            else:
                cost = usd * draw.uniform(0.3, 1.0)
                with lock:
                    processes.journal += cost
                with own:
                    ledger.settle(usd, cost)

    threads = []
    for name in "abc":
        ledger, own = processes.new(name, workers=3), threading.Lock()
        for number in range(4):
            threads.append(threading.Thread(target=work, args=(ledger, own, random.Random(f"{name}{number}"))))
    for thread in threads:
        thread.start()
    if killed:
        while processes.journal < 0.3:
            time.sleep(0.001)
        redis_server.kill()
        while processes.journal < 0.5:
            time.sleep(0.001)
        redis_server.start()
        processes.now += 100  # those costs are in the journal
        processes.look_again()
    for thread in threads:
        thread.join(60)
    assert processes.journal <= 1.0
    assert processes.journal > (0.5 if killed else 0.997)  # a part that is used up ends all
    assert set(ends) == {Room.NEVER}


class TestWithoutRedis:
    def test_what_nobody_has_is_divided(self, processes: Processes, redis_server: Any) -> None:
        a, b = processes.new("a", workers=4), processes.new("b", workers=4)
        assert b.reserve(0.2) is Room.YES
        processes.spend(a, 0.4)
        assert a.reserve(0.1) is Room.YES
        with redis_server.away():
            # 0.3 is nobody's, and a fourth of that this one's.
            assert a.reserve(0.08) is Room.LATER
            assert a.reserve(0.07) is Room.YES
            a.settle(0.1, 0.1)
            a.settle(0.07, 0.07)
            assert a.reserve(0.01) is Room.NEVER
            assert a.budget == "$0.5750, with this worker's part of budget.max_cost_usd $1.0000,"

    def test_a_process_that_never_saw_it_has_its_part(self, processes: Processes, redis_server: Any) -> None:
        processes.journal = 0.6
        with redis_server.away():
            a = processes.new("a", workers=4)
            assert a.reserve(0.11) is Room.NEVER
            assert a.reserve(0.1) is Room.YES
            assert a.spent_usd == 0.6

    @pytest.mark.parametrize("empty", [False, True])
    def test_when_it_is_back_all_is_known_once(
        self, processes: Processes, redis_server: Any, redis_link: RedisLink, empty: bool
    ) -> None:
        a, b = processes.new("a"), processes.new("b")
        for ledger in (a, b):
            processes.spend(ledger, 0.1)
        redis_link._down("gone, as this process sees it")
        for ledger in (a, b):
            processes.spend(ledger, 0.1)
        processes.now += 20
        if empty:
            redis_link._redis.flushall()
        processes.look_again()
        processes.spend(b, 0.1)
        processes.spend(a, 0.1)
        assert int(redis_link._redis.hget(f"paidonce:{{{processes.key}}}:ledger", "spent")) == pytest.approx(0.6 * NANO)
        assert a.reserve(0.41) is Room.NEVER
        assert a.reserve(0.39) is Room.YES

    def test_what_may_not_be_in_the_journal_is_rather_counted_twice(
        self, processes: Processes, redis_link: RedisLink
    ) -> None:
        a = processes.new("a")
        processes.spend(a, 0.1)
        redis_link._down("gone, as this process sees it")
        processes.spend(a, 0.1)
        processes.now += 5
        redis_link._redis.flushall()
        processes.look_again()
        assert a.reserve(0.1) is Room.YES
        assert a.spent_usd == pytest.approx(0.3)

"""When requests may start."""

import threading
from bisect import bisect_left
from typing import Any

import pytest

from transforms.llm.errors import Stopped
from transforms.llm.limits import Gate


def starts(gate: Gate, time: Any, count: int) -> list[float]:
    found = []
    for _ in range(count):
        gate.acquire()
        found.append(time.now)
    return found


def most_in_a_minute(times: list[float]) -> int:
    # A hair less than a minute, as the times are sums of floats.
    return max(bisect_left(times, start + 59.999) - at for at, start in enumerate(times))


def test_without_a_limit_nothing_waits(time: Any) -> None:
    gate = Gate(None, 0.8, stop=time.stop, clock=time.clock)
    assert starts(gate, time, 1000) == [1000.0] * 1000
    assert gate.slept == 0


@pytest.mark.parametrize("per_minute", [1, 2, 7, 59, 60, 119, 120, 600, 5000])
def test_no_minute_is_above_the_limit(time: Any, per_minute: int) -> None:
    times = starts(Gate(per_minute, 1.0, stop=time.stop, clock=time.clock), time, 3 * per_minute)
    assert most_in_a_minute(times) <= per_minute
    assert times[-1] - times[0] < 60 * 3.1  # nor is much of it left unused


def test_no_minute_is_above_the_limit_after_idling(time: Any) -> None:
    gate = Gate(600, 1.0, stop=time.stop, clock=time.clock)
    times = starts(gate, time, 100)
    time.now += 3600
    times += starts(gate, time, 1000)
    assert most_in_a_minute(times) <= 600


def test_headroom_lowers_the_limit(time: Any) -> None:
    times = starts(Gate(600, 0.5, stop=time.stop, clock=time.clock), time, 900)
    assert most_in_a_minute(times) <= 300


def test_about_a_second_may_start_at_once(time: Any) -> None:
    times = starts(Gate(600, 1.0, stop=time.stop, clock=time.clock), time, 20)
    assert sum(start < 1000.001 for start in times) == 10


def test_a_pause_holds_all_and_is_counted(time: Any) -> None:
    gate = Gate(None, 0.8, stop=time.stop, clock=time.clock)
    gate.pause(5)
    gate.pause(2)  # does not shorten it
    gate.acquire()
    assert 1005 <= time.now <= 1006
    assert gate.slept == pytest.approx(time.now - 1000)
    gate.acquire()
    assert len(time.waits) == 1  # it is over for all


def test_a_pause_that_is_made_longer_while_it_is_waited_for(time: Any) -> None:
    gate = Gate(None, 0.8, stop=time.stop, clock=time.clock)
    wait = time.stop.wait

    def longer(timeout: float) -> bool:
        if len(time.waits) == 0:
            gate.pause(20)
        return bool(wait(timeout))

    time.stop.wait = longer
    gate.pause(5)
    gate.acquire()
    assert 1020 <= time.now <= 1022


def test_nonsense_does_not_pause(time: Any) -> None:
    gate = Gate(None, 0.8, stop=time.stop, clock=time.clock)
    gate.pause(0)
    gate.pause(-3)
    gate.acquire()
    assert time.waits == []


def test_a_pause_voids_reservations_so_that_none_pile_up(time: Any) -> None:
    gate = Gate(60, 1.0, stop=time.stop, clock=time.clock)
    gate.acquire()
    wait = time.stop.wait
    at = []

    def paused_meanwhile(timeout: float) -> bool:
        time.stop.wait = wait
        for _ in range(30):  # 30 threads that hold reservations
            gate._reserve()
        gate.pause(40)
        return bool(wait(timeout))

    time.stop.wait = paused_meanwhile
    gate.acquire()
    at.append(time.now)
    assert 1040 <= at[0] <= 1042  # neither before the pause ends nor behind the 30
    at += starts(gate, time, 60)
    assert most_in_a_minute(at) <= 60


@pytest.mark.parametrize("waits_for", ["pause", "rate"])
def test_stop_wakes_all_that_wait(waits_for: str) -> None:
    stop = threading.Event()
    gate = Gate(0.001 if waits_for == "rate" else None, 1.0, stop=stop)
    if waits_for == "pause":
        gate.pause(3600)
    else:
        gate.acquire()
    outcomes: list[str] = []

    def acquire() -> None:
        try:
            gate.acquire()
        except Stopped:
            outcomes.append("stopped")

    threads = [threading.Thread(target=acquire) for _ in range(8)]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join(5)
    assert outcomes == ["stopped"] * 8


def test_who_comes_after_the_stop_does_not_start(time: Any) -> None:
    gate = Gate(None, 0.8, stop=time.stop, clock=time.clock)
    time.stop.set()
    with pytest.raises(Stopped):
        gate.acquire()
    with pytest.raises(Stopped):
        gate.sleep(1)


def test_many_threads_share_one_rate() -> None:
    gate = Gate(60 * 2000, 1.0, stop=threading.Event())
    count, lock = 0, threading.Lock()

    def work() -> None:
        nonlocal count
        for _ in range(25):
            gate.acquire()
            with lock:
                count += 1

    threads = [threading.Thread(target=work) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert count == 2500
    assert gate.slept > 0

"""One run at a time in an output on a store."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms import files, store_lock
from transforms.file_lock import FileLock
from transforms.held import Locked, LockLost
from transforms.lock import lock
from transforms.store_lock import StoreLock

HOLD = """
import sys
from transforms.store_lock import StoreLock
with StoreLock(sys.argv[1], print):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lock, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(store_lock, "STALE_SECONDS", 1.5)
    monkeypatch.setattr(store_lock, "SETTLE_SECONDS", 0.3)


@pytest.fixture
def output(s3: Any) -> str:
    return f"{s3.root}/out"


@pytest.fixture
def said() -> list[str]:
    return []


def held_by(s3: Any) -> Any:
    return json.loads(s3.get("out/.lock"))


def elsewhere(s3: Any, **more: Any) -> None:
    """A lock that a process on another machine left."""
    left = {"pid": 1, "host": "h", "since": "s", "token": "t", "machine": "m", "started": "1", "beat": 1, **more}
    s3.put("out/.lock", json.dumps(left).encode())


@pytest.fixture
def events() -> Callable[[Callable[[], Any]], None]:
    ticker = threading.Event()

    def wait_until(condition: Callable[[], Any]) -> None:
        for _ in range(3000):
            if condition():
                return
            ticker.wait(0.01)
        pytest.fail("it did not come")

    return wait_until


def test_what_the_path_is_on_decides(tmp_path: Path, output: str) -> None:
    assert isinstance(lock(str(tmp_path), print), FileLock)
    assert isinstance(lock(output, print), StoreLock)


def test_held_and_released(output: str, s3: Any, said: list[str]) -> None:
    with StoreLock(output, said.append):
        assert (held_by(s3)["pid"], held_by(s3)["host"]) == (os.getpid(), socket.gethostname())
    assert s3.keys() == []
    with pytest.raises(KeyError), StoreLock(output, said.append):
        raise KeyError
    assert s3.keys() == []
    assert said == []


def test_the_second_is_refused_and_told_who_holds_it(output: str, said: list[str]) -> None:
    message = f"out is in use by another run: process {os.getpid()} on {socket.gethostname()}, since 20"
    with StoreLock(output, said.append) as held:
        with pytest.raises(Locked, match=message), StoreLock(output, said.append):
            pass
        assert message in said[0]
        held.check()


def test_a_killed_holder_of_this_machine_is_not_waited_for(output: str, s3: Any, said: list[str]) -> None:
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "ignore", "-c", HOLD, output]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "held"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert held_by(s3)["pid"] == holder.pid
    with StoreLock(output, said.append):
        assert held_by(s3)["pid"] == os.getpid()
    assert said == []


def test_another_process_with_the_number_of_the_holder_is_not_the_holder(output: str, s3: Any, said: list[str]) -> None:
    mine = store_lock._this_process()
    elsewhere(s3, pid=os.getpid(), **{**mine, "started": "1"})
    with StoreLock(output, said.append):
        pass
    assert said == []


@pytest.mark.parametrize("left", [None, b"", b"{", b"[]", b'{"machine": 1}'])
def test_a_lock_that_does_not_change_is_stale(output: str, s3: Any, said: list[str], left: bytes | None) -> None:
    if left is None:
        elsewhere(s3)
    else:
        s3.put("out/.lock", left)
    with StoreLock(output, said.append):
        assert held_by(s3)["pid"] == os.getpid()
    assert "watching for up to" in said[0]


def test_a_lock_that_goes_while_it_is_watched(output: str, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lock, "STALE_SECONDS", 3600.0)
    elsewhere(s3)
    with StoreLock(output, lambda _line: files.remove([f"{output}/.lock"])):
        pass


def test_of_several_at_once_one_wins(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lock, "SETTLE_SECONDS", 2.0)
    start, end, outcomes = threading.Barrier(4), threading.Event(), []

    def race() -> None:
        start.wait()
        try:
            with StoreLock(output, lambda _line: None):
                outcomes.append("held")
                end.wait(30)
        except Locked as error:
            outcomes.append(str(error))

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    try:
        ticker = threading.Event()
        while len(outcomes) < 4:
            ticker.wait(0.01)
        assert outcomes.count("held") == 1
    finally:
        end.set()
        for racer in racers:
            racer.join()


def test_taken_over_meanwhile(output: str, s3: Any, events: Any) -> None:
    told: list[str] = []
    with StoreLock(output, print) as held:
        held.on_lost(told.append)
        elsewhere(s3)
        events(lambda: told)
        assert "in use by another run: process 1 on h, since s, which has taken it over" in told[0]
        with pytest.raises(LockLost, match="taken it over"):
            held.check()
        late: list[str] = []
        held.on_lost(late.append)
        assert late == told
    assert held_by(s3)["host"] == "h"  # not ours to remove


def test_removed_meanwhile(output: str, s3: Any, events: Any) -> None:
    with StoreLock(output, print) as held:
        files.remove([f"{output}/.lock"])
        events(lambda: held.lost)


def test_a_store_that_fails_for_too_long(output: str, events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any) -> None:
        raise OSError(5, "SlowDown", "x")

    with StoreLock(output, print) as held, monkeypatch.context() as patch:
        patch.setattr(files, "write_json", fail)
        events(lambda: held.lost)
    assert held.lost is not None
    assert "cannot be kept: SlowDown" in held.lost


def test_where_nothing_can_be_written(s3: Any) -> None:
    with pytest.raises(OSError, match=r"no-such-b"), StoreLock("s3://no-such-b/out", print):
        pass

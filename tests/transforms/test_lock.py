"""One run at a time in an output directory."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from transforms.file_lock import FileLock
from transforms.held import Locked

HOLD = """
import sys
from transforms.file_lock import FileLock
from transforms.held import Locked
try:
    with FileLock(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.readline()
    print("released", flush=True)
except Locked as error:
    print(error, flush=True)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=pipe, stdout=pipe, text=True, env=environment
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_second_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with start(tmp_path) as holder:
        assert line(holder) == "held"
        with pytest.raises(Locked) as caught, FileLock(str(tmp_path)):
            pass
        message = str(caught.value)
        assert (
            f"{tmp_path} is in use by another run: process {holder.pid} on {socket.gethostname()}, since 20" in message
        )
        holder.communicate("\n")
    with FileLock(str(tmp_path)):
        pass


def test_within_one_process_too(tmp_path: Path) -> None:
    with FileLock(str(tmp_path)):
        with pytest.raises(Locked, match=f"process {os.getpid()} "), FileLock(str(tmp_path)):
            pass
        with pytest.raises(Locked), FileLock(str(tmp_path)):  # being refused has not let go of it
            pass


def test_released_at_the_end_also_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), FileLock(str(tmp_path)):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with FileLock(str(tmp_path)):
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    with start(tmp_path) as holder:
        assert line(holder) == "held"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert json.loads((tmp_path / ".lock").read_text())["pid"] == holder.pid
    with FileLock(str(tmp_path)):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("left", ["", "{", '{"pid": 1, "host": "h", "since": "s"}' + " " * 5000])
def test_whatever_a_stale_file_says(tmp_path: Path, left: str) -> None:
    (tmp_path / ".lock").write_text(left)
    with FileLock(str(tmp_path)):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


def test_a_holder_that_has_not_said_who_it_is(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(Locked, match="in use by another run: another process"), FileLock(str(tmp_path)):
            pass


def test_a_file_that_its_holder_removes_meanwhile_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between our open and our lock the holder lets go and removes the file: we hold what nobody else can find.
    flock, removed = fcntl.flock, []

    def remove_first(descriptor: int, operation: int) -> None:
        if not removed:
            removed.append(os.remove(tmp_path / ".lock"))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with FileLock(str(tmp_path)):
        monkeypatch.undo()
        assert removed
        with pytest.raises(Locked), FileLock(str(tmp_path)):
            pass


def test_of_racing_processes_one_wins_and_the_others_know(tmp_path: Path) -> None:
    racers = [start(tmp_path) for _ in range(4)]
    said = {racer: line(racer) for racer in racers}
    (winner,) = (racer for racer, words in said.items() if words == "held")
    for racer, words in said.items():
        assert racer is winner or f"process {winner.pid} " in words or "another process" in words
        racer.communicate("\n")
    with FileLock(str(tmp_path)):
        pass


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"), FileLock(str(tmp_path / "file" / "out")):
        pass

"""What processes see of each other's calls."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from transforms import record_locks
from transforms.digests import digest
from transforms.record_locks import RecordLocks

HOLD = """
import sys
from transforms.digests import digest
from transforms.record_locks import RecordLocks
locks = RecordLocks(sys.argv[1])
for line in sys.stdin:
    verb, id = line.split()
    print(getattr(locks, verb)(digest(id)), flush=True)
"""


class Process:
    """Another process, which takes and releases what it is told to."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, verb: str, id: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(verb, id, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Process]:
    started = Process(tmp_path)
    yield started
    started.process.kill()
    started.process.communicate()


def test_one_process_at_a_time(tmp_path: Path, other: Callable[[str, str], str]) -> None:
    mine = RecordLocks(str(tmp_path))
    assert other("take", "a") == "True"
    assert not mine.take(digest("a"))
    assert mine.take(digest("b"))
    assert other("take", "b") == "False"
    assert not mine.take(digest("a"))  # a refusal closes nothing that holds another
    assert other("take", "b") == "False"
    other("release", "a")
    assert mine.take(digest("a"))
    mine.release(digest("b"))
    assert other("take", "b") == "True"
    assert other("take", "a") == "False"
    mine.release(digest("a"))
    assert other("take", "a") == "True"


def test_a_process_that_is_killed_holds_nothing(tmp_path: Path, other: Any) -> None:
    assert other("take", "a") == "True"
    mine = RecordLocks(str(tmp_path))
    assert not mine.take(digest("a"))
    other.process.send_signal(signal.SIGKILL)
    other.process.wait()
    assert mine.take(digest("a"))
    mine.release(digest("a"))


def test_without_locks_nobody_is_seen(tmp_path: Path, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    assert other("take", "a") == "True"
    monkeypatch.setattr(record_locks.fcntl, "lockf", refused)
    locks = RecordLocks(str(tmp_path))
    assert locks.take(digest("a"))
    locks.release(digest("a"))


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    locks = RecordLocks(str(tmp_path / "gone"))
    assert locks.take(digest("a"))
    locks.release(digest("a"))
    assert not (tmp_path / "gone").exists()

"""The stop sign: one file, first reason stands."""

import threading
from pathlib import Path

import pytest

from transforms import stop
from transforms.stop import INTERRUPTED, StopSign, reason


def test_not_stopped(tmp_path: Path) -> None:
    assert not StopSign(str(tmp_path)).is_set()
    assert reason(str(tmp_path)) is None


def test_the_process_that_stops_knows_at_once(tmp_path: Path) -> None:
    sign = StopSign(str(tmp_path))
    sign.set("auth", "no such key")
    assert sign.event.is_set()
    assert sign.is_set()
    assert reason(str(tmp_path)) == {"kind": "auth", "message": "no such key"}


def test_all_signs_of_the_run_in_this_process_are_set_at_once(tmp_path: Path) -> None:
    here, there, other = StopSign(str(tmp_path)), StopSign(str(tmp_path)), StopSign(str(tmp_path / "other"))
    here.set(INTERRUPTED, "SIGINT")
    assert there.event.is_set()
    assert not other.event.is_set()


def test_other_processes_know_when_they_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    other = StopSign(str(tmp_path))
    (tmp_path / "stop.json").write_text('{"kind": "interrupted", "message": "SIGINT"}')
    assert not other.is_set()  # a look costs a call to the file system: about once a second
    assert not other.event.is_set()
    now[0] += stop.POLL_SECONDS + 0.1
    assert other.is_set()
    assert other.event.is_set()


def test_the_first_reason_stands(tmp_path: Path) -> None:
    signs = [StopSign(str(tmp_path)) for _ in range(4)]
    signs[0].set("auth", "first")
    threads = [threading.Thread(target=sign.set, args=("quota_exhausted", "later")) for sign in signs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reason(str(tmp_path)) == {"kind": "auth", "message": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["stop.json"]

"""The stop sign: one file, first reason stands."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from transforms import files, stop
from transforms.held import LockLost
from transforms.journal import HEADER_FILE
from transforms.stop import (
    BROKEN,
    BUDGET,
    DISK_FULL,
    INTERRUPTED,
    LOCK_LOST,
    WORKER_LOST,
    StopSign,
    WorkerLost,
    check,
    reason,
)


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


def test_a_full_disk_does_not_stand_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_names: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        StopSign(str(tmp_path)).set(DISK_FULL, "no space")
    assert list(tmp_path.iterdir()) == []
    assert reason(str(tmp_path)) == {"kind": DISK_FULL, "message": "no space"}
    assert StopSign(str(tmp_path)).is_set()  # also one that is made afterwards
    StopSign(str(tmp_path)).set(INTERRUPTED, "SIGINT")  # now it can be written: the first reason
    assert '"disk_full"' in (tmp_path / "stop.json").read_text()


def test_a_folder_that_has_gone_is_not_made_again(tmp_path: Path) -> None:
    sign = StopSign(str(tmp_path / "journal"))
    sign.set(INTERRUPTED, "SIGINT")
    assert sign.is_set()
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("kind", [*sorted(BROKEN), BUDGET, INTERRUPTED])
def test_a_run_that_is_broken_is_not_published(tmp_path: Path, kind: str) -> None:
    check(str(tmp_path))
    (tmp_path / "stop.json").write_text(f'{{"kind": "{kind}", "message": "m"}}')
    if kind == WORKER_LOST:
        with pytest.raises(WorkerLost, match=r"^m$"):
            check(str(tmp_path))
    elif kind in BROKEN:
        with pytest.raises(OSError, match=str(tmp_path)):
            check(str(tmp_path))
    else:
        check(str(tmp_path))


def test_a_lost_lock_goes_before_all_other_reasons(tmp_path: Path) -> None:
    sign = StopSign(str(tmp_path))
    sign.set(INTERRUPTED, "SIGINT")
    sign.set(LOCK_LOST, "taken over")
    sign.set(INTERRUPTED, "SIGTERM")
    assert reason(str(tmp_path)) == {"kind": LOCK_LOST, "message": "taken over"}
    assert '"lock_lost"' in (tmp_path / "stop.json").read_text()  # for other processes
    with pytest.raises(LockLost, match="taken over"):
        check(str(tmp_path))


def test_a_lost_lock_is_known_where_it_cannot_be_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, value: Any) -> None:
        raise OSError(5, "no connection", path)

    StopSign(str(tmp_path)).set(INTERRUPTED, "SIGINT")
    monkeypatch.setattr(files, "write_json", refuse)
    StopSign(str(tmp_path)).set(LOCK_LOST, "taken over")
    with pytest.raises(LockLost, match="taken over"):
        check(str(tmp_path))


def test_on_a_store_a_run_that_is_published_stays_so(s3: Any) -> None:
    folder = f"{s3.root}/out/journal/run"
    sign = StopSign(folder)
    sign.set(INTERRUPTED, "SIGINT")
    assert sign.is_set()
    assert s3.keys() == []
    s3.put(f"out/journal/other/{HEADER_FILE}", b"{}")
    StopSign(f"{s3.root}/out/journal/other").set(INTERRUPTED, "SIGINT")
    assert b"SIGINT" in s3.get("out/journal/other/stop.json")

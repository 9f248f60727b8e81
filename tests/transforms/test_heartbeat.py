"""Signs of life of worker processes."""

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms import heartbeat
from transforms.heartbeat import Beat, Heartbeat, WorkersAtWork, beat_files, read_beat
from transforms.llm.endpoints import Counts
from transforms.records import utc
from transforms.watch import JournalWatch

RUN = "20260101T000000-abcdef"
COUNTS = Counts(calls=20, in_flight=3, rate_limited=2, slept=1.5, throttled=1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "journal" / RUN
    folder.mkdir(parents=True)
    return folder


def until(condition: Callable[[], Any]) -> None:
    tick = threading.Event()
    for _ in range(3000):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("waited in vain")


def test_it_beats_while_there_is_work_and_once_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    looks: list[int] = []

    def count() -> Counts:
        looks.append(1)
        return COUNTS

    beats = Heartbeat(str(folder), count, max_in_flight=8)
    with beats.working():
        until(lambda: beat_files(str(folder)))
    beats.settle()
    seen = len(looks)
    threading.Event().wait(0.1)  # several beats, of which none is to be
    assert len(looks) == seen
    beats.close()
    assert len(looks) == seen + 1
    [path] = beat_files(str(folder))
    beat = read_beat(path)
    assert beat is not None
    assert beat[4:] == (20, 3, 8, 2, 1.5, True)
    assert [file.name for file in folder.iterdir()] == [Path(path).name]


def test_a_folder_that_has_gone_stays_away(folder: Path) -> None:
    beats = Heartbeat(str(folder), lambda: COUNTS, max_in_flight=8)
    shutil.rmtree(folder)
    beats.close()
    assert not folder.exists()


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"pid": 1}', '{"unheard": "of"}'):
        (tmp_path / "worker-a.json").write_text(text)
        assert read_beat(str(tmp_path / "worker-a.json")) is None


def put(folder: Path, name: str, **changes: Any) -> None:
    known = Beat("host", 1, "2026-01-01T00:00:00.000Z", 10.0, 20, 3, 8, 2, 1.5, False)._asdict()
    (folder / f"worker-{name}.json").write_text(json.dumps({**known, **changes}))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_watch_adds_up_the_workers(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.watch.time.time", lambda: 1767225601.0)  # a second after the beats
    clock = Clock()
    watch = JournalWatch(str(tmp_path), RUN, clock)
    assert watch.update().in_flight is None
    put(folder, "a")
    put(folder, "b", calls=5, in_flight=1, rate_limited=0)
    put(folder, "c", in_flight=0, closed=True)
    clock.now += 2
    progress = watch.update()
    assert (progress.calls, progress.in_flight, progress.rate_limited) == (45, 4, 4)

    put(folder, "a", calls=30)
    clock.now += 29.5  # b says nothing any more: what it said is no news of now
    progress = watch.update()
    assert (progress.calls, progress.in_flight, progress.rate_limited) == (55, 3, 4)
    assert progress.silent_seconds == 0
    clock.now += 100
    progress = watch.update()
    assert (progress.in_flight, progress.silent_seconds) == (0, 100)


def test_what_a_killed_process_had_under_way_is_not(tmp_path: Path, folder: Path) -> None:
    """Its requests were made all the same."""
    put(folder, "here", time=utc(time.time()), host=socket.gethostname(), pid=os.getpid())
    put(folder, "dead", time=utc(time.time()), host=socket.gethostname(), pid=GONE)
    progress = JournalWatch(str(tmp_path), RUN).update()
    assert (progress.in_flight, progress.requests) == (3, 40)


@pytest.mark.parametrize(("behind", "silent"), [(3600.0, 3600.0), (-3600.0, 0.0)])
def test_how_old_a_first_sign_is_goes_by_the_wall_clock_and_later_ones_do_not(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, behind: float, silent: float
) -> None:
    """A clock that differs, or is set meanwhile, cannot make a run that goes on look dead for long."""
    monkeypatch.setattr("transforms.watch.time.time", lambda: 1767225600.0 + behind)
    clock = Clock()
    put(folder, "a")
    watch = JournalWatch(str(tmp_path), RUN, clock)
    assert watch.update().silent_seconds == silent
    put(folder, "a", calls=21)
    clock.now += 2
    assert watch.update().silent_seconds == 0
    assert watch.progress.in_flight == 3


def test_new_outcomes_are_signs_of_life_too(tmp_path: Path, folder: Path, make: Any) -> None:
    (folder / "plan.json").write_text('{"rows": 9, "todo": 9}')
    make.journal(folder / "a-1.jsonl", [make.result("a")])
    clock = Clock()
    watch = JournalWatch(str(tmp_path), RUN, clock)
    watch.update()
    clock.now += 50
    assert watch.update().silent_seconds == 50
    make.journal(folder / "a-2.jsonl", [make.result("b")])
    assert watch.update().silent_seconds == 0


@pytest.mark.parametrize(("limit", "todo"), [(None, 700), (20, 20), (900, 700)])
def test_a_limit_is_all_there_is_to_do(tmp_path: Path, folder: Path, limit: int | None, todo: int) -> None:
    (folder / "run.json").write_text(json.dumps({"run_id": RUN, "limit": limit}))
    (folder / "plan.json").write_text('{"rows": 1000, "todo": 700}')
    assert JournalWatch(str(tmp_path), RUN).update().todo == todo


GONE = 2**22 + 1  # no process of Linux has that number


def test_workers_at_work_are_those_that_beat(folder: Path) -> None:
    clock = Clock()
    workers = WorkersAtWork(str(folder), clock)
    assert workers.look() == []
    put(folder, "old")  # of long ago
    put(folder, "closed", time=utc(time.time()), closed=True)
    put(folder, "dead", time=utc(time.time()), host=socket.gethostname(), pid=GONE)
    assert workers.look() == []
    put(folder, "far", time=utc(time.time()), pid=GONE)
    put(folder, "here", time=utc(time.time()), host=socket.gethostname(), pid=os.getpid())
    put(folder, "old", calls=21)  # its clock is far behind ours: it beats
    assert {(beat.host, beat.pid) for beat in workers.look()} == {
        ("host", GONE),
        (socket.gethostname(), os.getpid()),
        ("host", 1),
    }
    clock.now += 60
    assert workers.look() == []


def test_who_is_alive_and_who_was_there(folder: Path) -> None:
    now = utc(time.time())
    beat = Beat("elsewhere", 1, now, 1.0, 1, 0, 4, 0, 0.0, False)
    for number, each in enumerate(
        [
            beat,
            beat._replace(pid=2),
            beat._replace(pid=2, closed=True),  # threads of that process that are gone
            beat._replace(pid=3, closed=True),
            beat._replace(pid=4, time="2026-01-01T00:00:00.000Z"),
            beat._replace(host=socket.gethostname(), pid=os.getpid()),
        ]
    ):
        (folder / f"worker-{number}.json").write_text(json.dumps(each._asdict()))
    (folder / "worker-cut.json").write_text("{")
    assert heartbeat.alive(str(folder)) == 3
    assert heartbeat.others(str(folder)) == 4
    assert (heartbeat.alive(f"{folder}/gone"), heartbeat.others(f"{folder}/gone")) == (0, 0)

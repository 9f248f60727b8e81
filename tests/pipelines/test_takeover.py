"""Workers of a run that was cut short, and are still at it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pipelines.takeover import let_workers_end
from transforms import stop
from transforms.heartbeat import Beat
from transforms.layout import Layout
from transforms.records import utc
from transforms.stop import LOCK_LOST

RUN = "20260101T000000-abcdef"


def beat(folder: Path, *, closed: bool) -> None:
    now = Beat("far", 7, utc(time.time()), 10.0, 20, 3, 8, 2, 1.5, closed)
    (folder / "worker-a.json").write_text(json.dumps(now._asdict()))


def test_they_are_asked_to_stop_and_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(str(tmp_path))
    folder = Path(layout.journal(RUN))
    folder.mkdir(parents=True)
    beat(folder, closed=False)
    waits = []

    def wait(seconds: float) -> None:
        given = stop.reason(str(folder))
        assert given is not None
        assert given["kind"] == LOCK_LOST
        waits.append(seconds)
        beat(folder, closed=len(waits) == 3)

    let_workers_end(layout, RUN, wait=wait)

    assert len(waits) == 3
    assert "process 7 on far" in capsys.readouterr().err


def test_where_there_are_none_nothing_is_said_or_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(str(tmp_path))
    folder = Path(layout.journal(RUN))
    folder.mkdir(parents=True)
    beat(folder, closed=True)

    let_workers_end(layout, RUN)

    assert stop.reason(str(folder)) is None
    assert capsys.readouterr().err == ""

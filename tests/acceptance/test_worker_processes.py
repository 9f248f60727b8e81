"""Worker processes of the in-process runner: nothing is repeated there, so that a killed one ends the run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

COUNT = 1200
IN_FLIGHT = 8
TWO = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
SECONDS = 10 * 6  # six times what is promised: the machine may be busy


def worker_pids(workspace: Any) -> set[int]:
    """The processes that have called the model in the run that is on, by their signs of life."""
    return {json.loads(file.read_text())["pid"] for file in workspace.output.glob("journal/*/worker-*.json")}


def calling(workspace: Any, started: Any, earlier: Collection[int] = (), count: int = 1) -> set[int]:
    """Waits until so many workers of a run are calling: their pids. On a busy machine one may begin late."""
    found: set[int] = set()
    started.until(lambda: found.update(worker_pids(workspace) - set(earlier)) or len(found) >= count, "workers call")
    return found


def alive(pid: int) -> bool:
    """Whether that process is there, and not only its exit code."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.fixture
def server(workspace: Any, mock: Any) -> Any:
    workspace.write_input(workspace.rows(COUNT), files=4)
    server = mock("-latency", "100")
    workspace.configure(server.url, limits={"max_in_flight": IN_FLIGHT})
    return server


def test_a_killed_worker_ends_the_run_and_the_next_one_goes_on(workspace: Any, server: Any) -> None:
    earlier: set[int] = set()
    for calls in (150, 500):
        started = workspace.start(*TWO)
        started.until(lambda calls=calls: server.calls() > calls, "some rows are done")
        pids = calling(workspace, started, earlier)
        earlier |= pids
        os.kill(min(pids), signal.SIGKILL)
        workspace.until(started.ended, "the run has ended", SECONDS)
        broken = started.wait()
        assert broken.code == 1, broken.err
        [line] = [line for line in broken.err.splitlines() if line.startswith("paidonce:")]
        assert "a worker process was ended by SIGKILL" in line
        assert str(workspace.output / "journal") in line
        assert "Traceback" not in broken.err
        workspace.until(lambda pids=pids: not any(map(alive, pids)), "no worker is left")
        workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done")

    ran = workspace.run(*TWO)

    assert ran.code == 0, ran.err
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    stats = server.stats()
    assert stats["answered_prompts"] == COUNT
    assert stats["paid_twice_calls"] <= 2 * IN_FLIGHT  # those in flight in the killed process, each time
    assert not list(workspace.output.glob("journal/*"))


def test_workers_end_with_who_started_them(workspace: Any, server: Any) -> None:
    started = workspace.start(*TWO)
    pids = calling(workspace, started)
    started.kill()
    workspace.until(lambda: not any(map(alive, pids)), "no worker is left")

    ran = workspace.run(*TWO)

    assert ran.code == 0, ran.err
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert server.stats()["paid_twice_calls"] <= 2 * IN_FLIGHT


def test_a_worker_that_hangs_is_not_waited_for(workspace: Any, own_server: Any) -> None:
    """Its calls would take a minute more: the other one's end is not put off by that."""
    workspace.write_input(workspace.rows(200), files=4)
    workspace.configure(own_server.url, limits={"max_in_flight": IN_FLIGHT})
    own_server.pass_first = 20
    own_server.gate.clear()
    started = workspace.start(*TWO)
    pids = calling(workspace, started, count=2)
    started.until(lambda: own_server.in_flight == 2 * IN_FLIGHT, "all calls wait for the server")
    os.kill(min(pids), signal.SIGKILL)
    workspace.until(started.ended, "the run has ended", SECONDS)
    assert started.wait().code == 1
    workspace.until(lambda: not any(map(alive, pids)), "no worker is left")
    own_server.gate.set()

    ran = workspace.run()

    assert ran.code == 0, ran.err
    assert ran.counts["recovered"] == 20
    assert workspace.ids() == [row["id"] for row in workspace.rows(200)]

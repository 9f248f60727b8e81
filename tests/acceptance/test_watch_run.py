"""`python -m pipelines.watch`: what is going on, from another process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COUNT = 40
PASSED = 20
IN_FLIGHT = 8
REPOSITORY = Path(__file__).resolve().parents[2]


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-m", "pipelines.watch", *map(str, arguments)]


def watch(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, env=environment)


@pytest.fixture
def going(workspace: Any, own_server: Any) -> Any:
    """A run whose server has answered PASSED rows and keeps the next ones waiting."""
    return begin(workspace, own_server, [])


def begin(workspace: Any, own_server: Any, flags: list[str]) -> Any:
    """Starts such a run."""
    own_server.pass_first = PASSED
    own_server.gate.clear()
    workspace.write_input(workspace.rows(COUNT))
    workspace.configure(own_server.url, limits={"max_in_flight": IN_FLIGHT})
    started = workspace.start(*flags)
    started.until(
        lambda: own_server.in_flight == IN_FLIGHT and workspace.journal_lines() == PASSED, f"{PASSED} rows are done"
    )
    written = list(workspace.output.glob("journal/*/worker-*.json"))
    seen = {path: path.stat().st_mtime_ns for path in written}
    beats = workspace.output.glob
    started.until(
        lambda: any(seen.get(path) != path.stat().st_mtime_ns for path in beats("journal/*/worker-*.json")),
        "a worker has given a sign of life",
    )
    return started


def test_a_run_that_is_going(workspace: Any, own_server: Any, runner: list[str]) -> None:
    going = begin(workspace, own_server, runner)
    [run_id] = [path.name for path in workspace.output.glob("journal/*")]

    once = watch(workspace.output, "--once")

    assert once.returncode == 0, once.stderr
    assert once.stderr == ""
    assert once.stdout.splitlines()[0] == f"run {run_id}"
    for said in (f"{PASSED}/{COUNT} | ok {PASSED} (100.0%) | failed 0", f"{IN_FLIGHT} in flight", "429s 0", "$0."):
        assert said in once.stdout

    live = subprocess.Popen(
        command(workspace.output),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    try:
        assert live.stdout is not None
        assert live.stdout.readline() == f"run {run_id}\n"
        own_server.gate.set()
        assert going.wait().code == 0
        out, err = live.communicate(timeout=120)
    finally:
        live.kill()
    assert live.returncode == 0, err
    assert "it has ended:\ncomplete\n" in out
    assert f"ok {COUNT} | failed 0" in out

    after = watch(workspace.output)
    assert (after.returncode, after.stderr) == (0, "")
    assert "no run is going; the last one, " + run_id in after.stdout
    assert f"total {COUNT} | skipped 0 | recovered 0 | ok {COUNT}" in after.stdout


def test_a_run_that_was_killed(workspace: Any, going: Any) -> None:
    going.kill()
    dead = watch(workspace.output)
    assert dead.returncode == 0
    assert f"{PASSED}/{COUNT}" in dead.stdout
    said = f"this run looks dead: process {going.process.pid} on {socket.gethostname()} is gone"
    assert said in dead.stderr


def test_a_run_on_another_machine_that_says_nothing(workspace: Any, going: Any) -> None:
    going.kill()
    (workspace.output / ".lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "s"}))
    alive = watch(workspace.output, "--once")
    assert (alive.returncode, alive.stderr) == (0, "")
    for path in workspace.output.glob("journal/*/worker-*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "time": "2026-01-01T00:00:00.000Z"}))
    dead = watch(workspace.output, "--once", "--silent", "5")
    assert dead.returncode == 0
    assert "this run looks dead: no outcome and no sign of life for " in dead.stderr
    assert "look at process 1 on elsewhere" in dead.stderr


def test_ctrl_c_ends_it_quietly(workspace: Any, going: Any) -> None:
    live = subprocess.Popen(
        command(workspace.output),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert live.stdout is not None
    assert live.stdout.readline().startswith("run ")
    live.send_signal(signal.SIGINT)
    _out, err = live.communicate(timeout=120)
    assert (live.returncode, err) == (130, "")
    assert not going.ended()


def test_a_path_without_any_output(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        ran = watch(path)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"paidonce: {path} holds no output of a run")
        assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "--silent", "0"], ["a", "--silent", "x"], ["--unheard"]])
def test_wrong_use(arguments: list[str]) -> None:
    ran = watch(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("paidonce: ")
    assert ran.stderr.count("\n") == 1


def test_help_does_without_beam() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pipelines.watch", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert ran.returncode == 0
    assert "--once" in ran.stdout
    assert "apache_beam" not in ran.stderr

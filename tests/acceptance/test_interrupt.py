"""Ctrl-C, SIGTERM, a hang-up: calls under way are finished, all that was answered is published, the rest is left."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

COUNT = 600


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_in_the_middle(workspace: Any, mock: Any, number: int) -> None:
    server = mock("-latency", "40")
    workspace.write_input(workspace.rows(COUNT), files=2)
    workspace.configure(server.url)
    started = workspace.start()
    started.until(lambda: server.calls() >= 60, "60 calls")
    started.send(number)
    ran = started.wait()

    assert ran.code == 130, ran.err
    account = workspace.account()
    assert (account["status"], account["stop_reason"]) == ("stopped", "interrupted")
    answered = server.stats()["answered_prompts"]
    assert account["ok"] == answered == len(workspace.ids()) < COUNT
    assert account["unprocessed"] == COUNT - answered
    assert not list(workspace.output.glob("journal/*"))

    rest = workspace.run()

    assert rest.code == 0, rest.err
    assert (rest.counts["skipped"], rest.counts["ok"]) == (answered, COUNT - answered)
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert (server.calls(), server.stats()["paid_twice_calls"]) == (COUNT, 0)


def test_a_signal_while_rows_wait_for_a_retry(workspace: Any, own_server: Any) -> None:
    """Whoever waits on purpose is woken up; its row is left undone, not failed."""
    own_server.script = lambda _row, _number: own_server.error(429, "slow down", retry_after="100")
    workspace.write_input(workspace.rows(20))
    workspace.configure(own_server.url)
    started = workspace.start()
    started.until(lambda: own_server.calls >= 1 and own_server.in_flight == 0, "the server asked to wait")
    started.send(signal.SIGINT)
    ran = started.wait()

    assert ran.code == 130, ran.err
    assert workspace.failures() == []
    assert workspace.account()["unprocessed"] == 20
    own_server.script = lambda _row, _number: own_server.answer()
    assert workspace.run().counts["ok"] == 20


def test_the_second_signal_ends_it_at_once(workspace: Any, own_server: Any) -> None:
    own_server.pass_first = 10
    own_server.gate.clear()
    workspace.write_input(workspace.rows(40))
    workspace.configure(own_server.url)
    started = workspace.start()
    started.until(lambda: own_server.in_flight == 8 and workspace.journal_lines() == 10, "8 calls are under way")
    started.send(signal.SIGINT)
    started.until(lambda: "stopping" in started.errors(), "it says that it stops")
    assert not started.ended()
    started.send(signal.SIGINT)
    ran = started.wait()  # the server holds its answers still

    assert ran.code == 130, ran.err
    own_server.gate.set()
    rest = workspace.run()
    assert rest.code == 0, rest.err
    assert (rest.counts["recovered"], rest.counts["ok"]) == (10, 30)
    assert own_server.calls == 40 + 8
    assert workspace.ids() == [row["id"] for row in workspace.rows(40)]


@pytest.mark.prism
def test_a_signal_on_prism(workspace: Any, mock: Any, prism: list[str]) -> None:
    server = mock("-latency", "40")
    workspace.write_input(workspace.rows(COUNT), files=2)
    workspace.configure(server.url)
    started = workspace.start(*prism)
    started.until(lambda: server.calls() >= 60, "60 calls")
    started.send(signal.SIGINT)
    ran = started.wait()

    assert ran.code == 130, ran.err
    answered = server.stats()["answered_prompts"]
    assert workspace.account()["ok"] == answered == len(workspace.ids()) < COUNT
    rest = workspace.run()
    assert rest.code == 0, rest.err
    assert server.stats()["paid_twice_calls"] == 0
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]


@pytest.mark.prism
def test_the_second_signal_leaves_no_engine_behind(
    workspace: Any, own_server: Any, prism: list[str], tmp_path: Path
) -> None:
    own_server.pass_first = 10
    own_server.gate.clear()
    workspace.write_input(workspace.rows(40))
    workspace.configure(own_server.url)
    started = workspace.start(*prism)
    started.until(lambda: own_server.in_flight == 8, "8 calls are under way")
    engines = [int(pid) for pid in (tmp_path / "prism.pids").read_text().split()]
    assert all(Path(f"/proc/{pid}").exists() for pid in engines)
    started.send(signal.SIGTERM)
    started.until(lambda: "stopping" in started.errors(), "it says that it stops")
    started.send(signal.SIGTERM)

    assert started.wait().code == 130
    workspace.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in engines), "the engine has ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_before_the_run_begins(workspace: Any, own_server: Any, number: int) -> None:
    """While it looks at the input, here at one that nobody writes to."""
    workspace.input.mkdir()
    pipe = workspace.input / "part-0.jsonl"
    os.mkfifo(pipe)
    workspace.configure(own_server.url)
    started = workspace.start()
    opened: list[int] = []

    def is_read() -> bool:
        with contextlib.suppress(OSError):  # nobody reads it yet
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(opened)

    started.until(is_read, "it reads the input")
    # A signal that comes between two steps of Python and a system call that blocks waits for that call.
    stat = Path(f"/proc/{started.process.pid}/stat")
    started.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "it waits for the pipe")
    started.send(number)
    ran = started.wait()
    os.close(opened[0])

    assert ran.code == 130, ran.err
    assert ran.err == "\ninterrupted before the run began\n"
    assert not workspace.output.exists()


def test_a_signal_while_it_plans(workspace: Any, mock: Any) -> None:
    server = mock()
    rows = 100_000
    workspace.write_input(workspace.rows(rows), files=2)
    workspace.configure(server.url)
    started = workspace.start()
    started.until(lambda: list(workspace.output.glob("journal/*/run.json")), "the run has begun")
    started.send(signal.SIGINT)
    ran = started.wait()

    assert ran.code == 130, ran.err
    account = workspace.account()
    assert (account["total"], account["ok"]) == (rows, server.calls())
    assert server.calls() < rows
    assert not list(workspace.output.glob("journal/*"))


def test_nohup_is_heeded(workspace: Any, own_server: Any) -> None:
    """Where the hang-up was ignored from the start, it stays so."""
    own_server.pass_first = 10
    own_server.gate.clear()
    workspace.write_input(workspace.rows(40))
    workspace.configure(own_server.url)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = workspace.start()  # inherits it
    finally:
        signal.signal(signal.SIGHUP, before)
    started.until(lambda: own_server.in_flight == 8, "8 calls are under way")
    started.send(signal.SIGHUP)
    own_server.gate.set()
    ran = started.wait()
    assert (ran.code, ran.counts["ok"]) == (0, 40), ran.err

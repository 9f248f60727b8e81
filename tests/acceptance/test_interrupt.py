"""Ctrl-C and SIGTERM: calls under way are finished, all that was answered is published, the rest is left."""

from __future__ import annotations

import signal
from typing import Any

import pytest

COUNT = 600


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
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

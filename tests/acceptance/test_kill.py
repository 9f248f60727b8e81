"""kill -9 in the middle, as often as it takes: what it costs is at most what was in flight."""

from __future__ import annotations

import random
from typing import Any

COUNT = 500
IN_FLIGHT = 8


def prepare(workspace: Any, server: Any) -> None:
    workspace.write_input(workspace.rows(COUNT), files=3)
    workspace.configure(server.url, limits={"max_in_flight": IN_FLIGHT}, output={"rows_per_shard": 200})


def kill_after(calls: int, workspace: Any, server: Any, flags: list[str]) -> None:
    """Starts the command and kills it once the server has seen so many calls more than before."""
    wanted = server.calls() + calls
    started = workspace.start(*flags)
    started.until(lambda: server.calls() >= wanted, f"{calls} more calls")
    started.kill()
    workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done with the calls of the dead run")


def lost(workspace: Any, server: Any) -> int:
    """Rows that the server answered and that are neither in results nor in a journal."""
    return int(server.stats()["answered_prompts"]) - len(workspace.results()) - workspace.journal_lines()


def check_end(workspace: Any, server: Any, kills: int) -> None:
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert workspace.failures() == []
    stats = server.stats()
    assert stats["answered_prompts"] == COUNT
    assert stats["paid_twice_calls"] <= kills * IN_FLIGHT
    assert not list(workspace.output.glob("journal/*"))
    assert not list(workspace.output.glob("staging/*"))


def test_kills_at_several_points(workspace: Any, mock: Any, runner: list[str]) -> None:
    server = mock("-latency", "20")
    prepare(workspace, server)
    points = [1, 70, 130]
    for number, calls in enumerate(points, 1):
        kill_after(calls, workspace, server, runner)
        assert lost(workspace, server) <= number * IN_FLIGHT

    last = workspace.run(*runner)

    assert last.code == 0, last.err
    check_end(workspace, server, len(points))
    account = workspace.account()
    assert account["recovered"] > 0
    assert account["failed"] == account["unprocessed"] == 0


def test_kills_while_the_input_is_dealt_out_anew(workspace: Any, mock: Any) -> None:
    """Where a row stands is no part of what it is: other files, another order, the same rows."""
    server = mock("-latency", "20")
    prepare(workspace, server)
    shuffled = random.Random(1)
    for number, calls in enumerate([90, 120, 60], 1):
        kill_after(calls, workspace, server, [])
        assert lost(workspace, server) <= number * IN_FLIGHT
        rows = workspace.rows(COUNT)
        shuffled.shuffle(rows)
        workspace.write_input(rows, files=shuffled.randint(1, 7))

    assert workspace.run().code == 0
    check_end(workspace, server, 3)


def test_kills_while_it_publishes(workspace: Any, mock: Any) -> None:
    """From the last answer on nothing is paid for any more, wherever in writing and moving the files it ends."""
    server = mock()
    prepare(workspace, server)
    started = workspace.start()
    started.until(lambda: server.stats()["answered_prompts"] == COUNT, "all rows are answered")
    started.kill()
    workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done")
    owed = lost(workspace, server)

    # The next one publishes what the first one had. It is killed as soon as a file of the results is there.
    started = workspace.start()
    started.until(lambda: list(workspace.output.glob("results/*")) or started.ended(), "results are published")
    started.kill()

    assert workspace.run().code == 0
    check_end(workspace, server, 1)
    assert server.calls() == COUNT + owed


def test_a_journal_with_a_damaged_tail(workspace: Any, own_server: Any) -> None:
    """What power loss can leave at the end of a file costs no other row."""
    tail = b"garbage\n" + b"\0" * 64 + b'\n{"digest":"00'
    workspace.write_input(workspace.rows(20))
    workspace.configure(own_server.url, limits={"max_in_flight": 1})
    own_server.pass_first = 10
    own_server.gate.clear()
    started = workspace.start()
    started.until(lambda: workspace.journal_lines() == 10 and own_server.in_flight == 1, "ten rows are journalled")
    started.kill()
    own_server.gate.set()
    [journal] = workspace.output.glob("journal/*/*.jsonl")
    with journal.open("ab") as stream:
        stream.write(tail)

    ran = workspace.run()

    assert ran.code == 0, ran.err
    assert (ran.counts["recovered"], ran.counts["ok"]) == (10, 10)
    assert own_server.calls == 21  # the one in flight was called twice
    assert workspace.ids() == [row["id"] for row in workspace.rows(20)]

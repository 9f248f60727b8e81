"""--on-change: what becomes of the answers to another task."""

from __future__ import annotations

from typing import Any

COUNT = 40
HALF = 20


def prepare(workspace: Any, server: Any) -> str:
    """Half of the rows are done, and one of them has failed for good. Returns the task's hash."""
    server.script = lambda row, _number: (
        server.error(400, "filtered", "content_filter") if row == "r00007" else server.answer()
    )
    workspace.write_input(workspace.rows(COUNT), files=2)
    workspace.configure(server.url)
    assert workspace.run("--limit", str(HALF)).code == 0
    server.script = lambda _row, _number: server.answer('{"label": "negative"}')
    server.requests.clear()
    workspace.configure(server.url, task={"system": "Be brief."})
    done = workspace.results()
    assert len(done) + len(workspace.failures()) == HALF
    [task] = {row["task_hash"] for row in done}
    return str(task)


def test_keep_does_the_rest(workspace: Any, own_server: Any) -> None:
    old = prepare(workspace, own_server)
    before, old_rows = workspace.tree("results"), workspace.results()

    ran = workspace.run("--on-change=keep")

    assert ran.code == 0, ran.err
    assert own_server.requests.total() == ran.counts["ok"] == HALF
    assert before.items() <= workspace.tree("results").items()
    rows = workspace.results()
    assert [row for row in rows if row["task_hash"] == old] == old_rows
    new = [row for row in rows if row["task_hash"] != old]
    assert {row["label"] for row in new} == {"negative"}
    assert sorted({row["id"] for row in rows} | {"r00007"}) == [row["id"] for row in workspace.rows(COUNT)]
    assert workspace.run().counts["skipped"] == COUNT  # from now on this is the task


def test_redo_does_all_again(workspace: Any, own_server: Any) -> None:
    old = prepare(workspace, own_server)
    before = sorted(workspace.tree("results", "failures").values())

    ran = workspace.run("--on-change=redo")

    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == COUNT
    assert set(own_server.requests.values()) == {1}
    assert own_server.requests.total() == COUNT
    rows = workspace.results()
    assert sorted(row["id"] for row in rows) == [row["id"] for row in workspace.rows(COUNT)]
    assert len({row["task_hash"] for row in rows} - {old}) == 1
    assert {row["label"] for row in rows} == {"negative"}
    assert workspace.failures() == []
    assert sorted(workspace.tree("replaced").values()) == before


def test_redo_that_is_killed_goes_on(workspace: Any, own_server: Any) -> None:
    """Once the old answers are set aside, the same command does not set aside the new ones as well."""
    prepare(workspace, own_server)
    own_server.pass_first = own_server.calls + 10
    own_server.gate.clear()
    started = workspace.start("--on-change=redo")
    started.until(lambda: workspace.journal_lines() == 10 and own_server.in_flight == 8, "ten rows are done again")
    started.kill()
    own_server.gate.set()

    ran = workspace.run("--on-change=redo")

    assert ran.code == 0, ran.err
    assert (ran.counts["recovered"], ran.counts["ok"]) == (10, COUNT - 10)
    assert own_server.requests.total() == COUNT + 8  # those in flight at the kill
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert {row["label"] for row in workspace.results()} == {"negative"}

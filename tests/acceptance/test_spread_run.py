"""Which workers call: one file that cannot be read in ranges, on two worker processes."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

COUNT = 400
IN_FLIGHT = 4
TWO_WORKERS = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


@pytest.mark.parametrize("shuffled", [True, False])
def test_one_packed_file(workspace: Any, own_server: Any, shuffled: bool) -> None:
    workspace.input.mkdir()
    with gzip.open(workspace.input / "rows.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in workspace.rows(COUNT))
    most = 0

    def answer(_row: str, _number: int) -> Any:
        nonlocal most
        most = max(most, own_server.in_flight)
        return own_server.answer()

    own_server.script = answer
    own_server.gate.clear()
    limits = {"max_in_flight": IN_FLIGHT}
    workspace.configure(own_server.url, limits=limits)
    started = workspace.start(*TWO_WORKERS, "--set", f"input.shuffle_records={json.dumps(shuffled)}")
    calling = 2 * IN_FLIGHT if shuffled else IN_FLIGHT
    started.until(lambda: own_server.in_flight == calling, "its workers call")
    own_server.gate.set()
    ran = started.wait()

    assert ran.code == 0, ran.err
    assert most == calling
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert set(own_server.requests.values()) == {1}

    ran = workspace.run("--set", "input.shuffle_records=true")
    assert (ran.code, ran.counts["skipped"]) == (0, COUNT)  # it is no other task
    assert own_server.calls == COUNT


def test_in_the_order_of_the_input(workspace: Any, own_server: Any, runner: list[str]) -> None:
    workspace.write_input(workspace.rows(60), files=2)
    workspace.configure(
        own_server.url, input={"shuffle_records": True}, output={"order": "input"}, limits={"max_in_flight": IN_FLIGHT}
    )
    ran = workspace.run(*runner, "--limit", "50")
    assert ran.code == 0, ran.err
    rows = workspace.rows(60)
    assert [row["id"] for row in workspace.results()] == [row["id"] for row in (rows[::2] + rows[1::2])[:50]]

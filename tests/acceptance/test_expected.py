"""task.expected: what the input says is right, in the results and at the end of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNT = 12


def truth(row: str) -> str | None:
    """What the input says of a row: the last one says nothing, the first something that is wrong."""
    number = int(row[1:])
    return None if number == COUNT - 1 else "negative" if number == 0 else "positive"


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_it_can_be_added_to_results_that_are_there(workspace: Any, own_server: Any, format: str) -> None:
    workspace.write_input([{**row, "label": truth(row["id"])} for row in workspace.rows(COUNT)])
    workspace.configure(own_server.url, output={"path": str(workspace.output), "format": format})
    half = workspace.run("--limit", "4")
    assert half.code == 0
    assert "right" not in half.out

    ran = workspace.run("--set", "task.expected=label")

    assert ran.code == 0, ran.err  # it is the same task
    assert own_server.requests.total() == COUNT
    known = [row for row in workspace.rows(COUNT) if truth(row["id"]) is not None]
    shards = sorted(map(str, workspace.output.glob("results/*")))
    reader = "read_parquet" if format == "parquet" else "read_json"
    unite = ", union_by_name=true" if format == "jsonl" else ""
    rows = duckdb.sql(f"select id, label, expected from {reader}({shards}{unite})").fetchall()
    assert sorted(row[0] for row in rows) == [row["id"] for row in workspace.rows(COUNT)]
    said = {identifier: expected for identifier, _label, expected in rows}
    told = {identifier for identifier, expected in said.items() if expected is not None}
    assert len(told) in (len(known) - 4, len(known) - 3)
    assert all(said[identifier] == truth(identifier) for identifier in told)
    right = len([identifier for identifier in told if truth(identifier) == "positive"])
    assert f"right: {right} of {len(told)} that say what is right (" in ran.out

    # Without it again, the new results have the column all the same, and nothing is called.
    again = workspace.run()
    assert again.counts["skipped"] == COUNT
    assert own_server.requests.total() == COUNT


def test_values_that_are_no_text(workspace: Any, own_server: Any) -> None:
    schema = {"type": "object", "properties": {"stars": {"type": "number"}, "why": {"type": "string"}}}
    own_server.script = lambda _row, _number: own_server.answer('{"stars": 2, "why": "so"}')
    workspace.write_input(workspace.rows(5))
    workspace.configure(own_server.url, task={"schema": schema, "expected": "stars"})
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert {row["id"]: row["expected"] for row in workspace.results()} == {f"r{n:05d}": str(n) for n in range(5)}
    assert "right: 1 of 5 that say what is right (20.0 %)" in ran.out


def test_what_is_wrong_is_said_before_anything_is_called(workspace: Any, own_server: Any) -> None:
    workspace.write_input([{**row, "expected": 1, "truth": "x"} for row in workspace.rows(3)])
    workspace.configure(own_server.url)
    two = "task.schema={type: object, properties: {label: {}, why: {}}}"
    for flags, named in [
        (["--set", "task.expected=nothing"], "task.expected: the input has no column 'nothing'"),
        (["--set", "task.expected=truth", "--set", two], "any of 'label', 'why'"),
        (["--set", "task.expected=truth", "--set", "input.carry=[expected]"], "named 'expected'"),
        (["--set", "task.expected=[a]"], "task.expected: must be text"),
    ]:
        ran = workspace.run(*flags)
        assert ran.code == 2, ran.err
        [line] = ran.err.splitlines()
        assert named in line
    assert own_server.calls == 0
    assert not workspace.output.exists()


def test_two_outputs_side_by_side(workspace: Any, own_server: Any) -> None:
    workspace.write_input([{**row, "label": truth(row["id"])} for row in workspace.rows(COUNT)])
    workspace.configure(own_server.url, task={"expected": "label"})
    assert workspace.run().code == 0
    own_server.script = lambda row, _number: own_server.answer(
        '{"label": "negative"}' if row in ("r00000", "r00003") else '{"label": "positive"}'
    )
    other = workspace.folder / "other"
    assert workspace.run("--output", str(other), "--set", "task.system=Be brief.").code == 0

    command = [sys.executable, "-m", "pipelines.compare", str(workspace.output), str(other)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "  task.system: '' -> 'Be brief.'" in ran.stdout
    assert f"rows in both {COUNT} | only in A 0 | only in B 0" in ran.stdout
    assert "A right and B wrong 1 | A wrong and B right 1" in ran.stdout
    assert "2 rows differ:" in ran.stdout

"""A run from beginning to end, the same command again, and what is on disk in between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["positive", "negative", "neutral"]},
        "stars_guessed": {"type": "integer"},
        "is_complaint": {"type": "boolean"},
        "topics": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["label", "stars_guessed", "is_complaint", "topics"],
    "additionalProperties": False,
}
COLUMNS = {
    "id": pa.string(),
    "label": pa.string(),
    "stars_guessed": pa.int64(),
    "is_complaint": pa.bool_(),
    "topics": pa.list_(pa.string()),
    "stars": pa.int64(),
    "output_text": pa.string(),
    "model": pa.string(),
    "finish_reason": pa.string(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "cached_tokens": pa.int64(),
    "cost_usd": pa.float64(),
    "attempts": pa.int64(),
    "latency_ms": pa.float64(),
    "run_id": pa.string(),
    "task_hash": pa.string(),
    "finished_at": pa.timestamp("ms", tz="UTC"),
}
COUNT = 300


def test_a_run_and_the_same_command_again(workspace: Any, mock: Any, runner: list[str]) -> None:
    server = mock("-latency", "2")
    rows = workspace.rows(COUNT)
    workspace.write_input(rows, files=3)
    workspace.configure(
        server.url,
        task={"schema": SCHEMA},
        input={"carry": ["stars"]},
        output={"rows_per_shard": 100},
        limits={"max_in_flight": 32},
    )

    first = workspace.run(*runner)

    assert first.code == 0, first.err
    assert first.counts == {"total": COUNT, "skipped": 0, "recovered": 0, "ok": COUNT, "failed": 0, "unprocessed": 0}
    results = pyarrow.dataset.dataset(workspace.output / "results", format="parquet")
    assert dict(zip(results.schema.names, results.schema.types, strict=True)) == COLUMNS
    assert workspace.ids() == [row["id"] for row in rows]
    stars = {row["id"]: row["stars"] for row in rows}
    assert all(row["stars"] == stars[row["id"]] and row["attempts"] == 1 for row in workspace.results())
    query = f"select count(*), count(distinct id), sum(prompt_tokens) from '{workspace.output}/results/*.parquet'"
    stats = server.stats()
    assert duckdb.sql(query).fetchall() == [(COUNT, COUNT, stats["prompt_tokens"])]

    account = workspace.account()
    assert account["status"] == "complete"
    assert account["calls"] == stats["calls"] == COUNT
    assert account["prompt_tokens"] == stats["prompt_tokens"]
    assert account["completion_tokens"] == stats["completion_tokens"]
    cost = (stats["prompt_tokens"] * 1 + stats["completion_tokens"] * 2) / 1e6
    assert account["cost_usd"] == pytest.approx(cost)
    assert not list(workspace.output.glob("journal/*"))
    assert not list(workspace.output.glob("staging/*"))
    assert not list(workspace.output.glob("**/*.part"))

    before = workspace.tree("results")
    again = workspace.run(*runner)

    assert again.code == 0, again.err
    assert again.counts == {"total": COUNT, "skipped": COUNT, "recovered": 0, "ok": 0, "failed": 0, "unprocessed": 0}
    assert server.calls() == COUNT
    assert workspace.tree("results") == before
    assert workspace.account()["calls"] == 0


def test_rows_that_are_added_later_to_jsonl(workspace: Any, own_server: Any) -> None:
    """Old files stay as they are, whatever the input's files are now, and only the new rows are called."""
    workspace.write_input(workspace.rows(50), files=5)
    workspace.configure(own_server.url, output={"format": "jsonl"})
    assert workspace.run().code == 0
    before = workspace.tree("results")

    workspace.write_input(workspace.rows(51)[::-1], files=2)
    ran = workspace.run()

    assert (ran.code, ran.counts["skipped"], ran.counts["ok"]) == (0, 50, 1)
    assert own_server.calls == 51
    assert workspace.ids() == [row["id"] for row in workspace.rows(51)]
    assert before.items() <= workspace.tree("results").items()
    query = f"select count(*), count(distinct id), min(label) from read_json('{workspace.output}/results/*.jsonl')"
    assert duckdb.sql(query).fetchall() == [(51, 51, "positive")]


def test_limit_is_a_first_look(workspace: Any, own_server: Any) -> None:
    workspace.write_input(workspace.rows(60), files=3)
    workspace.configure(own_server.url)

    look = workspace.run("--limit", "25")

    assert look.code == 0, look.err
    assert (look.counts["ok"], look.counts["unprocessed"]) == (25, 35)
    assert own_server.calls == 25
    assert workspace.account()["stop_reason"] == "limit"

    rest = workspace.run()

    assert rest.code == 0, rest.err
    assert (rest.counts["skipped"], rest.counts["ok"], rest.counts["unprocessed"]) == (25, 35, 0)
    assert set(own_server.requests.values()) == {1}
    assert workspace.ids() == [row["id"] for row in workspace.rows(60)]


def test_help_is_quick(workspace: Any) -> None:
    """It imports neither Beam nor Arrow, whose imports alone take longer than all the rest."""
    workspace.write_input([])
    ran = workspace.run("--help", python=["-X", "importtime"])
    imported = {line.rpartition("|")[2].strip() for line in ran.err.splitlines()}
    assert ran.code == 0
    assert "pipelines.options" in imported
    assert not {"apache_beam", "pyarrow", "numpy"} & imported
    for flag in ("--config", "--input", "--output", "--set", "--limit", "--retry", "--on-change"):
        assert flag in ran.out


def test_a_reader_that_goes_away_changes_nothing(workspace: Any, own_server: Any) -> None:
    """As with `2>&1 | head -1`: the lines are lost, the run and its exit code are not."""
    workspace.write_input(workspace.rows(5))
    workspace.configure(own_server.url)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pipelines.classify", "--config", str(workspace.config)]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=write, timeout=120)
    os.close(write)
    assert done.returncode == 0
    assert len(workspace.ids()) == 5

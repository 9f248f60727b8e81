"""`output.order: input`: results stand as their records do, over all shards of a run."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import pytest


def published(workspace: Any) -> list[list[str]]:
    """The ids in each result file, in the order of the files' names."""
    found = []
    for path in sorted(workspace.output.glob("results/*")):
        if path.suffix == ".parquet":
            found.append(pq.read_table(path).column("id").to_pylist())
        else:
            found.append([json.loads(line)["id"] for line in path.read_bytes().splitlines()])
    return found


def read_in_order(workspace: Any) -> list[str]:
    """The ids of the input, by file and position."""
    lines = (line for path in sorted(workspace.input.iterdir()) for line in path.read_text().splitlines())
    return [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
def test_results_stand_as_the_input(workspace: Any, mock: Any, runner: list[str], name: str) -> None:
    server = mock("-latency", "20")
    rows = workspace.rows(700)[::-1]
    workspace.write_input(rows, files=3)
    ids = [
        json.loads(line)["id"] for path in sorted(workspace.input.iterdir()) for line in path.read_text().splitlines()
    ]
    workspace.configure(server.url, output={"format": name, "rows_per_shard": 200, "order": "input"})

    ran = workspace.run(*runner)

    assert ran.code == 0, ran.err
    found = published(workspace)
    assert [len(shard) for shard in found] == [200, 200, 200, 100]
    assert [identifier for shard in found for identifier in shard] == ids
    assert set(workspace.results()[0]) == set(workspace.results()[-1])
    assert not any("place" in column for column in workspace.results()[0])


def test_what_was_cut_short_is_published_in_order_too(workspace: Any, mock: Any) -> None:
    server = mock("-latency", "20")
    workspace.write_input(workspace.rows(600), files=2)
    workspace.configure(server.url, output={"order": "input"})
    started = workspace.start()
    started.until(lambda: server.calls() >= 200, "some calls")
    started.kill()

    ran = workspace.run()

    assert ran.code == 0, ran.err
    assert ran.counts["recovered"] > 0
    ids = [
        json.loads(line)["id"] for path in sorted(workspace.input.iterdir()) for line in path.read_text().splitlines()
    ]
    for shard in published(workspace):
        assert shard == [identifier for identifier in ids if identifier in set(shard)]
    assert sorted(workspace.ids()) == sorted(ids)

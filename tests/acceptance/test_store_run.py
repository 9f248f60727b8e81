"""Whole runs whose input and output are on a store: S3, as moto serves it."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from typing import Any

import pyarrow.parquet
import pytest

COUNT = 500
IN_FLIGHT = 8
SECONDS = 0.5  # of a journal object


class Bucket:
    """The command with its input and output in a bucket."""

    def __init__(self, workspace: Any, s3: Any, runner: list[str]) -> None:
        self.workspace = workspace
        self.s3 = s3
        self.output = f"{s3.root}/team/out"
        self._runner = runner

    def prepare(self, url: str, files: int = 2, **sections: Any) -> None:
        """Writes the input and the configuration."""
        rows = self.workspace.rows(COUNT)
        for number in range(files):
            lines = "".join(json.dumps(row) + "\n" for row in rows[number::files])
            self.s3.put(f"in/part-{number:03d}.jsonl", lines.encode())
        self.s3.put("in/below/other.jsonl", b"not json\n")  # which in/* does not mean
        output = {"path": self.output, "journal_seconds": SECONDS, **sections.pop("output", {})}
        self.workspace.configure(
            url,
            input={"path": f"{self.s3.root}/in/*"},
            output=output,
            **{"limits": {"max_in_flight": IN_FLIGHT}, **sections},
        )

    def start(self, *flags: str) -> Any:
        return self.workspace.start(*self._runner, *flags, environment=self.s3.environment())

    def run(self, *flags: str) -> Any:
        return self.start(*flags).wait()

    def results(self) -> list[dict[str, Any]]:
        shards = [io.BytesIO(self.s3.get(key)) for key in self.s3.keys("team/out/results/")]
        return [row for shard in shards for row in pyarrow.parquet.read_table(shard).to_pylist()]

    def ids(self) -> list[str]:
        return sorted(row["id"] for row in self.results())

    def account(self) -> Any:
        return json.loads(self.s3.get(self.s3.keys("team/out/runs/")[-1]))

    def journal_lines(self) -> int:
        keys = [key for key in self.s3.keys("team/out/journal/") if key.endswith(".jsonl")]
        return sum(self.s3.get(key).count(b"\n") for key in keys)

    def left(self) -> list[str]:
        """What a finished run leaves beside results, failures and accounts."""
        kept = ("team/out/results/", "team/out/failures/", "team/out/runs/")
        return [key for key in self.s3.keys("team/out/") if not key.startswith(kept)]


@pytest.fixture
def bucket(workspace: Any, s3: Any, runner: list[str]) -> Bucket:
    return Bucket(workspace, s3, runner)


def all_ids(workspace: Any) -> list[str]:
    return [row["id"] for row in workspace.rows(COUNT)]


def test_a_whole_run_and_the_same_again(bucket: Bucket, workspace: Any, mock: Callable[..., Any]) -> None:
    server = mock("-latency", "5")
    bucket.prepare(server.url)

    ran = bucket.run()

    assert ran.code == 0, ran.err
    assert bucket.ids() == all_ids(workspace)
    assert server.calls() == COUNT
    assert bucket.left() == []
    before = {key: bucket.s3.get(key) for key in bucket.s3.keys("team/out/results/")}

    again = bucket.run()

    assert again.code == 0, again.err
    assert (again.counts["skipped"], again.counts["ok"]) == (COUNT, 0)
    assert server.calls() == COUNT
    assert {key: bucket.s3.get(key) for key in bucket.s3.keys("team/out/results/")} == before
    assert len(bucket.s3.keys("team/out/runs/")) == 2


def test_kills_cost_the_last_seconds_and_nothing_is_there_twice(
    bucket: Bucket, workspace: Any, mock: Callable[..., Any]
) -> None:
    server = mock("-latency", "40")
    bucket.prepare(server.url)
    for more in (1, 120, 140):
        wanted = server.calls() + more
        started = bucket.start()
        started.until(lambda wanted=wanted: server.calls() >= wanted, f"{more} more calls")
        started.kill()
        workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done with the calls of the dead run")

    ran = bucket.run()

    assert ran.code == 0, ran.err
    assert bucket.ids() == all_ids(workspace)
    assert bucket.left() == []
    assert bucket.account()["recovered"] > 0
    stats = server.stats()
    # 8 in flight at 40 ms are 200 rows a second, and a save may take as long again as it is waited for.
    per_kill = IN_FLIGHT + 200 * 2 * SECONDS
    assert stats["answered_prompts"] == COUNT
    assert stats["paid_twice_calls"] <= 3 * per_kill


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_in_the_middle(bucket: Bucket, workspace: Any, mock: Callable[..., Any], number: int) -> None:
    server = mock("-latency", "40")
    bucket.prepare(server.url)
    started = bucket.start()
    started.until(lambda: server.calls() >= 60, "60 calls")
    started.send(number)
    ran = started.wait()

    assert ran.code == 130, ran.err
    answered = server.stats()["answered_prompts"]
    account = bucket.account()
    assert (account["status"], account["stop_reason"]) == ("stopped", "interrupted")
    assert account["ok"] == answered == len(bucket.ids()) < COUNT
    assert bucket.left() == []

    rest = bucket.run()

    assert rest.code == 0, rest.err
    assert bucket.ids() == all_ids(workspace)
    assert (server.calls(), server.stats()["paid_twice_calls"]) == (COUNT, 0)

"""Output directories as runs leave them, made without running anything."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from transforms.layout import Layout
from transforms.llm.columns import columns
from transforms.records import utc
from transforms.rows import RunStamp, failure_row, result_schema
from transforms.write import Roll, ShardFormat

BEGUN = datetime(2026, 1, 31, 8, tzinfo=timezone.utc)
HASH = "0123456789abcdef"
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}


class Output:
    """An output directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layout = Layout(str(folder))
        self.page = folder / "report.html"
        self._runs = 0

    def run(
        self,
        results: Iterable[dict[str, Any]] = (),
        failures: Iterable[dict[str, Any]] = (),
        *,
        schema: dict[str, Any] | None = SCHEMA,
        format: str = "parquet",
        seconds: float = 60,
        **account: Any,
    ) -> str:
        """Adds a run with rows that came evenly over so many seconds. Returns its id."""
        begun = BEGUN + timedelta(hours=self._runs)
        self._runs += 1
        run_id = f"{begun:%Y%m%dT%H%M%S}-{self._runs:06x}"
        done = list(results)
        kinds = {} if schema is None else columns(schema)
        shards = ShardFormat(format, 100_000, result_schema(kinds, {"expected": pa.string()}))
        roll = Roll(shards, self.layout.results)
        for number, row in enumerate(done):
            at = begun.timestamp() + seconds * (number + 1) / len(done)
            roll.write({**_RESULT, "id": f"{run_id}-{number}", "run_id": run_id, "finished_at": utc(at), **row})
        roll.close()
        failed = []
        for number, row in enumerate(failures):
            known = {"id": f"{run_id}-f{number}", "reason": "timeout", "message": "no", "input": {}, "source": {}}
            failed.append({**failure_row(RunStamp(run_id, HASH), **{**known, **row}), "failed_at": utc(at_end(begun))})
        if failed:
            path = Path(self.layout.failures) / f"{run_id}-00000-of-00001.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in failed))
        values = {
            "run_id": run_id,
            "status": "complete",
            "stop_reason": None,
            "total": len(done) + len(failed),
            **dict.fromkeys(("skipped", "recovered", "unprocessed", "cost_unknown_rows", "maybe_billed_attempts"), 0),
            "ok": len(done),
            "failed": len(failed),
            "calls": len(done) + len(failed),
            "prompt_tokens": 20 * len(done),
            "completion_tokens": 5 * len(done),
            "cost_usd": 0.001 * len(done),
            "price": None,
            "failures_by_reason": {},
            "notes": {},
            "started_at": utc(begun.timestamp()),
            "finished_at": utc(begun.timestamp() + seconds),
            "config": {"task": {"name": "sentiment", "schema": schema}, "input": {}, "model": {"name": "m-1"}},
            "task_hash": HASH,
            "task": {"task.prompt": "{text}"},
        }
        path = Path(self.layout.account(run_id))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**values, **account}))
        return run_id


_RESULT = {
    "output_text": "{}",
    "model": "m-1",
    "finish_reason": "stop",
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "cost_usd": 0.001,
    "attempts": 1,
    "latency_ms": 120.0,
    "task_hash": HASH,
}


def at_end(begun: datetime) -> float:
    """A time within a run."""
    return begun.timestamp() + 30


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "out")


@pytest.fixture
def rich_output(output: Output) -> Output:
    """Three runs of everything that the page can show, nasty texts included."""
    draw = random.Random(1)
    labels = ["positive", "negative", "</script><b>bold</b>", "תווית מימין", "🎁" * 8, "x" * 300, *map(str, range(20))]
    schema = {
        "type": "object",
        "properties": {
            "label": {"type": "string"},
            "sure": {"type": "boolean"},
            "stars": {"type": "integer"},
            "score": {"type": "number"},
            "summary": {"type": "string"},
            "topics": {"type": "array", "items": {"type": "string"}},
        },
    }
    config = {
        "task": {"name": "sentiment", "schema": schema, "expected": "label"},
        "input": {},
        "model": {"name": "a model " * 12},
    }

    def results(count: int) -> list[dict[str, Any]]:
        return [
            {
                "label": draw.choice(labels[:7]) if draw.random() < 0.2 else (right := draw.choice(labels)),
                "expected": right if number else None,
                "sure": draw.random() < 0.8,
                "stars": draw.randint(1, 5),
                "score": draw.random(),
                "summary": f"text of its own {draw.random()}",
                "topics": ["a", "b"],
                "latency_ms": draw.lognormvariate(6, 0.5),
                "prompt_tokens": int(draw.lognormvariate(6, 0.7)),
                "completion_tokens": 7,
                "attempts": 1 + (number % 9 == 0),
            }
            for number in range(count)
            if (right := draw.choice(labels))
        ]

    nasty = {"text": "<img src=x onerror=alert(1)> \ud800 \x00 " * 20}
    for count, status, reason in (
        (200, "stopped", "interrupted"),
        (100, "failed", "<i>disk</i> full"),
        (700, "complete", None),
    ):
        failures = [
            {"reason": "invalid_json", "message": "sk-abcdefghijklmnop1234 <b>", "input": nasty, "attempts": 1},
            {"reason": "timeout", "retryable": True, "input": nasty, "attempts": 2},
            {"id": None, "reason": "bad_id", "input": "no object"},
        ]
        output.run(
            results(count),
            failures,
            schema=schema,
            status=status,
            stop_reason=reason,
            config=config,
            notes={"json_schema refused": 1},
            maybe_billed_attempts=2,
        )
    return output

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from transforms.results import result_batches
from transforms.rows import result_schema
from transforms.write import Roll, ShardFormat

SCHEMA = result_schema({"label": pa.string()}, {})
ROW = {"id": "a", "label": "x", "cost_usd": 0.5, "latency_ms": 3.0, "finished_at": "2026-01-31T08:00:00.000Z"}


@pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
def test_each_format_gives_the_same_columns(tmp_path: Path, name: str) -> None:
    roll = Roll(ShardFormat(name, 100, None if name == "jsonl" else SCHEMA), str(tmp_path))
    for number in range(3):
        roll.write({**ROW, "id": str(number)})
    roll.close()

    (batch,) = result_batches(roll.finished[0].path, ["finished_at", "id", "absent", "label", "prompt_tokens"])

    assert batch.schema.names == ["finished_at", "id", "absent", "label", "prompt_tokens"]
    assert batch.schema.field("finished_at").type == pa.timestamp("ms", tz="UTC")
    assert batch.schema.field("prompt_tokens").type == pa.int64()
    assert batch.column("finished_at").to_pylist()[0].isoformat() == "2026-01-31T08:00:00+00:00"
    assert batch.column("id").to_pylist() == ["0", "1", "2"]
    assert batch.column("label").to_pylist() == ["x"] * 3
    assert batch.column("absent").to_pylist() == [None] * 3

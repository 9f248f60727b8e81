from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from transforms.bins import Bins
from transforms.csv_file import CsvWriter
from transforms.frequencies import Frequencies
from transforms.layout import Layout
from transforms.published import Published
from transforms.rows import result_schema
from transforms.statistics import Statistics
from transforms.statistics import collect as collect_published

PROPERTIES: dict[str, Any] = {
    "label": {"type": "string"},
    "sure": {"type": "boolean"},
    "stars": {"type": "integer"},
    "score": {"type": "number"},
    "topics": {"type": "array", "items": {"type": "string"}},
    "place": {"type": "object", "properties": {"x": {"type": "integer"}}},
}
CONFIG = {"task": {"schema": {"type": "object", "properties": PROPERTIES}, "expected": "label"}}
KINDS = {
    "label": pa.string(),
    "sure": pa.bool_(),
    "stars": pa.int64(),
    "score": pa.float64(),
    "topics": pa.list_(pa.string()),
    "place": pa.struct([("x", pa.int64())]),
}
SCHEMA = result_schema(KINDS, {"expected": pa.string()})
RUN, EARLIER = "20260101T000000-abcdef", "20251231T000000-abcdef"


def collect(layout: Layout, config: dict[str, Any], runs: list[str]) -> Statistics:
    return collect_published(Published.of(layout, {"config": config}), config, runs)


@pytest.fixture(params=["parquet", "jsonl", "csv"])
def output(request: Any, tmp_path: Path, make: Any) -> Layout:
    """Three results, of which one is of an earlier run, and three failures."""
    answer = {"sure": True, "stars": 4, "score": 0.5, "topics": ["t"], "place": {"x": 1}}
    rows = [
        make.result("a", label="x", expected="x", latency_ms=100.0, finished_at="2026-01-01T00:00:01.000Z", **answer),
        make.result("b", label="x", expected="y", latency_ms=1000.0, finished_at="2026-01-01T00:00:03.000Z", **answer),
        make.result("c", label="y", expected=None, latency_ms=None, cost_usd=None, run_id=EARLIER, **answer),
    ]
    if request.param == "parquet":
        schema, columns = SCHEMA, SCHEMA.names
        table = [{name: row.get(name) for name in columns if name != "finished_at"} for row in rows]
        arrays = [
            pa.array([row["finished_at"] for row in rows]).cast(field.type)
            if field.name == "finished_at"
            else pa.array([row[field.name] for row in table], field.type)
            for field in schema
        ]
        path = tmp_path / "results" / "r.parquet"
        path.parent.mkdir()
        pa.parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    elif request.param == "csv":
        writer = CsvWriter(str(tmp_path / "results" / "r.csv"), SCHEMA.names, escape=True)
        for row in rows:
            writer.write(row)
        writer.close()
    else:
        make.jsonl(tmp_path / "results" / "r.jsonl", rows)
    failures = [
        make.failure("d", cost_usd=0.5),
        make.failure("e", "invalid_json"),
        make.failure(None, "bad_id", attempts=0),
    ]
    make.jsonl(tmp_path / "failures" / "f.jsonl", failures)
    return Layout(str(tmp_path))


def test_the_figures_by_hand(output: Layout) -> None:
    found = collect(output, CONFIG, [EARLIER, RUN])

    assert (found.ok, found.failed) == (3, 3)
    assert found.cost_usd == pytest.approx(0.25 + 0.25 + 0.5)
    assert found.cost_unknown == 2  # c, and e, which was called
    assert 10 ** (found.latency.quantile(0.5) or 0) == pytest.approx(100, rel=0.005)
    assert 10 ** (found.latency.quantile(1.0) or 0) == pytest.approx(1000, rel=0.005)
    assert (found.prompt.quantile(0.5), found.completion.quantile(0.5), found.attempts.count) == (20, 5, 3)
    assert found.models.top(2) == [("m-1", 3)]
    tops = {name: each.top(3) for name, each in found.answers.items() if isinstance(each, Frequencies)}
    assert tops == {"label": [("x", 2), ("y", 1)], "sure": [("true", 3)], "topics": [("t", 3)]}
    bins = {name: (each.count, each.largest) for name, each in found.answers.items() if isinstance(each, Bins)}
    assert bins == {"stars": (3, 4.0), "score": (3, 0.5)}
    assert {each.reason: (each.rows, each.retryable) for each in found.reasons.ordered()} == {
        "timeout": (1, 1),
        "invalid_json": (1, 0),
        "bad_id": (1, 0),
    }
    assert (found.confusion.counts, found.confusion.unlabelled) == ({("x", "x"): 1, ("y", "x"): 1}, 1)


def test_rows_and_dollars_of_each_run_by_time(output: Layout) -> None:
    found = collect(output, CONFIG, [EARLIER, RUN])
    last = found.timelines[RUN]
    assert (last.ok.count, last.failed.count, found.timelines[EARLIER].ok.count) == (2, 3, 1)
    assert last.ok.largest - last.ok.smallest == 2000
    assert last.ok.sums(0).sum() == 0.5
    assert last.failed.sums(0).sum() == 0.5
    assert (found.untimed_ok, found.untimed_failed, found.untimed_usd) == (0, 0, 0)


def test_rows_of_runs_that_nobody_knows_count_all_the_same(output: Layout) -> None:
    found = collect(output, CONFIG, ["20270101T000000-ffffff"])
    assert (found.untimed_ok, found.untimed_failed) == (3, 3)
    assert found.untimed_usd == pytest.approx(found.cost_usd)


def test_only_a_few_failures_of_a_reason_are_kept(make: Any) -> None:
    found = Statistics({}, [])
    found.add_failures([make.failure(str(number)) for number in range(20)])
    [timeout] = found.reasons.ordered()
    assert timeout.rows == 20
    assert [row["id"] for row in timeout.examples] == ["0", "1", "2"]


def test_answers_to_an_earlier_task_are_left_out_where_they_are_of_another_kind(make: Any, tmp_path: Path) -> None:
    make.jsonl(tmp_path / "results" / "1.jsonl", [make.result("a", label={"old": 1}, stars="four")])
    make.jsonl(tmp_path / "results" / "2.jsonl", [make.result("b", label="x", stars=4)])
    found = collect(Layout(str(tmp_path)), CONFIG, [])
    label, stars = found.answers["label"], found.answers["stars"]
    assert isinstance(label, Frequencies)
    assert label.top(3) == [("x", 1)]
    assert isinstance(stars, Bins)
    assert stars.count == 1


def test_a_file_that_is_none_is_named(tmp_path: Path, make: Any) -> None:
    make.jsonl(tmp_path / "failures" / "f.jsonl", [{"id": "a"}])
    with pytest.raises(ValueError, match=r"f\.jsonl, line 1: no row of a failure"):
        collect(Layout(str(tmp_path)), {}, [])


def test_no_output_at_all(tmp_path: Path) -> None:
    found = collect(Layout(str(tmp_path)), CONFIG, [])
    assert (found.ok, found.failed, found.latency.count, found.confusion.rows) == (0, 0, 0, 0)

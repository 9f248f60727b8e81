"""`python -m pipelines.compare`, on results that are written here."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.compare import main
from transforms.rows import result_schema
from transforms.shards import Roll, ShardFormat

Rows = list[dict[str, Any]]
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}, "score": {"type": "integer"}}}
ANSWERS = {"label": pa.string(), "score": pa.int64()}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an output with results in shards of two rows, and its account."""

    def make(
        name: str, rows: Rows, format: str = "parquet", account: bool = True, schema: Any = SCHEMA, **task: Any
    ) -> Path:
        out = tmp_path / name
        answers = ANSWERS if schema else {}
        columns = result_schema(answers, {"text": pa.string()}, expected="expected" in task)
        roll = Roll(ShardFormat(format, 2, columns if format == "parquet" else None), str(out / "results"))
        for row in rows:
            usual = {"output_text": "t", "prompt_tokens": 10, "completion_tokens": 2, "latency_ms": 100.0}
            roll.write({**usual, "text": f"text of {row['id']}", "cost_usd": 0.001, **row})
        roll.close()
        for number, staged in enumerate(roll.finished):
            target = out / "results" / f"20260101T000000-a-{number:05d}-of-00009.{format}"
            Path(staged.path).rename(target)
        if account:
            (out / "runs").mkdir()
            config = {
                "task": {"schema": schema, **task},
                "input": {"carry": ["text"]},
                "model": {"name": f"model-{name}"},
            }
            known = {"task": {"task.prompt": f"Prompt {name}"}, "config": config}
            (out / "runs" / "20260101T000000-a.json").write_text(json.dumps(known))
        return out

    return make


def rows(labels: str, expected: str | None = None) -> Rows:
    """A row for each letter, which is its label."""
    names = {"p": "positive", "n": "negative", "-": None}
    said = expected or "-" * len(labels)
    return [
        {"id": f"r{at}", "label": names[label], "score": at, **({"expected": names[said[at]]} if expected else {})}
        for at, label in enumerate(labels)
    ]


@pytest.mark.parametrize(("format_a", "format_b"), [("parquet", "parquet"), ("jsonl", "parquet"), ("jsonl", "jsonl")])
def test_two_outputs(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], format_a: str, format_b: str
) -> None:
    of_a, of_b = rows("ppnnp-", "ppnpp-"), rows("pnnpp-", "ppnpp-")
    of_b[2].update(cost_usd=None, latency_ms=None)
    more = [{"id": "only-b", "label": "positive", "score": 1}]
    a = write("a", of_a, format_a, expected="label")
    b = write("b", more + of_b[::-1], format_b, expected="label")

    assert main([str(a), str(b)]) == 0

    shown, errors = capsys.readouterr()
    assert errors == ""
    lines = shown.splitlines()
    assert lines[:5] == [
        f"A: {a} (6 results, model model-a)",
        f"B: {b} (7 results, model model-b)",
        "from A to B the task changed:",
        "  task.prompt: 'Prompt a' -> 'Prompt b'",
        "rows in both 6 | only in A 0 | only in B 1",
    ]
    table = [line.split() for line in lines]
    assert ["label", "5", "3", "60.0", "%", "0.167"] in table
    assert ["score", "6", "6", "100", "%", "1.000"] in table
    assert "A is right in 4 of 5 (80.0 %)" in lines
    assert "B is right in 4 of 5 (80.0 %)" in lines
    assert "A right and B wrong 1 | A wrong and B right 1 | McNemar's exact test: p = 1" in lines
    assert ["cost", "$0.0060", "$0.0050", "(1", "not", "known)"] in table
    assert ["prompt", "tokens", "60", "60"] in table
    assert ["latency,", "median", "100", "ms", "100", "ms", "(1", "not", "known)"] in table
    at = lines.index("2 rows differ:")
    assert table[at + 1] == ["id", "a_label", "b_label", "a_score", "b_score", "expected", "text"]
    assert table[at + 2] == ["r1", "positive", "negative", "1", "1", "positive", "text", "of", "r1"]
    assert table[at + 3] == ["r3", "negative", "positive", "3", "3", "positive", "text", "of", "r3"]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_all_that_differ_are_written(write: Any, tmp_path: Path, ending: str) -> None:
    count = 25
    a = write("a", [{"id": f"x{n}", "label": f'say "{n}"\n', "score": n} for n in range(count)])
    b = write("b", [{"id": f"x{n}", "label": f"b{n}" if n else None, "score": n} for n in reversed(range(count))])
    target = tmp_path / f"changed.{ending}"
    assert main([str(a), str(b), "--write", str(target)]) == 0
    if ending == "jsonl":
        found = [json.loads(line) for line in target.read_text().splitlines()]
    elif ending == "csv":
        with target.open(newline="", encoding="utf-8") as stream:
            found = [{key: value or None for key, value in row.items()} for row in csv.DictReader(stream)]
    else:
        found = pq.read_table(target).to_pylist()
    assert found == [
        {
            "id": f"x{n}",
            "a_label": f'say "{n}"\n',
            "b_label": f"b{n}" if n else None,
            "a_score": str(n),
            "b_score": str(n),
            "expected": None,
            "text": f"text of x{n}",
        }
        for n in range(count)
    ]
    assert main([str(a), str(b), "--write", str(target)]) == 2  # a file that is there is not replaced


def test_more_than_twenty_are_not_shown(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write("a", rows("p" * 30)), write("b", rows("n" * 30))
    assert main([str(a), str(b)]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("30 rows differ, the first 20:")
    assert len(lines) == at + 22


def test_the_same_results(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a", rows("pn"))
    assert main([str(a), str(a)]) == 0
    shown = capsys.readouterr().out
    assert "the same task" in shown
    assert "no row differs" in shown
    assert "right" not in shown


def test_what_is_right_for_one_is_right_for_both(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write("a", rows("ppn")), write("b", rows("pnn", "pnn"), expected="label")
    assert main([str(a), str(b)]) == 0
    shown = capsys.readouterr().out
    assert "A is right in 2 of 3 (66.7 %)" in shown
    assert "B is right in 3 of 3 (100 %)" in shown


def test_texts_without_a_schema(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [{"id": "a", "output_text": "Yes.\n"}, {"id": "b", "output_text": "\x1b[2JNo"}]
    a = write("a", texts, schema=None)
    b = write("b", [{"id": "a", "output_text": "Yes."}, {"id": "b", "output_text": "no"}], schema=None)
    assert main([str(a), str(b)]) == 0
    shown = capsys.readouterr().out
    assert ["output_text", "2", "1", "50.0", "%"] in [line.split()[:5] for line in shown.splitlines()]
    assert "1 row differs:" in shown
    assert "\x1b" not in shown


def test_without_accounts(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (write(name, rows("pn"), account=False) for name in "ab")
    assert main([str(a), str(b)]) == 0
    assert "the tasks are not known" in capsys.readouterr().out


def test_what_cannot_be_compared(write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a", rows("pn"))
    other = write("other", [{"id": "z", "label": "positive"}])
    texts = write("texts", [{"id": "r0"}], schema=None)
    empty = tmp_path / "empty"
    (empty / "results").mkdir(parents=True)
    torn = write("torn", rows("pn"), "jsonl")
    torn_shard = next((torn / "results").iterdir())
    with torn_shard.open("a") as stream:
        stream.write('{"id": "r9"\n')
    damaged = write("damaged", rows("pn"))
    damaged_shard = next((damaged / "results").iterdir())
    damaged_shard.write_bytes(damaged_shard.read_bytes()[:-10])
    account = write("account", rows("pn"))
    (account / "runs" / "20260101T000000-a.json").write_text("{")
    capsys.readouterr()
    for given, named in [
        (["nowhere", str(a)], "nowhere holds no output of a run: there is no such directory"),
        ([str(a)], "OUT_B"),
        ([str(a), str(empty)], f"{empty}: there are no results"),
        ([str(a), str(texts)], "no answer column in common"),
        ([str(a), str(other)], "no id in common"),
        ([str(a), str(torn)], f"{torn_shard}, line 3: "),
        ([str(a), str(damaged)], str(damaged_shard)),
        ([str(account), str(a)], "20260101T000000-a.json: cannot be read"),
        ([str(a), str(a), "--write", "x.xlsx"], ".jsonl, .csv, .parquet"),
        ([str(a), str(a), "--write", f"{a}/results/x.csv"], "among the files of a run"),
    ]:
        assert main(given) == 2, given
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("paidonce: ")
        assert named in line

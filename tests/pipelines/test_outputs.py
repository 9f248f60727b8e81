"""The commands that only read, on outputs in every place and format; and their common frame."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines import compare, failures, right, watch
from pipelines.report import __main__ as report
from transforms.layout import Layout
from transforms.llm.columns import columns
from transforms.rows import RunStamp, failure_row, result_schema
from transforms.shards import Roll, ShardFormat
from transforms.table import Tables, table_spec
from transforms.write_table import TableWriter

RUN = "20260101T000000-abcdef"
PROPERTIES = {"stars": {"type": "number"}, "sure": {"type": "boolean"}, "topics": {"type": "array", "items": {}}}
PLACES = ["parquet", "jsonl", "csv", "sqlite"]
NAMES = ["report", "watch", "compare", "failures"]

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an output whose answers are `stars`, beside what is right, and one failure."""

    def make(name: str, place: str, stars: list[float | None], expected: list[str | None]) -> Path:
        if place == "sqlite":
            pytest.importorskip("sqlalchemy")
        out = tmp_path / name
        task = {"name": "t", "schema": {"type": "object", "properties": PROPERTIES}, "expected": "stars"}
        schema = result_schema(columns(task["schema"]), {}, expected=True)
        table = f"sqlite:///{tmp_path}/{name}.sqlite#labels" if place == "sqlite" else None
        usual = {"output_text": "t", "model": "m-1", "attempts": 1, "run_id": RUN, "latency_ms": 1.5, "task_hash": "h"}
        usual["finished_at"] = "2026-01-01T00:00:01.000Z"
        rows = [
            {**usual, "id": f"r{at}", "stars": given, "sure": at == 0, "topics": [f"topic {at}"], "expected": said}
            for at, (given, said) in enumerate(zip(stars, expected, strict=True))
        ]
        failed = failure_row(
            RunStamp(RUN, "h"), id="f", reason="invalid_json", message="no", input={"id": "f"}, source={}, attempts=1
        )
        if table is None:
            roll = Roll(ShardFormat(place, 100, schema), str(out / "results"))
            _fill(roll, rows)
            Path(roll.finished[0].path).rename(out / "results" / f"{RUN}-00000-of-00001.{place}")
            (out / "failures").mkdir()
            (out / "failures" / f"{RUN}-00000-of-00001.jsonl").write_text(json.dumps(failed) + "\n")
        else:
            spec = table_spec(table, schema)
            tables = Tables(spec, write=True)
            tables.create()
            tables.close()
            for kind, some in (("ok", rows), ("failed", [failed])):
                writer = TableWriter(spec, kind)
                _fill(writer, some)
                writer.disconnect()
        counts = dict.fromkeys(("total", "skipped", "recovered", "unprocessed", "calls", "maybe_billed_attempts"), 0)
        account = {
            **counts,
            "run_id": RUN,
            "ok": len(rows),
            "failed": 1,
            "status": "complete",
            "stop_reason": None,
            "notes": {},
            **dict.fromkeys(("cost_usd", "prompt_tokens", "completion_tokens")),
            "failures_by_reason": {"invalid_json": 1},
            "started_at": "2026-01-01T00:00:00.000Z",
            "finished_at": "2026-01-01T00:00:02.000Z",
            "config": {
                "task": task,
                "input": {"carry": []},
                "output": {"table": table, "format": place},
                "model": {"name": "m-1", "provider": "openai"},
            },
            "task": {"task.prompt": "{text}"},
            "task_hash": "h",
            "command": "python -m pipelines.classify --limit 3",
        }
        (out / "runs").mkdir(parents=True)
        (out / "runs" / f"{RUN}.json").write_text(json.dumps(account))
        return out

    return make


def _fill(writer: Any, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        writer.write(row)
    writer.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    shown, errors = capsys.readouterr()
    assert errors == ""
    return shown.splitlines()


@pytest.mark.parametrize("place", PLACES)
def test_terminal_report_and_comparison_agree_on_what_is_right(
    write: Write, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 is 5.0, a null answer is wrong, and a row of which nobody says what is right counts nowhere."""
    out = write("a", place, [5.0, 4.0, None, 3.5, 1.0], ["5", "4.0", "2", " 3.50 ", None])
    account = json.loads((out / "runs" / f"{RUN}.json").read_text())

    right.print_right(account, Layout(str(out)))
    assert lines(capsys) == ["right: 3 of 4 that say what is right (75.0 %) | 1 do not"]

    assert report.main([str(out)]) == 0
    page = (out / "report.html").read_text()
    assert '<p class="figure">75.0 %</p>' in page
    assert "3 of 4 answers are the expected ones. 1 answers without" in page
    assert ">1</dd>" in page  # failed
    lines(capsys)

    assert compare.main([str(out), str(out)]) == 0
    assert "A is right in 3 of 4 (75.0 %)" in lines(capsys)


@pytest.mark.parametrize("place", PLACES)
def test_numbers_and_booleans_are_counted_as_such(write: Write, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = write("a", place, [5.0, 4.5], ["5", "5"])
    assert report.main([str(out)]) == 0
    page = (out / "report.html").read_text()
    assert "median 4.5, from 4.5 to 5" in page  # a histogram of stars
    for label in ("true", "false", "topic 0"):
        assert f"<bdi>{label}</bdi>" in page


@pytest.mark.parametrize("place_b", PLACES)
@pytest.mark.parametrize("place_a", ["csv", "sqlite"])
def test_outputs_in_two_places_are_compared(
    write: Write, tmp_path: Path, place_a: str, place_b: str, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write("a", place_a, [5.0, 4.0, 2.0], ["5", "4", "1"])
    b = write("b", place_b, [5.0, 3.0, 2.0], ["5", "4", "1"])
    assert compare.main([str(a), str(b), "--write", str(tmp_path / "differ.jsonl")]) == 0
    shown = lines(capsys)
    assert ["stars", "3", "2", "66.7", "%", "0.571"] in [line.split() for line in shown]
    assert ["sure", "3", "3", "100", "%", "1.000"] in [line.split() for line in shown]
    assert "1 row differs:" in shown
    [row] = [json.loads(line) for line in (tmp_path / "differ.jsonl").read_text().splitlines()]
    assert (row["id"], float(row["a_stars"]), float(row["b_stars"])) == ("r1", 4.0, 3.0)


@pytest.mark.parametrize("place", PLACES)
def test_failures_are_read_wherever_they_are(
    write: Write, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = write("a", place, [5.0], ["5"])
    assert failures.main([str(out), "--write", str(tmp_path / "rows.jsonl"), "--ids", str(tmp_path / "ids")]) == 0
    shown = lines(capsys)
    assert [line.split()[:4] for line in shown[1:2]] == [["invalid_json", "1", "if", "asked"]]
    assert "  python -m pipelines.classify --retry-reason=invalid_json" in shown
    assert (tmp_path / "rows.jsonl").read_text() == '{"id":"f"}\n'
    assert (tmp_path / "ids").read_text() == '"f"\n'


@pytest.mark.parametrize("place", PLACES)
def test_watch_shows_where_the_last_run_left_it(write: Write, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = write("a b", place, [5.0], ["5"])
    assert watch.main([str(out)]) == 0
    shown = lines(capsys)
    where = f"sqlite:///{out}.sqlite#labels" if place == "sqlite" else f"{out}/results (1 file)"
    assert f"results:  {where}" in shown
    assert f"reasons:  python -m pipelines.failures '{out}'" in shown


def test_a_database_that_is_gone_is_one_line(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = write("a", "sqlite", [5.0], ["5"])
    (tmp_path / "a.sqlite").unlink()
    for command in (report.main, failures.main, lambda argv: compare.main([*argv, *argv])):
        assert command([str(out)]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert f"sqlite:///{tmp_path}/a.sqlite" in line
    assert not (tmp_path / "a.sqlite").exists()
    right.print_right(json.loads((out / "runs" / f"{RUN}.json").read_text()), Layout(str(out)))
    assert capsys.readouterr().err.startswith("how many answers are right is not known: database sqlite:///")


@pytest.mark.parametrize("name", NAMES)
def test_help_is_quick_and_of_one_kind(name: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", f"pipelines.{name}", "--help"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert not {"apache_beam", "pyarrow", "numpy", "jinja2", "sqlalchemy"} & imported
    assert done.stdout.startswith(f"usage: python -m pipelines.{name} ")
    assert "\nexit codes: 0 " in done.stdout


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--unheard"], "--help shows how it is used"), (["{tmp}/no"], "there is no such directory")],
)
def test_mistakes_are_one_line(
    name: str, arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = {"report": report, "watch": watch, "compare": compare, "failures": failures}[name]
    given = [part.format(tmp=tmp_path) for part in arguments]
    assert module.main(given * (2 if name == "compare" else 1)) == 2
    shown, errors = capsys.readouterr()
    [line] = errors.splitlines()
    assert shown == ""
    assert line.startswith("paidonce: ")
    assert named in line

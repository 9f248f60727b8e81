"""Several records a call, and the same request paid once: fewer calls, every row its answer, every cent known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Row = dict[str, Any]
REVIEWS = "product_reviews.jsonl"


@pytest.fixture(scope="module")
def reviews() -> list[Row]:
    """3,708 real sentences, of ../shared/data."""
    from pathlib import Path

    path = Path(__file__).resolve().parents[3] / "shared" / "data" / REVIEWS
    if not path.is_file():
        pytest.skip(f"the reviews are not there: {path}")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def prepare(workspace: Any, server: Any, rows: Iterable[Row], k: int, **model: Any) -> None:
    workspace.write_input(rows, files=2)
    system = "Classify the sentiment of the review as positive, negative or neutral. Reply in JSON."
    task = {"system": system, "prompt": "Review: {text}", "records_per_call": k}
    workspace.configure(server.url, task=task, model=model)


def check_sums(workspace: Any, server: Any) -> None:
    """The rows, the account and the server's bill are one and the same."""
    stats, account, rows = server.stats(), workspace.account(), [*workspace.results(), *workspace.failures()]
    for name in ("prompt_tokens", "completion_tokens"):
        assert sum(row[name] or 0 for row in rows) == account[name] == stats[name]
    bill = (stats["prompt_tokens"] + 2 * stats["completion_tokens"]) / 1e6
    assert account["cost_usd"] == pytest.approx(bill, abs=1e-9)
    assert sum(row["cost_usd"] or 0 for row in rows) == pytest.approx(bill, abs=1e-9)
    assert sum(row["attempts"] for row in rows) == account["calls"] == stats["calls"]


def test_ten_a_call(workspace: Any, mock: Any, reviews: list[Row]) -> None:
    server = mock()
    prepare(workspace, server, reviews, 10)
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert workspace.ids() == sorted(row["id"] for row in reviews)
    assert 8 * server.calls() <= len(reviews)
    assert {row["label"] for row in workspace.results()} == {"positive", "negative", "neutral"}
    check_sums(workspace, server)
    assert server.stats()["prompt_tokens"] / len(reviews) < 40  # alone they take 50

    again = workspace.run()
    assert again.counts["skipped"] == len(reviews)
    assert 8 * server.calls() <= len(reviews)


def test_on_another_engine(workspace: Any, mock: Any, runner: list[str]) -> None:
    server = mock("-poison", "number 7 ")
    rows = workspace.rows(200)
    rows[33] |= {"text": "poison: number 7 "}
    for row in rows[100:140]:
        row["text"] = "All of us say the same."
    prepare(workspace, server, rows, 5, parameters={"temperature": 0})
    ran = workspace.run(*runner)
    assert ran.code == 0, ran.err
    assert workspace.ids() == sorted(row["id"] for row in rows if row is not rows[33])
    assert [row["id"] for row in workspace.failures()] == ["r00033"]
    assert sum(row["shared_from"] is not None for row in workspace.results()) >= 38  # 39 in one process
    assert server.calls() < 60
    check_sums(workspace, server)


def test_only_the_records_at_fault_fail(workspace: Any, mock: Any, reviews: list[Row]) -> None:
    """One in a hundred is refused by the provider's filter, whoever it is sent with."""
    server = mock("-poison", "<poison>")
    rows = [{**row, "text": row["text"] + " <poison>" * (at % 100 == 50)} for at, row in enumerate(reviews)]
    prepare(workspace, server, rows, 10)
    ran = workspace.run()
    assert ran.code == 0, ran.err
    bad = sorted(row["id"] for row in rows if "<poison>" in row["text"])
    assert len(bad) == 37
    assert sorted(row["id"] for row in workspace.failures()) == bad
    assert {(row["reason"], row["retryable"]) for row in workspace.failures()} == {("content_filter", False)}
    assert len(workspace.ids()) == len(rows) - len(bad)
    assert server.calls() < len(rows) / 4
    check_sums(workspace, server)


def test_answers_that_are_no_json_are_paid_and_asked_again(workspace: Any, mock: Any, reviews: list[Row]) -> None:
    server = mock("-garbage-rate", "0.1", "-fail-rate", "0.1", "-fail-times", "1")
    prepare(workspace, server, reviews[:1000], 10)
    workspace.configure(
        server.url, task={"prompt": "{text}", "records_per_call": 10, "on_invalid": "retry"}, limits={"max_attempts": 9}
    )
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert len(workspace.ids()) + len(workspace.failures()) == 1000
    assert workspace.account()["notes"]["asked_apart"] > 0
    check_sums(workspace, server)


def test_killed_in_the_middle(workspace: Any, mock: Any, runner: list[str]) -> None:
    """What is paid twice are at most the calls under way, of ten records each."""
    server, in_flight = mock("-latency", "50"), 8
    rows = workspace.rows(1000)
    prepare(workspace, server, rows, 10)
    started = workspace.start(*runner)
    started.until(lambda: server.calls() >= 30, "30 calls")
    started.kill()
    workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done with the calls of the dead run")
    calls, kept = server.calls(), workspace.journal_lines()
    assert 10 * (calls - in_flight) <= kept <= 10 * calls

    ran = workspace.run(*runner)
    assert ran.code == 0, ran.err
    assert workspace.ids() == [row["id"] for row in rows]
    assert workspace.account()["recovered"] == kept
    left = len(rows) - kept
    assert left // 10 <= server.calls() - calls <= left // 10 + 10  # and a rest at each bundle's end


def test_identical_texts_are_paid_once(workspace: Any, mock: Any, reviews: list[Row]) -> None:
    """A fifth of the rows says what another says."""
    server = mock("-latency", "5", "-echo")
    different = list({row["text"]: row for row in reviews}.values())[:1600]
    rows = [{**row, "id": f"n{at}"} for at, row in enumerate(different)]
    rows += [{**rows[4 * at], "id": f"s{at}"} for at in range(400)]
    prepare(workspace, server, rows, 1, parameters={"temperature": 0})
    ran = workspace.run("--set", "task.schema=null")
    assert ran.code == 0, ran.err
    assert server.calls() == 1600
    assert workspace.account()["notes"]["shared"] == 400
    found = {row["id"]: row for row in workspace.results()}
    assert len(found) == 2000
    for at in range(400):
        pair = found[f"s{at}"], found[f"n{4 * at}"]
        assert pair[0]["output_text"] == pair[1]["output_text"]
        assert {pair[0]["shared_from"], pair[1]["shared_from"]} in ({None, f"n{4 * at}"}, {None, f"s{at}"})
    check_sums(workspace, server)


def test_asked_each_time_where_answers_may_differ(workspace: Any, mock: Any) -> None:
    server = mock()
    prepare(workspace, server, [{"id": str(at), "text": "the same"} for at in range(20)], 1)
    assert workspace.run().code == 0
    assert server.calls() == 20
    assert "shared_from" not in workspace.results()[0]


def test_limit_is_exact(workspace: Any, mock: Any) -> None:
    server = mock()
    prepare(workspace, server, workspace.rows(100), 7)
    assert workspace.run("--limit", "25").code == 0
    assert len(workspace.ids()) == 25
    assert workspace.run().code == 0
    assert len(workspace.ids()) == 100


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "task.images=text"], "task: records_per_call: must be 1 with images"),
        (["--set", "task.parameters_from={seed: stars}"], "task: records_per_call: must be 1 with parameters_from"),
        (["--set", "task.system=You label {id}."], "task.system: with task.records_per_call it is the same"),
        (["--set", "model.parameters.response_format={type: json_object}"], "model.parameters.response_format: with"),
        (["--set", "task.records_per_call=0"], "task.records_per_call"),
    ],
)
def test_what_cannot_share_a_call(workspace: Any, mock: Any, flags: list[str], message: str) -> None:
    server = mock()
    prepare(workspace, server, workspace.rows(3), 2)
    ran = workspace.run(*flags)
    assert ran.code == 2
    assert message in ran.err
    assert server.calls() == 0


def test_another_number_of_records_is_another_task(workspace: Any, mock: Any) -> None:
    server = mock()
    prepare(workspace, server, workspace.rows(10), 1)
    assert workspace.run().code == 0
    ran = workspace.run("--set", "task.records_per_call=5")
    assert ran.code == 2
    assert "task.records_per_call: (not set) -> 5" in ran.err
    assert workspace.run("--set", "task.share_identical=always").code == 0


def test_what_is_shown_and_estimated_before(workspace: Any, mock: Any, reviews: list[Row]) -> None:
    server = mock()
    prepare(workspace, server, reviews[:500], 10)
    dry = workspace.run("--dry-run", "--limit", "13")
    assert dry.code == 0, dry.err
    assert dry.out.count("POST ") == 2
    assert dry.out.count("# id ") == 13
    assert dry.out.count('\\"10\\": \\"Review: ') == 1
    estimate = workspace.run("--estimate")
    lines = {line.split("  ")[0]: line.split() for line in estimate.out.splitlines()}
    assert lines["requests"][1] == "50"
    assert server.calls() == 0
    assert workspace.run().code == 0
    assert server.calls() < 60
    guessed = int(lines["prompt tokens"][2].replace(",", ""))
    assert guessed == pytest.approx(server.stats()["prompt_tokens"], rel=0.15)


def test_a_table_gets_the_columns_when_they_are_needed(
    workspace: Any, mock: Any, new_database: Callable[[], str]
) -> None:
    """Sharing is no other task: it can begin, and end, with rows in the table."""
    from sqlalchemy import create_engine, text

    server, url = mock(), new_database()
    prepare(workspace, server, [{"id": str(at), "text": "the same"} for at in range(10)], 1)
    table = ["--set", f"output.table={url}#labels"]
    assert workspace.run(*table, "--limit", "4").code == 0
    assert server.calls() == 4
    ran = workspace.run(*table, "--set", "task.share_identical=always", "--limit", "4")
    assert ran.code == 0, ran.err
    assert server.calls() == 5
    ran = workspace.run(*table)
    assert ran.code == 0, ran.err
    assert server.calls() == 7
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(text("SELECT count(*), count(shared_from) FROM labels")).one()
    finally:
        engine.dispose()
    assert tuple(found) == (10, 3)


def test_files_get_the_columns_when_they_are_needed(workspace: Any, mock: Any) -> None:
    server = mock()
    prepare(workspace, server, [{"id": str(at), "text": "the same"} for at in range(10)], 1)
    assert workspace.run("--limit", "4").code == 0
    assert workspace.run("--set", "task.share_identical=always", "--limit", "4").code == 0
    assert workspace.run().code == 0
    rows = workspace.results()
    assert sum(row["shared_from"] is not None for row in rows) == 3
    assert (len(rows), server.calls()) == (10, 7)

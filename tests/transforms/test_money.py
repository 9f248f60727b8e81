"""What is counted and shown of costs, and of what happened to rows beside their outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines import summary
from pipelines.progress import describe
from pipelines.rates import Speed
from transforms import files
from transforms.account import make_account, spent_usd
from transforms.journal import OK, Entry, decode, encode
from transforms.layout import Layout
from transforms.llm.notes import MAYBE_BILLED, REASKED
from transforms.llm.price_table import Found
from transforms.settings import Model, Price
from transforms.tally import Tally, total
from transforms.watch import Progress

CALLED: Tally = {"total": 2, "ok": 2, "calls": 2, "prompt_tokens": 40, "completion_tokens": 10}
HEADER: dict[str, Any] = {
    "run_id": "1",
    "started_at": "2026-01-01T00:00:00.000Z",
    "config": {"model": {"provider": "openai"}},
    "task_hash": "h",
    "task": {},
    "price": {"input": 1, "output": 2, "source": "model.price"},
}


def shown(account: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    summary.print_account(account, Layout("nowhere"))
    return capsys.readouterr().out


def test_notes_stand_behind_the_row_and_only_if_there_are_any() -> None:
    noted = Entry(b"\1" * 16, OK, {"id": "a"}, {REASKED: 2})
    plain = Entry(b"\1" * 16, OK, {"id": "a"})
    assert encode(noted) == encode(plain)[:-2] + b',"notes":{"reasked":2}}\n'
    assert decode(encode(noted)) == noted
    assert decode(encode(plain)) == plain == Entry(b"\1" * 16, OK, {"id": "a"}, {})


def test_notes_are_summed_into_the_account_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tallies = [CALLED, {"cost_usd": 0.1, "notes": {REASKED: 2, MAYBE_BILLED: 3}}, {"notes": {REASKED: 1, "a": 4}}]
    account = make_account(HEADER, total(tallies), None)
    assert account["notes"] == {"a": 4, REASKED: 3}
    assert account["maybe_billed_attempts"] == 3
    assert account["price"] == HEADER["price"]
    lines = shown(account, capsys).splitlines()
    assert lines[1] == "calls: 2 | tokens: 40 + 10 | $0.1000 | attempts without an answer that may be billed: 3"
    assert lines[2] == "notes: a 4, reasked 3"


def test_without_notes_there_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    account = make_account(HEADER, {**CALLED, "cost_usd": 0.1}, None)
    assert (account["notes"], account["maybe_billed_attempts"]) == ({}, 0)
    assert shown(account, capsys).splitlines()[1:2] == ["calls: 2 | tokens: 40 + 10 | $0.1000"]


@pytest.mark.parametrize(("provider", "end"), [("openai", " | cost unknown"), ("embedded", "")])
def test_the_cost_of_the_embedded_model_is_no_question(
    provider: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    header = {**HEADER, "config": {"model": {"provider": provider}}, "price": None}
    account = make_account(header, {**CALLED, "cost_usd_unknown": 2}, None)
    assert account["cost_usd"] is None
    assert shown(account, capsys).splitlines()[1] == f"calls: 2 | tokens: 40 + 10{end}"


def test_a_sum_of_dollars_has_no_noise() -> None:
    tally = total([CALLED, *({"cost_usd": 0.1} for _ in range(3))])
    assert make_account(HEADER, tally, None)["cost_usd"] == 0.3


def test_a_spent_budget_is_exit_code_3() -> None:
    stop = {"kind": "budget", "message": "$0.5 of $0.5 is spent"}
    account = make_account(HEADER, {**CALLED, "unprocessed": 1}, stop)
    assert account["stop_reason"] == "budget: $0.5 of $0.5 is spent"
    assert summary.exit_code(account) == 3


def test_what_all_runs_have_cost(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    assert spent_usd(layout) == 0
    for number, cost in enumerate([0.25, None, 0.5]):
        files.write_json(layout.account(str(number)), {"cost_usd": cost})
    assert spent_usd(layout) == 0.75


def test_the_cost_of_the_whole_run_is_projected() -> None:
    progress = Progress(rows=1000, todo=800, ok=190, failed=10, tally={"cost_usd": 0.25})
    assert progress.projected_cost_usd == 1.0
    assert "| $0.2500 of about $1.0000 |" in describe(progress, Speed(10.0, 10.0, 100.0))


@pytest.mark.parametrize("progress", [Progress(rows=9, todo=9, ok=3), Progress(ok=3, tally={"cost_usd": 1.0})])
def test_what_is_not_known_is_not_projected(progress: Progress) -> None:
    assert progress.projected_cost_usd is None


def test_the_price_is_said_once_where_the_user_did_not_give_it(capsys: pytest.CaptureFixture[str]) -> None:
    price = Price(input=0.15, output=0.6)
    model = Model(provider="openai", name="m")
    summary.print_price(None, model)
    summary.print_price(Found(price, "genai-prices 1: openai/m"), model)
    summary.print_price(Found(price, "model.price"), model.model_copy(update={"price": price}))
    assert capsys.readouterr().err.splitlines() == [
        "no price is known for model m: costs stay empty; set model.price",
        "price: $0.15 in, $0.6 out per million tokens (genai-prices 1: openai/m; model.price sets another)",
    ]

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transforms import history
from transforms.history import Amount, read_accounts
from transforms.layout import Layout


def test_amounts_that_are_known_and_not() -> None:
    known, unknown, idle = {"calls": 2, "cost_usd": 0.5}, {"calls": 1, "cost_usd": None}, {"calls": 0, "cost_usd": None}
    assert history.amount([known, known], "cost_usd") == Amount(1.0, False)
    assert history.amount([known, idle], "cost_usd") == Amount(0.5, False)
    assert history.amount([known, unknown], "cost_usd") == Amount(0.5, True)
    assert history.amount([unknown], "cost_usd") == Amount(None, True)
    assert history.amount([{**known, "cost_unknown_rows": 3}], "cost_usd") == Amount(0.5, True)
    assert history.amount([idle], "cost_usd") == Amount(0.0, False)
    assert history.amount([], "cost_usd") == Amount(0.0, False)


def test_notes_of_all_runs() -> None:
    assert history.notes([{"notes": {"a": 1, "b": 3}}, {"notes": {"a": 1}}, {}]) == {"b": 3, "a": 2}


@pytest.mark.parametrize(
    ("begun", "ended", "took"),
    [
        ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.500Z", 60.5),
        ("2026-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z", None),
        ("once", "2025-01-01T00:00:00.000Z", None),
        (None, None, None),
    ],
)
def test_how_long_a_run_took(begun: str | None, ended: str | None, took: float | None) -> None:
    assert history.seconds({"started_at": begun, "finished_at": ended}) == took


def test_accounts_are_read_in_order_and_named_if_broken(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for run in ("b", "a"):
        (tmp_path / "runs" / f"{run}.json").write_text(json.dumps({"run_id": run}))
    layout = Layout(str(tmp_path))
    assert [account["run_id"] for account in read_accounts(layout)] == ["a", "b"]
    (tmp_path / "runs" / "c.json").write_text('{"run_id": "c"')
    with pytest.raises(ValueError, match=r"c\.json"):
        read_accounts(layout)

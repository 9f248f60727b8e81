"""Which part of a budget a worker process has, where nobody shares it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms.budget import BudgetSpec, Spent
from transforms.call_spec import CallSpec
from transforms.open_budget import open_budget
from transforms.settings import Limits, Model, Price
from transforms.stop import StopSign

BEAT = {
    "host": "elsewhere",
    "time": "2026-01-01T00:00:00.000Z",
    "seconds": 1.0,
    "calls": 1,
    "in_flight": 0,
    "max_in_flight": 4,
    "rate_limited": 0,
    "slept_seconds": 0.0,
    "closed": False,
}


@pytest.fixture
def spec(call_spec: Callable[..., CallSpec], make: Any) -> Callable[..., CallSpec]:
    """A run that may spend $10, of which $1 went before it and $0.5 went by its journal; calls are guessed at $0.25."""

    def new(workers: int | None, beats: int) -> CallSpec:
        model = Model(provider="openai", name="m", parameters={"max_tokens": 1}, price=Price(input=0, output=250_000))
        limits = Limits(workers=workers)
        made = call_spec(budget=BudgetSpec(10.0, 1.0), model=model, limits=limits)
        folder = Path(made.journal)
        make.journal(folder / "span.jsonl", [make.result("a", cost_usd=0.5)])
        for pid in range(beats):
            (folder / f"worker-{pid}.json").write_text(json.dumps({**BEAT, "pid": pid}))
        return made

    return new


@pytest.mark.parametrize(
    ("workers", "beats", "calls"),
    [
        (None, 3, 34),  # all that is left
        (3, 2, 12),  # a third of what was left when the run began
        (3, 3, 10),  # in the place of one that died, which may have spent what was spent
        (90, 90, 0),
    ],
)
def test_its_part(spec: Callable[..., CallSpec], workers: int | None, beats: int, calls: int) -> None:
    made = spec(workers, beats)
    budget, stop = open_budget(made), StopSign(made.journal)
    for _ in range(calls):
        budget.reserve({"id": "b"}, stop)
    budget._ledger._under_way = 0  # type: ignore[attr-defined]
    with pytest.raises(Spent, match="this worker's part of budget" if workers else "of budget.max_cost_usd"):
        budget.reserve({"id": "b"}, stop)

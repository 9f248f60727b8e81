"""The account of a run, and the tallies that it is made of."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.account import make_account
from transforms.tally import MOST_MESSAGES, add, outcome_tally, row_tally, total

HEADER = {
    "run_id": "r",
    "started_at": "2026-01-31T08:00:00.000Z",
    "config": {"k": 1},
    "task_hash": "h",
    "task": {"t": 1},
    "shards": {},
}
KEYS = ("total", "skipped", "recovered", "ok", "failed", "unprocessed")


def account(tally: dict[str, Any], stop: dict[str, str] | None = None) -> dict[str, Any]:
    return make_account(HEADER, tally, stop)


class TestStatus:
    @pytest.mark.parametrize(
        ("tally", "stop", "status", "reason"),
        [
            ({}, None, "complete", None),
            ({"total": 3, "ok": 2, "failed": 1}, None, "complete", None),
            ({"unprocessed": 0, "unreadable": []}, None, "complete", None),
            ({"unprocessed": 2}, None, "stopped", "limit"),
            ({"unprocessed": 2}, {"kind": "interrupted", "message": "SIGINT"}, "stopped", "interrupted"),
            ({"unprocessed": 2}, {"kind": "auth", "message": "no such key"}, "stopped", "auth: no such key"),
            ({"ok": 2}, {"kind": "interrupted", "message": "SIGINT"}, "complete", None),  # after the last row
            ({"unreadable": ["f: cut", "g: cut"]}, None, "failed", "unreadable input: f: cut; g: cut"),
        ],
    )
    def test_how_it_ended(
        self, tally: dict[str, Any], stop: dict[str, str] | None, status: str, reason: str | None
    ) -> None:
        found = account(tally, stop)
        assert (found["status"], found["stop_reason"]) == (status, reason)

    def test_unreadable_input_goes_before_a_limit(self) -> None:
        assert account({"unreadable": ["f: cut"], "unprocessed": 1})["status"] == "failed"


class TestAmounts:
    def test_nothing_called_costs_nothing(self) -> None:
        found = account({"total": 2, "skipped": 2})
        assert (found["calls"], found["prompt_tokens"], found["completion_tokens"], found["cost_usd"]) == (0, 0, 0, 0)
        assert found["cost_unknown_rows"] == 0

    def test_unknown_is_null_and_not_nothing(self, make: Any) -> None:
        row = make.result("a", prompt_tokens=None, completion_tokens=None, cost_usd=None)
        found = account(outcome_tally(row, "ok"))
        assert (found["calls"], found["prompt_tokens"], found["completion_tokens"]) == (1, None, None)
        assert (found["cost_usd"], found["cost_unknown_rows"]) == (None, 1)

    def test_the_known_part_is_a_sum_and_the_rest_is_counted(self, make: Any) -> None:
        rows = [make.result("a"), make.result("b", cost_usd=None), make.result("c", cost_usd=0.0)]
        found = account(total(outcome_tally(row, "ok") for row in rows))
        assert (found["cost_usd"], found["cost_unknown_rows"], found["prompt_tokens"]) == (0.25, 1, 60)

    def test_what_failures_cost_counts_and_what_was_never_called_does_not(self, make: Any) -> None:
        rows = [
            make.failure("a", "truncated", prompt_tokens=7, completion_tokens=256, cost_usd=0.5, attempts=2),
            make.failure("b", "timeout", attempts=5),
            make.failure("c", "empty_input", attempts=0),
            make.failure(None, "bad_id", attempts=0),
            make.failure("d", "timeout", attempts=1),
        ]
        found = account(total([*(outcome_tally(row, "failed") for row in rows), {"total": 5}]))
        assert found["calls"] == 8
        assert (found["prompt_tokens"], found["completion_tokens"], found["cost_usd"]) == (7, 256, 0.5)
        assert found["cost_unknown_rows"] == 2
        assert found["failures_by_reason"] == {"bad_id": 1, "empty_input": 1, "timeout": 2, "truncated": 1}
        assert list(found["failures_by_reason"]) == sorted(found["failures_by_reason"])
        assert found["failed"] == found["total"] == 5


def test_what_the_header_says_is_in_it() -> None:
    found = account({})
    assert {key: found[key] for key in ("run_id", "started_at", "config", "task_hash", "task")} == {
        key: HEADER[key] for key in ("run_id", "started_at", "config", "task_hash", "task")
    }
    assert "shards" not in found


TALLIES = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9)) | st.fixed_dictionaries(
    {
        "failures_by_reason": st.dictionaries(st.sampled_from("xyz"), st.integers(1, 3)),
        "unreadable": st.lists(st.sampled_from("fg"), max_size=3),
    }
)


@given(st.lists(TALLIES, max_size=8), st.integers(0, 8))
def test_tallies_add_up_in_any_grouping(tallies: list[dict[str, Any]], at: int) -> None:
    before = copy.deepcopy(tallies)
    once = total(tallies)
    assert total([total(tallies[:at]), total(tallies[at:])]) == once
    assert tallies == before  # they belong to the engine
    for key in KEYS:
        assert once.get(key, 0) == sum(tally.get(key, 0) for tally in tallies)


def test_lists_of_messages_have_an_end() -> None:
    assert len(total([{"unreadable": ["f"]}] * 100)["unreadable"]) == MOST_MESSAGES
    assert add({}, {"n": 1}) == {"n": 1}


def test_the_tally_of_a_row(make: Any) -> None:
    assert row_tally(make.result("a", cost_usd=None, attempts=3)) == {
        "calls": 3,
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "cost_usd_unknown": 1,
    }

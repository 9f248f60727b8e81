"""Several records a call, with a model in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms import stop
from transforms.budget import BudgetSpec
from transforms.call_spec import CallSpec
from transforms.journal import Entry, JournalFile, read
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, RowError, TransientError
from transforms.records import Record
from transforms.settings import Limits, Model, Price, Task

WAIT = 30  # seconds: for what comes at once, unless something is broken
Row = dict[str, Any]


@pytest.fixture
def step(call_spec: Callable[..., CallSpec], drive: Callable[[CallSpec], Any]) -> Callable[..., Any]:
    def make_step(k: int = 3, **changes: Any) -> Any:
        task = {"prompt": "{id}", "records_per_call": k, **changes.pop("task", {})}
        price = Model(provider="openai", name="m", price=Price(input=1, output=2))
        return drive(call_spec(**{"task": Task(**task), "model": price, "max_in_flight": 1, **changes}))

    return make_step


@pytest.fixture
def records(make: Any) -> Callable[[int], list[Record]]:
    return lambda count: [make.record(str(number), number) for number in range(count)]


def asked(prompt: str) -> list[str]:
    """The ids in a prompt: several under keys, or one."""
    found = json.loads(prompt)
    return list(found.values()) if isinstance(found, dict) else [prompt]


def answered(prompt: str, without: tuple[str, ...] = (), tokens: int = 10) -> Completion:
    """`echo ID` for each, but for some."""
    found = json.loads(prompt)
    usage = Usage(tokens, 4)
    if not isinstance(found, dict):
        return Completion(f"echo {prompt}", "m-1", "stop", usage)
    texts = {key: f"echo {value}" for key, value in found.items() if value not in without}
    return Completion(json.dumps(texts), "m-1", "stop", usage)


def test_a_call_for_each_group_and_one_for_the_rest(model: Any, step: Any, records: Any) -> None:
    model.behave = answered
    run = step(3)
    rows = run(records(8))
    assert [asked(prompt) for prompt in model.prompts] == [["0", "1", "2"], ["3", "4", "5"], ["6", "7"]]
    assert {key: row["output_text"] for key, row in rows.items()} == {str(n): f"echo {n}" for n in range(8)}
    assert [row["records_in_call"] for row in rows.values()] == [3] * 6 + [2] * 2
    assert sum(row["attempts"] for row in rows.values()) == 3
    assert sum(row["prompt_tokens"] for row in rows.values()) == 30
    assert sum(row["completion_tokens"] for row in rows.values()) == 12
    assert sum(row["cost_usd"] for row in rows.values()) == pytest.approx(54e-6, abs=1e-9)
    assert run.journal() == sorted(rows)


def test_a_record_left_out_is_asked_alone(model: Any, step: Any, records: Any) -> None:
    model.behave = lambda prompt: answered(prompt, without=("1",))
    rows = step(3)(records(3))
    assert [asked(prompt) for prompt in model.prompts] == [["0", "1", "2"], ["1"]]
    assert rows["1"]["output_text"] == "echo 1"
    assert [rows[key]["attempts"] for key in "012"] == [1, 1, 0]
    assert [rows[key]["records_in_call"] for key in "012"] == [3, 1, 3]
    assert sum(row["prompt_tokens"] for row in rows.values()) == 20
    assert rows["1"]["cost_usd"] > rows["0"]["cost_usd"] + 10e-6  # its share, and a call of its own


def test_a_record_at_fault_is_found_by_halves(model: Any, step: Any, records: Any) -> None:
    def behave(prompt: str) -> Completion:
        if "5" in asked(prompt):
            raise RowError("content_filter", "no", http_status=400)
        return answered(prompt)

    model.behave = behave
    run = step(8)
    rows = run(records(8))
    assert {key for key, row in rows.items() if "reason" in row} == {"5"}
    assert (rows["5"]["reason"], rows["5"]["retryable"]) == ("content_filter", False)
    assert [asked(prompt) for prompt in model.prompts] == [
        list("01234567"), list("0123"), list("4567"), list("45"), ["4"], ["5"], list("67"),
    ]  # fmt: skip
    assert sum(row["attempts"] for row in rows.values()) == len(model.prompts)
    assert run.tally["notes"]["asked_apart"] == 8


def test_what_a_cut_answer_cost_is_shared_too(model: Any, step: Any, records: Any) -> None:
    def behave(prompt: str) -> Completion:
        whole = answered(prompt)
        return whole._replace(finish_reason="length") if len(asked(prompt)) > 2 else whole

    model.behave = behave
    rows = step(4)(records(4))
    assert len(model.prompts) == 3
    assert sum(row["prompt_tokens"] for row in rows.values()) == 30
    assert sum(row["cost_usd"] for row in rows.values()) == pytest.approx(54e-6, abs=1e-9)


def test_a_transient_failure_is_that_of_all_and_asked_once(model: Any, step: Any, records: Any) -> None:
    def behave(_prompt: str) -> Completion:
        raise TransientError("upstream_error", "down", http_status=503)

    model.behave = behave
    rows = step(3)(records(3))
    assert len(model.prompts) == 1
    assert {row["reason"] for row in rows.values()} == {"upstream_error"}
    assert all(row["retryable"] for row in rows.values())
    assert sum(row["attempts"] for row in rows.values()) == 1


def test_failed_rows_count_though_they_have_no_attempt_of_their_own(model: Any, step: Any, records: Any) -> None:
    """100 rows are 10 calls: the share of failures is that of rows."""

    def behave(_prompt: str) -> Completion:
        raise TransientError("upstream_error", "down", http_status=500)

    model.behave = behave
    limits = Limits(max_attempts=1, max_failure_share=0.5, max_consecutive_failures=1000)
    run = step(10, limits=limits)
    run(records(200))
    reason = stop.reason(run.spec.journal)
    assert reason is not None
    assert reason["kind"] == "failure_share"
    assert len(model.prompts) == 10


def test_the_account_stops_and_leaves_the_group_undone(model: Any, step: Any, records: Any) -> None:
    def behave(prompt: str) -> Completion:
        if "4" in asked(prompt):
            raise AccountError("quota_exhausted", "no money")
        return answered(prompt)

    model.behave = behave
    run = step(3)
    rows = run(records(9))
    assert sorted(rows) == ["0", "1", "2"]
    assert run.tally["unprocessed"] == 6


def test_a_stop_before_a_record_is_asked_alone_keeps_what_it_cost(model: Any, step: Any, records: Any) -> None:
    def behave(prompt: str) -> Completion:
        if asked(prompt) == ["1"]:
            raise AccountError("quota_exhausted", "no money")
        return answered(prompt, without=("1", "2"))

    model.behave = behave
    run = step(3)
    rows = run(records(3))
    assert sorted(rows) == ["0", "1", "2"]
    for key in "12":
        assert (rows[key]["reason"], rows[key]["retryable"]) == ("schema_mismatch", True)
        assert "the run stopped" in rows[key]["message"]
    assert sum(row["prompt_tokens"] for row in rows.values()) == 10


def test_all_of_a_call_is_on_disk_before_anybody_sees_any(
    model: Any, step: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before another call is made for those whose answers did not count."""
    model.behave = lambda prompt: answered(prompt, without=("1",))
    written: list[str] = []
    seen: list[list[str]] = []
    real = JournalFile.append

    def append(self: JournalFile, entry: Entry) -> None:
        real(self, entry)
        written.append(entry.row["id"])

    monkeypatch.setattr(JournalFile, "append", append)
    run = step(3)
    behave = model.behave

    def note(prompt: str) -> Completion:
        seen.append(list(written))
        return behave(prompt)  # type: ignore[no-any-return]

    model.behave = note
    run(records(3))
    assert seen == [[], ["0", "2"]]
    assert written == ["0", "2", "1"]


def test_what_the_journal_holds_is_in_no_group(model: Any, step: Any, records: Any) -> None:
    model.behave = answered
    run = step(3)
    run(records(4))
    model.prompts.clear()
    rows = run(records(7))
    assert sorted(rows) == list("0123456")
    assert [asked(prompt) for prompt in model.prompts] == [["4", "5", "6"]]


def test_records_of_two_spans_share_a_call_and_keep_their_files(model: Any, step: Any, make: Any) -> None:
    model.behave = answered
    run = step(4)
    spans = ["000000-00000000000", "000000-00000000100"]
    found = [make.record(str(n), n)._replace(span=spans[n // 2]) for n in range(4)]
    run(found)
    assert len(model.prompts) == 1
    for number, span in enumerate(spans):
        paths = Path(run.spec.journal).glob(f"{span}-*.jsonl")
        ids = [entry.row["id"] for path in paths for entry in read(str(path)) if entry]
        assert ids == [str(2 * number), str(2 * number + 1)]


def test_in_flight_are_calls_and_not_records(model: Any, step: Any, records: Any) -> None:
    together = threading.Barrier(3, timeout=WAIT)

    def behave(prompt: str) -> Completion:
        together.wait()
        return answered(prompt)

    model.behave = behave
    step(2, max_in_flight=3)(records(12))
    assert model.most == 3
    assert len(model.prompts) == 6


def test_the_budget_is_reserved_for_the_whole_group(model: Any, step: Any, records: Any) -> None:
    """Five calls of 1,000 tokens at $1 a million are $0.005, and a sixth does not fit in."""
    model.behave = lambda prompt: answered(prompt, tokens=992)
    run = step(4, budget=BudgetSpec(0.0056, 0.0), limits=Limits(max_attempts=1, max_failure_share=None))
    rows = run(records(400))
    spent = sum(row["cost_usd"] for row in rows.values())
    assert spent == pytest.approx(len(model.prompts) * 0.001, abs=1e-9)
    assert spent <= 0.0056
    assert len(rows) == 4 * len(model.prompts)
    reason = stop.reason(run.spec.journal)
    assert reason is not None
    assert reason["kind"] == "budget"


def test_a_broken_bundle_leaves_its_group_uncalled(model: Any, step: Any, records: Any) -> None:
    model.behave = answered
    run = step(3)
    run.step.start_bundle()
    for record in records(2):
        assert not list(run.step.process(record))
    rows = run(records(3))
    assert sorted(rows) == ["0", "1", "2"]
    assert len(model.prompts) == 1

"""A server with faults: one row's never touches another, and each row is accounted for."""

from __future__ import annotations

from typing import Any

import pytest

COUNT = 600
COLUMNS = {
    "id", "reason", "message", "retryable", "http_status", "attempts", "prompt_tokens", "completion_tokens",
    "cost_usd", "output_text", "input", "source", "run_id", "task_hash", "failed_at",
}  # fmt: skip


def reasons(rows: list[dict[str, Any]]) -> dict[str, int]:
    found = [row["reason"] for row in rows]
    return {reason: found.count(reason) for reason in sorted(set(found))}


def test_every_kind_of_fault_at_once(workspace: Any, mock: Any, runner: list[str]) -> None:
    rows = workspace.rows(COUNT)
    for row in rows[50::100]:
        row["text"] += " POISON"
    workspace.write_input(rows, files=3)
    faulty = mock(
        "-seed", "3", "-latency", "2",
        "-poison", "POISON", "-garbage-rate", "0.02", "-fail-rate", "0.05", "-drop-rate", "0.01",
    )  # fmt: skip
    workspace.configure(faulty.url, limits={"max_in_flight": 64})

    first = workspace.run(*runner)

    assert first.code == 0, first.err
    outcomes = faulty.stats()["outcomes"]
    assert outcomes["dropped"] > 0
    assert sum(count for name, count in outcomes.items() if name.startswith("server_error")) > 0
    account, failures = workspace.account(), workspace.failures()
    expected = {"content_filter": COUNT // 100, "invalid_json": outcomes["garbage"]}
    assert reasons(failures) == account["failures_by_reason"] == expected
    assert all(set(row) == COLUMNS for row in failures)
    assert account["calls"] == sum(outcomes.values())
    assert sorted([*workspace.ids(), *(row["id"] for row in failures)]) == [row["id"] for row in rows]
    by_id = {row["id"]: row for row in rows}
    for row in failures:
        assert row["input"] == by_id[row["id"]]
        assert row["retryable"] is False
        assert set(row["source"]) == {"file", "position"}
        if row["reason"] == "content_filter":
            assert (row["http_status"], row["attempts"], row["completion_tokens"]) == (400, 1, None)
        else:  # an answer that was paid and cannot be used
            assert row["http_status"] == 200
            assert row["completion_tokens"] > 0
            assert row["cost_usd"] > 0
            assert row["output_text"].startswith("Sure!")
    if runner:
        return  # what follows is the same on every engine

    sound = mock()
    workspace.configure(sound.url)
    by_default = workspace.run()

    assert by_default.code == 0, by_default.err
    assert by_default.counts["skipped"] == COUNT
    assert sound.calls() == 0
    assert workspace.failures() == failures

    all_again = workspace.run("--retry=all")

    assert all_again.code == 0, all_again.err
    assert (all_again.counts["skipped"], all_again.counts["ok"]) == (COUNT - len(failures), len(failures))
    assert sound.calls() == len(failures)
    assert list(workspace.output.glob("failures/*")) == []
    assert workspace.ids() == [row["id"] for row in rows]


def test_a_server_that_is_always_overloaded(workspace: Any, own_server: Any) -> None:
    """One owner of retries: max_attempts is the number of requests that the server sees for a row."""
    own_server.script = lambda _row, _number: own_server.error(503, "try again later")
    workspace.write_input(workspace.rows(12))
    workspace.configure(own_server.url, limits={"max_in_flight": 12, "max_attempts": 3})

    first = workspace.run()

    assert first.code == 0, first.err
    assert set(own_server.requests.values()) == {3}
    failures = workspace.failures()
    assert reasons(failures) == {"upstream_error": 12}
    assert {(row["retryable"], row["attempts"], row["http_status"]) for row in failures} == {(True, 3, 503)}
    assert workspace.account()["calls"] == 36

    none = workspace.run("--retry=none")

    assert (none.code, none.counts["skipped"], own_server.calls) == (0, 12, 36)
    assert workspace.failures() == failures

    own_server.script = lambda _row, _number: own_server.answer()
    again = workspace.run()

    assert (again.code, again.counts["ok"], own_server.calls) == (0, 12, 48)
    assert workspace.failures() == []
    assert len(workspace.ids()) == 12


def test_retry_after_holds_the_whole_process(workspace: Any, own_server: Any) -> None:
    """While the pause lasts that a 429 asks for, no row's request arrives, whichever row was refused."""
    refused_at: list[float] = []

    def script(row: str, number: int) -> Any:
        if row == "r00010" and number == 1:
            refused_at.append(own_server.arrivals[-1])
            return own_server.error(429, "slow down", retry_after="3")
        return own_server.answer()

    own_server.script = script
    workspace.write_input(workspace.rows(200))
    workspace.configure(own_server.url, limits={"max_in_flight": 4})

    ran = workspace.run()

    assert (ran.code, ran.counts["ok"]) == (0, 200)
    assert own_server.calls == 201
    [start] = refused_at
    early = [
        at - start for at in own_server.arrivals if 1.5 < at - start < 2.9
    ]  # before that: calls that were under way
    assert early == []


@pytest.mark.parametrize("content", ["", "not JSON", '{"label": "unheard-of"}'], ids=["empty", "text", "enum"])
def test_an_answer_that_cannot_be_used_is_final(workspace: Any, own_server: Any, content: str) -> None:
    own_server.script = lambda row, _number: own_server.answer(content) if row == "r00003" else own_server.answer()
    workspace.write_input(workspace.rows(10))
    workspace.configure(own_server.url)
    ran = workspace.run()
    assert (ran.code, ran.counts["ok"], ran.counts["failed"]) == (0, 9, 1)
    [failure] = workspace.failures()
    expected = {"": "empty_output", "not JSON": "invalid_json"}.get(content, "schema_mismatch")
    assert (failure["id"], failure["reason"], failure["attempts"]) == ("r00003", expected, 1)
    assert workspace.run().counts["skipped"] == 10
    assert own_server.calls == 10

"""What no row is to blame for stops the run: nothing is set aside as failed, the rest is left for the next run."""

from __future__ import annotations

from typing import Any

COUNT = 100
IN_FLIGHT = 8


def prepare(workspace: Any, server: Any) -> None:
    workspace.write_input(workspace.rows(COUNT), files=2)
    workspace.configure(server.url, limits={"max_in_flight": IN_FLIGHT})


def test_a_key_that_is_refused(workspace: Any, own_server: Any, runner: list[str]) -> None:
    own_server.script = lambda _row, _number: own_server.error(401, "This key was withdrawn.", "invalid_api_key")
    prepare(workspace, own_server)

    refused = workspace.run(*runner)

    assert refused.code == 3, refused.err
    assert "This key was withdrawn." in refused.err
    assert refused.counts["unprocessed"] == COUNT
    assert own_server.calls <= IN_FLIGHT
    assert workspace.failures() == workspace.results() == []
    assert workspace.account()["stop_reason"].startswith("auth: ")

    own_server.script = lambda _row, _number: own_server.answer()
    own_server.requests.clear()
    rest = workspace.run()

    assert (rest.code, rest.counts["ok"]) == (0, COUNT), rest.err
    assert set(own_server.requests.values()) == {1}
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]


def test_an_account_that_runs_empty_half_way(workspace: Any, own_server: Any) -> None:
    half = COUNT // 2

    def script(_row: str, _number: int) -> Any:
        if own_server.answered.total() < half and own_server.calls <= half:
            return own_server.answer()
        return own_server.error(429, "You exceeded your quota.", "insufficient_quota", retry_after="1")

    own_server.script = script
    prepare(workspace, own_server)

    empty = workspace.run()

    assert empty.code == 3, empty.err
    assert "You exceeded your quota." in empty.err
    answered = own_server.answered.total()
    assert half - IN_FLIGHT <= answered <= half
    assert (empty.counts["ok"], empty.counts["unprocessed"]) == (answered, COUNT - answered)
    assert len(workspace.ids()) == answered
    assert workspace.failures() == []
    assert own_server.calls <= half + IN_FLIGHT
    assert workspace.account()["stop_reason"].startswith("quota_exhausted: ")

    own_server.script = lambda _row, _number: own_server.answer()
    rest = workspace.run()

    assert (rest.code, rest.counts["skipped"], rest.counts["ok"]) == (0, answered, COUNT - answered), rest.err
    assert set(own_server.answered.values()) == {1}
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]


def test_a_model_that_is_not_there(workspace: Any, own_server: Any) -> None:
    own_server.script = lambda _row, _number: own_server.error(404, "No model mock-1.", "model_not_found")
    prepare(workspace, own_server)
    ran = workspace.run()
    assert ran.code == 3, ran.err
    assert "No model mock-1." in ran.err
    assert own_server.calls <= IN_FLIGHT
    assert workspace.failures() == []


def test_most_rows_failing(workspace: Any, own_server: Any, runner: list[str]) -> None:
    """A wrong prompt costs a hundred calls, not all of them; what was done stays, and can be gone on from."""
    rows = 1000
    own_server.script = lambda _row, _number: own_server.answer("I would say positive.")
    workspace.write_input(workspace.rows(rows))
    limits = {"max_in_flight": IN_FLIGHT}
    workspace.configure(own_server.url, limits=limits)

    wrong = workspace.run(*runner)

    assert wrong.code == 3, wrong.err
    assert 100 <= own_server.calls < 100 + IN_FLIGHT
    account = workspace.account()
    assert account["stop_reason"].startswith("failure_share: ")
    assert (account["failed"], account["unprocessed"]) == (own_server.calls, rows - own_server.calls)
    for said in ("100 of the first 100 rows failed", "by invalid_json", "limits.max_failure_share"):
        assert said in wrong.err

    called = own_server.calls
    workspace.configure(own_server.url, limits={**limits, "max_failure_share": None})
    rest = workspace.run(*runner)

    assert rest.code == 0, rest.err
    assert (rest.counts["skipped"], rest.counts["failed"]) == (called, rows - called)
    assert own_server.calls == rows

"""Everything that a model server was seen to do (server_behaviours.json), against the whole pipeline: each row ends
in exactly one right place, after the right number of requests, as the server counts them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases" / "server_behaviours.json"
if not SHARED.exists():
    pytest.skip(f"the behaviours are not there: {SHARED}", allow_module_level=True)
CASES = json.loads(SHARED.read_text())["behaviours"]
BY_ID = {case["id"]: case for case in CASES}
# S34 is about prices alone; the others say more than one row can show.
OF_ITS_OWN = {"S24a", "S34", "S38"}
MAX_ATTEMPTS = 3
OBJECT = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
# By the file's own rule an answer belongs to a task without a schema, unless its body shows JSON.
SCHEMAS = {
    **dict.fromkeys(("S29a", "S29b", "S29d", "S29e", "S29f", "S30a", "S30d"), OBJECT),
    "S29c": {**OBJECT, "properties": {**OBJECT["properties"], "why": {"type": "string"}}},  # type: ignore[dict-item]
    "S30b": {"type": "object", "properties": {"n": {"type": "integer"}, "why": {"type": "string"}}},
    "S30c": {"type": "object", "properties": {"notes": {"type": "string"}}},
    "S30e": {"type": "object", "properties": {"score": {"type": "number"}}},
}
# Seconds between two requests for the row, at least.
WAITS = {
    "S22a": 0.95,
    "S22b": 0.0,
    "S22c": 0.95,  # HTTP dates have whole seconds
    "S22d": 0.0,
    "S22e": 0.0,
    "S22f": 0.0,
    "S22g": 1.45,
    "S22h": 0.95,  # limits.max_retry_after_seconds is 1 below
}
LONGEST_WAIT = 60.0  # seconds: more than any wait here, less than a day
PRICE = {"input": 3, "output": 15, "cached_input": 0.3, "cache_write": 3.75}
GOOD = {
    "openai.chat_completions": BY_ID["S32c"]["responses"][0],
    "anthropic.messages": BY_ID["S23a"]["responses"][1],
}


def script(case: dict[str, Any]) -> Callable[[str, int], dict[str, Any]]:
    """Plays the responses of a case in order for each row, the last one for ever."""
    responses = case["responses"]
    return lambda row, number: dict(responses[min(number, len(responses)) - 1])


def sections(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parts of the configuration that a case needs."""
    chosen: dict[str, dict[str, Any]] = {"limits": {"max_attempts": MAX_ATTEMPTS}}
    if case["id"] in SCHEMAS:
        chosen["task"] = {"schema": SCHEMAS[case["id"]]}
    if case["id"] == "S22h":
        chosen["limits"]["max_retry_after_seconds"] = 1
    chosen["model"] = {"price": PRICE}
    return chosen


def play(case: dict[str, Any], server: Any, run: Any, rows: dict[str, str] | None = None) -> Any:
    server.script = script(case)
    text = "x" * 90_000 if case["id"] == "S36" else "text"
    return run(rows or {"a": text}, anthropic=case["api"] == "anthropic.messages", **sections(case))


@pytest.mark.parametrize("name", [name for name in BY_ID if name not in OF_ITS_OWN])
def test_behaviour(name: str, server: Any, run: Any) -> None:
    case = BY_ID[name]
    expect = case["expect"]
    done = play(case, server, run)

    wanted = MAX_ATTEMPTS if expect["http_attempts"] == "max_attempts" else expect["http_attempts"]
    assert server.attempts() in (wanted if isinstance(wanted, list) else [wanted])
    outcome = "dead_letter" if name == "S29d" else expect["outcome"]  # there is no lenient option
    if outcome == "stop_run":
        assert (done.code, done.account["status"], done.account["unprocessed"]) == (3, "stopped", 1)
        assert done.account["stop_reason"].startswith(f"{expect['reason']}: ")
        said = case["responses"][0]["body"]["error"]["message"].split("sk-")[0]
        assert said in done.account["stop_reason"]  # the provider's own words
        assert (done.results, done.failures) == ({}, {})
        server.script = lambda row, number: GOOD[case["api"]]
        again = run({"a": "text"}, anthropic=case["api"] == "anthropic.messages", **sections(case))
        assert (again.code, set(again.results)) == (0, {"a"})  # the next run does it
        return
    assert (done.code, done.account["status"]) == (0, "complete")
    if outcome in ("ok", "retry_then_ok", "retry_then_ok_or_left_undone"):
        assert (set(done.results), done.failures) == ({"a"}, {})
        row = done.results["a"]
    else:
        assert (done.results, set(done.failures)) == ({}, {"a"})
        row = done.failures["a"]
        assert row["reason"] == ("invalid_json" if name == "S29d" else expect["reason"])
        assert row["retryable"] == outcome.startswith("retry")
    assert row["attempts"] == server.attempts()
    if "cost_usd" in expect:
        assert row["cost_usd"] == pytest.approx(expect["cost_usd"], abs=1e-12)
    if name in WAITS:
        assert WAITS[name] <= server.waits()[0] <= LONGEST_WAIT
    CHECKS.get(name, lambda row: None)(row)


def _said(*words: str) -> Callable[[dict[str, Any]], None]:
    def check(row: dict[str, Any]) -> None:
        assert all(word in row["message"] for word in words), row["message"]

    return check


def _has(**values: Any) -> Callable[[dict[str, Any]], None]:
    def check(row: dict[str, Any]) -> None:
        assert {name: row[name] for name in values} == values

    return check


# What the notes of the cases say beside outcome and attempts.
CHECKS = {
    "S21a": _said("HTTP 200", "text/html", "Just a moment"),
    "S24c": _has(output_text="whole"),
    "S25a": _said("violence/medium"),
    "S27a": _has(prompt_tokens=27, completion_tokens=200, cost_usd=0.003081),
    "S27b": _has(completion_tokens=16),
    "S29a": _has(label="a"),
    "S29b": _has(label="b"),
    "S29c": _has(label="c", why="he wrote <think> and ``` in the text"),
    "S30a": _has(output_text='{"label": "a",}'),  # nothing is repaired, and the text is kept
    "S32a": _has(prompt_tokens=None, completion_tokens=None, cost_usd=None, output_text="A"),
    "S32b": _has(prompt_tokens=None, cost_usd=None),
    "S32c": _has(prompt_tokens=20, completion_tokens=5, cached_tokens=None),
    "S32d": _has(prompt_tokens=20, completion_tokens=None, cost_usd=None),
    "S33a": _has(prompt_tokens=12307, completion_tokens=550, cached_tokens=0),
    "S33b": _has(prompt_tokens=1000, completion_tokens=0, cached_tokens=200),
    "S33c": _has(prompt_tokens=1000, cached_tokens=800),
}


def test_s18a_a_retry_after_does_not_tempt(server: Any, run: Any) -> None:
    case = BY_ID["S18a"]
    response = case["responses"][0]
    headers = {**response["headers"], "retry-after": "1"}
    done = play({**case, "responses": [{**response, "headers": headers}]}, server, run)
    assert (done.code, server.attempts(), done.account["unprocessed"]) == (3, 1, 1)


def test_s21a_pages_for_all_rows_stop_the_run(server: Any, run: Any) -> None:
    server.script = script(BY_ID["S21a"])
    limits = {"max_attempts": 2, "max_consecutive_failures": 10, "max_in_flight": 4}
    rows = {f"r{number}": "text" for number in range(60)}
    done = run(rows, limits=limits)
    assert (done.code, done.account["stop_reason"].split(":")[0]) == (3, "endpoint_down")
    assert "Just a moment" in done.account["stop_reason"]
    assert len(done.failures) + done.account["unprocessed"] == 60
    assert 9 <= len(done.failures) <= 9 + 4  # those under way when it stopped
    assert all(row["retryable"] for row in done.failures.values())
    server.script = lambda row, number: GOOD["openai.chat_completions"]
    again = run(rows, limits=limits)
    assert (again.code, len(again.results), again.failures) == (0, 60, {})


def test_s23b_an_attempt_that_may_have_been_billed_is_counted_apart(server: Any, run: Any) -> None:
    done = play(BY_ID["S23b"], server, run)
    assert done.account["maybe_billed_attempts"] == 1


def test_s24a_a_connection_that_the_server_closes_while_it_is_idle(server: Any, run: Any) -> None:
    server.close_idle_after = BY_ID["S24a"]["responses"][1]["value"] / 2
    server.script = lambda row, number: BY_ID["S24a"]["responses"][0]
    # The second request comes 1 s after the first.
    limits = {"requests_per_minute": 60, "headroom": 1.0, "max_in_flight": 1}
    done = run({"a": "text", "b": "text"}, limits=limits)
    assert (done.code, set(done.results)) == (0, {"a", "b"})
    assert server.times["b"][0] - server.times["a"][0] > server.close_idle_after
    assert server.connections == 2


def test_s35d_good_answers_before_the_key_is_refused_are_kept(server: Any, run: Any) -> None:
    good, refused = GOOD["openai.chat_completions"], BY_ID["S35d"]["responses"][0]
    server.script = lambda row, number: good if int(row) < 1000 else refused
    done = run({str(number): "text" for number in range(1200)})
    assert (done.code, done.account["stop_reason"].split(":")[0]) == (3, "auth")
    assert set(done.results) == {str(number) for number in range(1000)}
    assert (done.failures, done.account["unprocessed"]) == ({}, 200)
    assert sum(server.attempts(str(number)) for number in range(1000, 1200)) <= 8  # those under way


def test_s36_a_prompt_that_is_cut_is_noted(server: Any, run: Any) -> None:
    done = play(BY_ID["S36"], server, run)
    assert done.account["notes"] == {"prompt_maybe_truncated": 1}


def test_s38_each_row_gets_its_own_answer(server: Any, run: Any, jitter: Callable[[float], float]) -> None:
    def answer(row: str, number: int) -> dict[str, Any]:
        delay = jitter(0.2)
        if row.endswith("7"):
            return {"status": 400, "body": {"error": {"message": "no", "code": "bad_row"}}, "delay": delay}
        if int(row) % 3 == 0 and number == 1:
            return {"status": 500, "delay": delay}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"echo:{row}"}}
        return {"status": 200, "body": {"choices": [choice]}, "delay": delay}

    server.script = answer
    rows = {str(number): "text" for number in range(100)}
    done = run(rows, limits={"max_in_flight": 16})
    refused = {row for row in rows if row.endswith("7")}
    assert done.code == 0
    assert set(done.failures) == refused
    assert all(row["reason"] == "bad_request" and row["attempts"] == 1 for row in done.failures.values())
    assert {row: found["output_text"] for row, found in done.results.items()} == {
        row: f"echo:{row}" for row in rows if row not in refused
    }
    assert all(row["attempts"] == server.attempts(name) for name, row in done.results.items())
    account = done.account
    assert (account["ok"], account["failed"], account["calls"]) == (90, 10, len(server.requests))


def test_a_format_that_is_refused_is_left_out_and_counted(server: Any, run: Any) -> None:
    def answer(row: str, number: int) -> dict[str, Any]:
        if server.requests[-1].get("response_format", {}).get("type") == "json_schema":
            return {"status": 400, "body": {"error": {"message": "unavailable now", "param": None, "code": None}}}
        return BY_ID["S29a"]["responses"][0]

    server.script = answer
    rows = {str(number): "text" for number in range(20)}
    done = run(rows, task={"schema": OBJECT}, limits={"max_attempts": 1, "max_in_flight": 1})
    assert (done.code, set(done.results)) == (0, set(rows))
    assert len(server.requests) == 21  # found once, not per row
    assert done.account["notes"] == {"answer_unwrapped": 20, "structured_output_fallback": 20}


def test_answers_that_are_asked_for_again_are_all_paid_and_counted(server: Any, run: Any) -> None:
    server.script = lambda row, number: BY_ID["S30a" if row == "bad" or number == 1 else "S29a"]["responses"][0]
    again = {"schema": OBJECT, "on_invalid": "retry", "max_reasks": 2}
    done = run({"a": "text", "bad": "text"}, task=again, model={"price": PRICE})
    assert (done.results["a"]["attempts"], done.results["a"]["prompt_tokens"]) == (2, 40)
    failed = done.failures["bad"]
    assert (failed["reason"], failed["attempts"], failed["completion_tokens"]) == ("invalid_json", 3, 15)
    assert done.account["notes"] == {"answer_unwrapped": 1, "reasked": 3}
    assert done.account["cost_usd"] == pytest.approx(5 * (20 * 3 + 5 * 15) / 1e6)


@pytest.mark.parametrize("model", [{"parameters": {"stream": True}}, {"base_url": "localhost:1"}])
def test_what_cannot_be_sent_ends_before_anything_is_written(model: dict[str, Any], server: Any, run: Any) -> None:
    done = run({"a": "text"}, model=model)
    assert (done.code, server.requests, done.folder.exists()) == (2, [], False)


@pytest.mark.parametrize("status", [200, 400, 401, 502])
def test_a_key_that_the_server_echoes_is_in_no_file(
    status: int, server: Any, run: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    echo = {"error": {"message": "Bearer planted-key-123456", "code": "planted-key-123456"}}
    page = {"status": status, "headers": {"content-type": "text/html"}, "raw_body": "<p>planted-key-123456</p>"}
    server.script = lambda row, number: page if row == "page" else {"status": status, "body": echo}
    done = run({"page": "text", "json": "text"}, limits={"max_attempts": 1})
    shown = capfd.readouterr()
    files = [path for path in done.folder.rglob("*") if path.is_file()]
    assert files
    for text in (shown.out, shown.err, *(path.read_text() for path in files)):
        assert not re.search("planted-key", text)

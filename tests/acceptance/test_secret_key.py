"""The key leaves the process in one header alone, whatever the server sends back."""

from __future__ import annotations

from typing import Any

NAME, KEY = "PAIDONCE_TEST_KEY", "Zq7-not-like-any-provider's-key/+81"


def replies(server: Any) -> dict[str, Any]:
    """What a careless server or proxy sends back, by row."""
    said = f"refused: {server.authorization}"
    return {
        "r00000": server.error(400, said),
        "r00001": server.error(503, said),
        "r00002": server.answer()._replace(status=502, body=f"<html>{said}</html>".encode(), headers={}),
        "r00003": server.answer(error={"message": said, "code": 400}),
        "r00004": server.answer()._replace(body={"error": said}),
        "r00005": server.answer()._replace(body={"unexpected": said}),
        "r00006": server.error(400, said, "content_filter"),
        "r00007": server.answer()._replace(body=f"{said}{server.authorization}".encode()),
    }


def test_a_server_that_repeats_the_key(workspace: Any, own_server: Any) -> None:
    own_server.script = lambda row, _number: replies(own_server).get(row) or own_server.answer()
    workspace.write_input(workspace.rows(12))
    workspace.configure(own_server.url, model={"api_key_env": NAME}, limits={"max_attempts": 2, "max_in_flight": 12})

    ran = workspace.run("--verbose", environment={NAME: KEY})

    assert ran.code == 0, ran.err
    assert own_server.authorization == f"Bearer {KEY}"
    failures = workspace.failures()
    assert sorted(row["id"] for row in failures) == sorted(replies(own_server))
    assert all("***" in row["message"] for row in failures)
    check_nowhere(workspace, ran)


def test_a_key_that_is_refused_by_its_name(workspace: Any, own_server: Any) -> None:
    own_server.script = lambda _row, _number: own_server.error(401, f"Incorrect API key: {own_server.authorization}")
    workspace.write_input(workspace.rows(12))
    workspace.configure(own_server.url, model={"api_key_env": NAME})
    ran = workspace.run(environment={NAME: KEY})
    assert ran.code == 3, ran.err
    assert "Incorrect API key: " in ran.err
    check_nowhere(workspace, ran)


def test_journals_of_a_dead_run_hold_no_key(workspace: Any, own_server: Any) -> None:
    own_server.script = lambda row, _number: replies(own_server).get(row) or own_server.answer()
    own_server.pass_first = 12
    own_server.gate.clear()
    workspace.write_input(workspace.rows(30))
    # Not auto: a 400 that blames nothing may be asked once more without a format, and one request a row is counted on.
    model = {"api_key_env": NAME, "structured_output": "json_schema"}
    workspace.configure(own_server.url, model=model, limits={"max_attempts": 1, "max_in_flight": 4})
    started = workspace.start(environment={NAME: KEY})
    started.until(lambda: workspace.journal_lines() == 12, "twelve rows are journalled")
    started.kill()
    check_nowhere(workspace, started.wait())


def check_nowhere(workspace: Any, ran: Any) -> None:
    check(ran.out + ran.err)
    files = [file for file in workspace.output.rglob("*") if file.is_file()]
    assert files
    for file in files:
        check(file.read_bytes().decode(errors="replace"))
    check(str(workspace.results()))


def check(text: str) -> None:
    assert KEY not in text
    for part in (KEY[:9], KEY[-9:]):
        assert part not in text

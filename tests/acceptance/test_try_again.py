"""Failures that are looked at and tried again: by their mode, by their reason, as the input of another run."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REFUSED, GARBLED, DOWN = {"r00003", "r00007"}, {"r00005", "r00008", "r00011"}, {"r00010"}


def command(workspace: Any, module: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs another of the commands to its end."""
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-m", f"pipelines.{module}", *flags], cwd=root, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def failed(workspace: Any, own_server: Any) -> Any:
    """Twelve rows that were called, of which six have failed for three reasons, and one that could not be."""

    def script(row: str, _number: int) -> Any:
        if row in REFUSED:
            return own_server.error(400, "against \x1b[2Jthe policy, key sk-abcdefgh12345678", "content_filter")
        if row in GARBLED:
            return own_server.answer("no JSON")
        return own_server.error(500, "down") if row in DOWN else own_server.answer()

    own_server.script = script
    workspace.write_input([*workspace.rows(12), {"id": "empty", "text": ""}])
    workspace.configure(own_server.url, task={"prompt": "{id}|{text}"}, limits={"max_attempts": 1})
    (workspace.input / "broken.jsonl").write_text('{"id": "torn"', encoding="utf-8")
    assert workspace.run().counts["failed"] == 7
    own_server.requests.clear()
    own_server.script = lambda _row, _number: own_server.answer()
    return workspace


def test_only_a_reason(failed: Any, own_server: Any) -> None:
    ran = failed.run("--retry=none", "--retry-reason=invalid_json")
    assert ran.code == 0, ran.err
    assert set(own_server.requests) == GARBLED
    assert {row["id"] for row in failed.failures()} == {*REFUSED, *DOWN, None}  # those that succeeded have left
    assert set(failed.ids()) > GARBLED


def test_a_reason_beside_what_may_pass(failed: Any, own_server: Any) -> None:
    ran = failed.run("--retry-reason=invalid_json,bad_request", "--retry-reason", "content_filter")
    assert ran.code == 0, ran.err
    assert set(own_server.requests) == GARBLED | REFUSED | DOWN
    assert [row["reason"] for row in failed.failures()] == ["bad_record"]
    assert len(failed.ids()) == len(set(failed.ids())) == 13
    before = own_server.calls
    assert failed.run("--retry=all").code == 0
    assert own_server.calls == before


def test_a_reason_that_fails_again_stays_once(failed: Any, own_server: Any) -> None:
    own_server.script = lambda _row, _number: own_server.answer("still no JSON")
    for _ in range(2):
        assert failed.run("--retry=none", "--retry-reason=invalid_json").code == 0
    assert own_server.requests == dict.fromkeys(GARBLED, 2)
    rows = failed.failures()
    assert sorted(row["id"] for row in rows if row["reason"] == "invalid_json") == sorted(GARBLED)
    assert len(rows) == 7


def test_a_retry_by_reason_that_is_killed_goes_on(failed: Any, own_server: Any) -> None:
    own_server.pass_first = own_server.calls + 1
    own_server.gate.clear()
    started = failed.start("--retry=none", "--retry-reason=invalid_json")
    started.until(lambda: failed.journal_lines() == 1 and own_server.in_flight == 2, "one is answered")
    started.kill()
    own_server.gate.set()
    ran = failed.run("--retry=none", "--retry-reason=invalid_json")
    assert ran.code == 0, ran.err
    assert own_server.requests.total() == 3 + 2  # those in flight at the kill
    assert set(failed.ids()) > GARBLED
    assert len(failed.ids()) == len(set(failed.ids()))


def test_an_unknown_reason_changes_nothing(failed: Any, own_server: Any) -> None:
    before = failed.tree()
    ran = failed.run("--retry-reason=invalid_jsn")
    assert ran.code == 2
    [line] = ran.err.splitlines()
    assert "did you mean invalid_json?" in line
    assert failed.tree() == before
    assert own_server.requests.total() == 0


def test_the_table_and_its_command(failed: Any, own_server: Any) -> None:
    ran = command(failed, "failures", str(failed.output))

    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["reason", "rows", "tried", "again", "cost", "example"]
    garbled = next(line for line in lines if line.startswith("invalid_json"))
    assert garbled.split()[1:5] == ["3", "if", "asked", "$0.0001"]
    assert any(f"{identifier}: " in garbled for identifier in GARBLED)
    assert next(line for line in lines if line.startswith("upstream_error")).split()[1:3] == ["1", "yes"]
    assert "7 in all, which cost $0.0001" in lines
    assert "(no id): " in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "sk-abc" not in ran.stdout
    assert not any(line.endswith("…") for line in lines)

    # The command that it says does what it says.
    said = next(line for line in lines if "--retry-reason=" in line)
    again = shlex.split(said)
    assert again[1:3] == ["-m", "pipelines.classify"]
    assert failed.run(*again[5:]).code == 0  # workspace gives --config FILE itself
    assert set(own_server.requests) == GARBLED | REFUSED | DOWN


def test_records_as_the_input_of_another_run(failed: Any, own_server: Any, tmp_path: Path) -> None:
    target, ids = tmp_path / "again.jsonl", tmp_path / "ids"
    ran = command(failed, "failures", str(failed.output), "--write", str(target), "--ids", str(ids))
    assert ran.returncode == 0, ran.stderr
    assert f"{target}: 6 records; 1 that could not be read as a record are left out" in ran.stdout
    given = {row["id"]: row for row in failed.rows(12)}
    written = [json.loads(line) for line in target.read_text().splitlines()]
    assert {row["id"] for row in written} == REFUSED | GARBLED | DOWN
    assert all(row == given[row["id"]] for row in written)
    assert {json.loads(line) for line in ids.read_text().splitlines()} == REFUSED | GARBLED | DOWN

    other = failed.run("--input", str(target), "--output", str(tmp_path / "other"))
    assert other.counts["ok"] == other.counts["total"] == 6
    assert own_server.requests.total() == 6

    before = target.read_bytes()
    ran = command(failed, "failures", str(failed.output), "--write", str(target))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"{target} exists already" in ran.stderr
    assert target.read_bytes() == before

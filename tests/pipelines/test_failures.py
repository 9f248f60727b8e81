"""`python -m pipelines.failures`, on failures that are written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.failures import main

ROWS = [
    ("a", "invalid_json", False, 0.5),
    ("b", "invalid_json", False, None),
    ("c\x1b[2J", "timeout", True, None),
    (None, "bad_record", False, None),
    ("d" * 100, "content_filter", False, 0.25),
]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "failures"
    folder.mkdir(parents=True)
    rows = [
        {
            "id": identifier,
            "reason": reason,
            "retryable": retryable,
            "cost_usd": cost,
            "message": f"no {reason}: key sk-abcdefgh12345678",
            "input": "{torn" if identifier is None else {"id": identifier, "text": "x\u2028y"},
        }
        for identifier, reason, retryable, cost in ROWS
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "20260101T000000-a-00000-of-00002.jsonl").write_text("".join(lines[:3]))
    (folder / "20260101T000000-a-00001-of-00002.jsonl").write_text("".join(lines[3:]))
    return folder.parent


def ids(path: Path) -> list[str]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_table(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(out)]) == 0
    shown, errors = capsys.readouterr()
    assert errors == ""
    lines = shown.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["invalid_json", "2", "if"], ["b:", "no", "invalid_json:"]]
    assert "$0.5000" in lines[1]
    assert next(line for line in lines if line.startswith("bad_record")).split()[2:4] == ["looked", "at"]
    assert "5 in all, which cost $0.7500" in lines
    assert "\x1b" not in shown
    assert "sk-abc" not in shown
    assert "d" * 100 in shown  # no terminal: nothing is cut
    assert "  (the command of the run) --retry-reason=invalid_json,content_filter" in lines


def test_a_terminal_gets_what_fits(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    assert main([str(out)]) == 0
    table = capsys.readouterr().out.split("in all")[0].splitlines()
    assert max(map(len, table)) <= 60
    assert any(line.endswith("…") for line in table)


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], ["a", "b", "c\x1b[2J", "d" * 100]),
        (["--retryable"], ["c\x1b[2J"]),
        (["--reason", "invalid_json"], ["a", "b"]),
        (["--reason=invalid_json,timeout", "--reason", "content_filter"], ["a", "b", "c\x1b[2J", "d" * 100]),
        (["--reason=invalid_json", "--retryable"], []),
        (["--reason=bad_record"], []),
    ],
)
def test_filters(
    out: Path, tmp_path: Path, flags: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(out), *flags, "--ids", str(tmp_path / "ids"), "--write", str(tmp_path / "rows.jsonl")]) == 0
    assert ids(tmp_path / "ids") == found
    records = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_bytes().split(b"\n") if line]
    assert records == [{"id": identifier, "text": "x\u2028y"} for identifier in found]
    assert ("no failures like that" in capsys.readouterr().out) == (not found and "--reason=bad_record" not in flags)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["nowhere"], "nowhere holds no output of a run: there is no such directory"),
        (["{tmp}"], "no output of a run"),
        ([], "OUT"),
        (["{out}", "--reason=nothing"], "--reason: there is no reason 'nothing'"),
        (["{out}", "--retriable"], "--retriable"),
        (["{out}", "--write", "{out}/failures/x.jsonl"], "among the files of a run"),
        (["{out}", "--write", "{tmp}/no/x.jsonl"], "there is no directory"),
        (["{out}", "--ids", "{tmp}/out"], "exists already"),
        (["{out}", "--write", "{tmp}/x", "--ids", "{tmp}/x"], "the same file"),
    ],
)
def test_what_is_wrong_is_one_line(
    out: Path, tmp_path: Path, flags: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([flag.format(out=out, tmp=tmp_path) for flag in flags]) == 2
    shown, errors = capsys.readouterr()
    [line] = errors.splitlines()
    assert line.startswith("paidonce: ")
    assert named in line
    assert shown == ""


@pytest.mark.parametrize("line", ["{torn", "[]", '{"id": "a"}', '{"reason": "timeout"}'])
def test_a_damaged_line_is_named(out: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    shard = out / "failures" / "20260101T000000-a-00001-of-00002.jsonl"
    with shard.open("a") as stream:
        stream.write(line + "\n")
    assert main([str(out)]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert f"{shard}, line 3: " in said


def test_what_is_not_published_is_told(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "journal" / "20260102T000000-b").mkdir(parents=True)
    assert main([str(out)]) == 0
    assert "run 20260102T000000-b is under way, or was cut short" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown: Any = capsys.readouterr().out
    assert "exit codes" in shown
    assert "examples" in shown

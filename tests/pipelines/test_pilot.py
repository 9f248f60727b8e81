"""--pilot: the command that does the rest."""

from __future__ import annotations

import sys

import pytest

from pipelines.pilot import command


@pytest.mark.parametrize("pilot", [["--pilot", "20"], ["--pilot=20"]])
def test_it_is_this_command_without_the_flag(monkeypatch: pytest.MonkeyPatch, pilot: list[str]) -> None:
    argv = ["--input", "a b/*.jsonl", *pilot, "--set", "task.prompt=it's {text}"]
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "dev", "-m", "pipelines.other", *argv])
    assert command(argv) == (
        """python -X dev -m pipelines.other --input 'a b/*.jsonl' --set 'task.prompt=it'"'"'s {text}'"""
    )


def test_without_other_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "pipelines.classify", "--pilot", "3"])
    assert command(["--pilot", "3"]) == "python -m pipelines.classify"


def test_called_by_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["scheduler", "job"])
    assert command(["--output", "o", "--pilot=3"]) == f"{sys.executable} -m pipelines.classify --output o"

"""A program with keys in its environment that nobody but a store of secrets gave it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.with_secrets import with_secrets

ROOT = Path(__file__).resolve().parents[2]
SECRETS = {"projects/p/secrets/a/versions/1": "key-a", "projects/p/secrets/b/versions/latest": "key=b"}


def test_names_are_filled_in_and_known_ones_stay() -> None:
    named = ", ".join(f"{name}={secret}" for name, secret in zip(("A", "B"), SECRETS, strict=True))
    asked: list[str] = []

    def read(secret: str) -> str:
        asked.append(secret)
        return SECRETS[secret]

    found = with_secrets({"PAIDONCE_SECRETS": named, "A": "mine", "C": "c"}, read)
    assert {name: found[name] for name in "ABC"} == {"A": "mine", "B": "key=b", "C": "c"}
    assert asked == ["projects/p/secrets/b/versions/latest"]


@pytest.mark.parametrize("named", ["", " , "])
def test_nothing_is_asked_for_nothing(named: str) -> None:
    assert with_secrets({"PAIDONCE_SECRETS": named}, SECRETS.__getitem__) == {"PAIDONCE_SECRETS": named}


@pytest.mark.parametrize("part", ["A", "A=", "=projects/p"])
def test_what_is_malformed_is_named(part: str) -> None:
    with pytest.raises(ValueError, match=f"'{part}' is not of the form"):
        with_secrets({"PAIDONCE_SECRETS": part}, SECRETS.__getitem__)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pipelines.with_secrets", *command]
    given = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(line, env=given, capture_output=True, text=True, timeout=60, check=False)


def test_the_program_takes_its_place() -> None:
    ran = run("sh", "-c", 'echo "$A $1"; exit 7', "sh", "two words", A="b")
    assert (ran.returncode, ran.stdout) == (7, "b two words\n")


@pytest.mark.parametrize(
    ("command", "named", "said"),
    [
        ([], "", "name the program"),
        (["true"], "A", "PAIDONCE_SECRETS: 'A'"),
        (["/no/such/program"], "", "/no/such/program cannot be run: No such file"),
    ],
)
def test_what_cannot_work_is_one_line(command: list[str], named: str, said: str) -> None:
    ran = run(*command, PAIDONCE_SECRETS=named)
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1
    assert said in ran.stderr

"""What runs and the commands beside them say of one output, in files of each format and in tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNT = 20


def figure(text: str, name: str) -> int:
    found = re.search(rf"^{name}  +([\d,]+)", text, re.MULTILINE)
    assert found is not None, f"no number for {name!r} in:\n{text}"
    return int(found[1].replace(",", ""))


def command(name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"pipelines.{name}", *flags], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "place", [pytest.param("csv", marks=pytest.mark.soak), pytest.param("sqlite", marks=pytest.mark.soak), "postgresql"]
)
def test_from_the_estimate_to_the_comparison(
    workspace: Any, own_server: Any, place: str, request: pytest.FixtureRequest
) -> None:
    output: dict[str, Any] = {"path": str(workspace.output)}
    if place == "csv":
        output["format"] = "csv"
    elif place == "sqlite":
        pytest.importorskip("sqlalchemy")
        output["table"] = f"sqlite:///{workspace.folder}/db.sqlite#labels"
    else:
        output["table"] = f"{request.getfixturevalue('postgresql').new()}#labels"
    workspace.write_input([{**row, "label": "negative" if row["id"] == "r00001" else "positive"} for row in rows()])
    workspace.configure(own_server.url, task={"expected": "label"}, output=output)
    own_server.script = lambda row, _number: own_server.answer("no JSON") if row == "r00003" else own_server.answer()

    before = workspace.run("--estimate")
    assert (before.code, figure(before.out, "to do")) == (0, COUNT), before.err
    assert "unknown" in before.out
    shown = workspace.run("--dry-run")
    assert (shown.code, own_server.calls) == (0, 0), shown.err

    pilot = workspace.run("--pilot", "5")
    assert (pilot.code, own_server.calls) == (0, 5), pilot.err
    assert figure(pilot.out, "rows to do") == COUNT - 5

    after = workspace.run("--estimate")
    assert (figure(after.out, "done"), figure(after.out, "to do")) == (5, COUNT - 5), after.err
    assert "from 5 earlier rows of this task" in after.out

    ran = workspace.run()
    assert (ran.code, own_server.calls) == (0, COUNT), ran.err
    assert f"right: {COUNT - 2} of {COUNT - 1} that say what is right (94.7 %)" in ran.out.splitlines()
    assert f"reasons:  python -m pipelines.failures {workspace.output}" in ran.out.splitlines()
    page = (workspace.output / "report.html").read_text(encoding="utf-8")
    assert f"{COUNT - 2} of {COUNT - 1} answers are the expected ones." in page
    assert f'<dd class="big ok">{COUNT - 1}</dd>' in page

    again = workspace.run("--dry-run")
    assert "0 requests shown" in again.out, again.err
    failed = command("failures", str(workspace.output))
    assert (failed.returncode, failed.stderr) == (0, "")
    assert "invalid_json" in failed.stdout
    compared = command("compare", str(workspace.output), str(workspace.output))
    assert (compared.returncode, compared.stderr) == (0, "")
    assert f"A is right in {COUNT - 2} of {COUNT - 1} (94.7 %)" in compared.stdout
    assert command("watch", str(workspace.output)).stdout.count("reasons:  ") == 1


def rows() -> list[dict[str, Any]]:
    return [{"id": f"r{number:05d}", "text": f"text {number}"} for number in range(COUNT)]


def test_a_text_is_judged_and_has_no_matrix(workspace: Any, own_server: Any) -> None:
    own_server.script = lambda row, _number: own_server.answer(f"Answer to {row}\n")
    told = [{**row, "gold": f"Answer to {row['id']}" if row["id"] < "r00015" else "other"} for row in rows()]
    workspace.write_input(told)
    workspace.configure(own_server.url, task={"schema": None, "expected": "gold"})
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert f"right: 15 of {COUNT} that say what is right (75.0 %)" in ran.out
    assert "reasons:" not in ran.out
    page = (workspace.output / "report.html").read_text(encoding="utf-8")
    assert f"15 of {COUNT} answers are the expected ones." in page
    assert "Confusion" not in page


def test_the_report_can_be_left_out(workspace: Any, own_server: Any) -> None:
    workspace.write_input(rows())
    workspace.configure(own_server.url, output={"report": False})
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert "report:" not in ran.out + ran.err
    assert not (workspace.output / "report.html").exists()


def test_columns_that_the_default_configuration_has_and_the_input_has_not(workspace: Any, own_server: Any) -> None:
    workspace.write_input(rows())
    workspace.configure(own_server.url, task={"expected": "label"}, input={"carry": ["product", "text"]})
    ran = workspace.run()
    assert ran.code == 2
    first, second = ran.err.splitlines()
    assert first.startswith("paidonce: task.expected: ")
    assert first.endswith("no column 'label'; its columns are: id, text; --set task.expected=null leaves it out")
    assert second.endswith("""; --set 'input.carry=["text"]' leaves it out""")
    again = workspace.run("--set", "task.expected=null", "--set", 'input.carry=["text"]')
    assert again.code == 0, again.err

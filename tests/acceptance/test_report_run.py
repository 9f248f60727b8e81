"""The report that a run leaves, and that it changes nothing about the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COUNT = 20


def report(output: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.report", str(output), *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_each_run_leaves_a_report(workspace: Any, own_server: Any) -> None:
    workspace.write_input(workspace.rows(COUNT))
    workspace.configure(own_server.url)

    first = workspace.run()

    page = workspace.output / "report.html"
    assert first.code == 0, first.err
    assert f"report:   {page}" in first.out.splitlines()
    assert f'<dd class="big ok">{COUNT}</dd>' in page.read_text(encoding="utf-8")

    before = workspace.tree("results", "failures", "runs")
    page.unlink()
    anew = report(workspace.output)

    assert (anew.returncode, anew.stdout) == (0, f"{page}\n"), anew.stderr
    assert page.exists()
    assert workspace.tree("results", "failures", "runs") == before
    again = workspace.run()
    assert again.counts["skipped"] == COUNT
    assert own_server.calls == COUNT
    assert before.items() <= workspace.tree("results", "failures", "runs").items()


def test_a_report_that_cannot_be_written_changes_no_exit_code(workspace: Any, own_server: Any) -> None:
    workspace.write_input(workspace.rows(COUNT))
    workspace.configure(own_server.url)
    (workspace.output / "report.html").mkdir(parents=True)

    ran = workspace.run()

    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == COUNT
    assert len([line for line in ran.err.splitlines() if "report" in line]) == 1
    assert "Traceback" not in ran.err
    assert len(workspace.ids()) == COUNT


def test_where_there_is_nothing(tmp_path: Path) -> None:
    done = report(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"paidonce: {tmp_path} holds no output of a run")
    assert done.stderr.count("\n") == 1


def test_its_help_is_quick() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "pipelines.report", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert "--output" in done.stdout
    assert not {"apache_beam", "pyarrow", "numpy", "jinja2"} & imported

"""Workers that are processes of an installed package, started from a folder of their own: what a cluster has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COUNT = 300


@pytest.mark.prism
def test_an_external_pool_gives_the_same_results_as_this_process(
    workspace: Any, mock: Callable[..., Any], prism: list[str], pool: Any
) -> None:
    server = mock()
    workspace.write_input(workspace.rows(COUNT), files=3)
    workspace.configure(server.url, input={"path": "../input"}, output={"path": "../here"})
    assert workspace.run().code == 0
    assert server.calls() == COUNT
    flags = ["--runner=PrismRunner", *prism[1:], *pool.flags()]
    ran = workspace.run(*flags, "--output=../out")

    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == COUNT
    assert workspace.answers("out") == workspace.answers("here")
    assert server.calls() == 2 * COUNT

    again = workspace.run(*flags, "--output=../out")

    assert again.code == 0, again.err
    assert again.counts["skipped"] == COUNT
    assert server.calls() == 2 * COUNT


def test_the_sample_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    """It is found from any folder, and says what it would do."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [installed, "-m", "pipelines.classify", "--dry-run", "--limit", "1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "review" in ran.stdout

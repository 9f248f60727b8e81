"""The command of an installed package, started from a folder of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


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

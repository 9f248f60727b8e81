"""What the program does with streams that were closed before it began."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
_PROGRAM = """
import os, sys
from pipelines.terminal import say, survive_any_terminal
survive_any_terminal()
descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
say("to stdout")
say("to stderr", error=True)
os.write(1, b"by a library")
os.write(2, b"by a library")
sys.exit(descriptor)
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_their_place(tmp_path: Path, closed: str) -> None:
    file = tmp_path / "journal"
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", _PROGRAM, str(file)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert ran.returncode > 2
    assert file.read_bytes() == b""
    assert "to stderr" not in ran.stdout
    assert "to stdout" not in ran.stderr

"""The second signal: at once, and without leaving processes behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
_PROGRAM = """
import signal, subprocess
from pipelines.interrupts import Interrupts
def save():
    print("saved", flush=True)
with Interrupts(lambda name: print(name, flush=True), save).handled():
    print(subprocess.Popen(["sleep", "300"]).pid, flush=True)
    while True:
        signal.pause()
"""


def runs(pid: int) -> bool:
    """Whether that process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc, which is not here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_what_was_started_ends_too(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(number)
    assert process.stdout.readline() == f"{number.name}\n"
    assert process.poll() is None
    assert runs(child)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == "saved\n"
    assert process.returncode == 130
    assert "stopping: calls under way are finished and kept" in err
    end = time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.01)

"""Runs a command and says what it took: seconds, seconds of CPU, peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Measured(NamedTuple):
    """One finished process. `peak_mb` is its largest resident set, in 10^6 bytes."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def measure(arguments: Sequence[str]) -> Measured:
    """Runs Python with `arguments` from the project's root; what it prints goes to stderr. Raises where it fails."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=sys.stderr)
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    seconds = time.perf_counter() - started
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)

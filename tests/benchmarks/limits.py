"""How well the limits are kept and used, by the whole pipeline against the mock server, in real time.

    python -m tests.benchmarks.limits [--mock PATH] [CASE]...

Without --mock the server is built with go from ../shared/mockllm. Prints a table, and exits with 1 where a case
misses its bounds. All cases together take about 13 minutes; it is no part of the test suite.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
START = 10.0  # seconds, in which a case may get up to its pace
MINUTE = 60.0


class Case(NamedTuple):
    """A server with limits, our own limits, and what has to come of the two."""

    server: list[str]
    limits: dict[str, Any]
    allowed: float  # per minute
    unit: str = "ok"  # of `allowed`: ok (calls that were answered) or tokens
    rows: int = 3000
    most: float | None = None  # in any 60 seconds
    used: float = 0.0  # least share of `allowed` after the start
    refused: float = 1.0  # largest share of 429s


CASES = {
    "rpm": Case(["-rpm", "1200"], {"requests_per_minute": 1200}, 1200, most=1200, used=0.95, refused=0.01),
    "tpm": Case(
        ["-tpm", "60000"], {"tokens_per_minute": 60000}, 60000, "tokens", rows=6000, most=60000, used=0.95, refused=0.01
    ),
    "rpm-learned": Case(["-rpm", "1200"], {}, 1200, used=0.8, refused=0.1),
    "tpm-learned": Case(["-tpm", "60000"], {}, 60000, "tokens", 6000, used=0.8, refused=0.1),
    "rpm-learned-crowded": Case(["-rpm", "1200", "-burst", "1s"], {"max_in_flight": 400}, 1200, used=0.8, refused=0.1),
}


class Sample(NamedTuple):
    at: float
    ok: int
    tokens: int
    refused: int


class Watch(threading.Thread):
    """Reads the server's counters ten times a second."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.samples, self.over = url, [Sample(time.monotonic(), 0, 0, 0)], threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            self.read()

    def read(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/stats", timeout=10) as reply:
            stats: dict[str, Any] = json.load(reply)
        outcomes = stats["outcomes"]
        refused = sum(count for name, count in outcomes.items() if name.startswith("rate_limited"))
        self.samples.append(Sample(time.monotonic(), outcomes.get("ok", 0), stats["tokens_billed"], refused))
        return stats


@contextmanager
def mock(binary: str, *flags: str) -> Iterator[str]:
    """The server on a free port; its address without /v1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([binary, "-port", str(port), *flags], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def pipeline(url: str, folder: Path, rows: int, limits: dict[str, Any]) -> int:
    """Classifies so many rows; the exit code."""
    lines = (
        json.dumps({"id": f"r{n}", "text": f"a review of {n % 7} words and more, number {n}"}) for n in range(rows)
    )
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    settings = {
        "task": {"name": "limits", "prompt": "Review: {text}"},
        "input": {"path": str(folder / "in.jsonl")},
        "output": {"path": str(folder / "out")},
        "model": {"provider": "openai", "name": "mock-1", "base_url": f"{url}/v1"},
        "limits": {"max_in_flight": 100, "headroom": 1.0, **limits},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    command = [sys.executable, "-m", "pipelines.classify", "--config", str(folder / "config.yaml")]
    with (folder / "log").open("w") as log:
        return subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode


def most_in_a_minute(samples: list[Sample], unit: str) -> int:
    most, start = 0, 0
    for sample in samples:
        while sample.at - samples[start].at > MINUTE:
            start += 1
        most = max(most, getattr(sample, unit) - getattr(samples[start], unit))
    return most


def measure(name: str, case: Case, binary: str) -> bool:
    """Runs a case and prints a line of the table; whether it kept its bounds."""
    with tempfile.TemporaryDirectory() as folder, mock(binary, "-latency", "50", *case.server) as url:
        watch = Watch(url)
        watch.start()
        code = pipeline(url, Path(folder), case.rows, case.limits)
        watch.over.set()
        watch.join()
        stats = watch.read()
    last = watch.samples[-1]
    began = next(sample.at for sample in watch.samples if sample.ok or sample.refused)
    ended = next(sample.at for sample in watch.samples if sample.ok == last.ok)
    after = next(sample for sample in watch.samples if sample.at >= began + START)
    rate = (getattr(last, case.unit) - getattr(after, case.unit)) / (ended - after.at) * MINUTE
    peak = most_in_a_minute(watch.samples, case.unit)
    share, refused = rate / case.allowed, last.refused / stats["calls"]
    good = code == 0 and last.ok == case.rows and share >= case.used and refused <= case.refused
    good = good and (case.most is None or peak <= case.most)
    print(
        f"{name:20} {last.ok:6} ok  {ended - began:6.1f} s  {share:7.1%} of {case.allowed:.0f} {case.unit}/min after"
        f" {START:.0f} s  peak {peak}/60 s (calls that came: {stats['peak_calls_in_60s']})  429s {refused:.2%}"
        f"  exit {code}  {'ok' if good else 'MISSED'}",
        flush=True,
    )
    return good


def attempts(binary: str) -> bool:
    """Every call fails: how many requests a row gets."""
    with tempfile.TemporaryDirectory() as folder, mock(binary, "-fail-rate", "1", "-fail-times", "0") as url:
        code = pipeline(url, Path(folder), 50, {"max_attempts": 4})
        stats = Watch(url).read()
    good = stats["calls"] == 200
    print(f"{'attempts':20} 50 rows, max_attempts 4, always 5xx: {stats['calls']} requests  exit {code}", flush=True)
    return bool(good)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mock", help="the server's binary")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"attempts, {', '.join(CASES)}; none: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = options.mock or f"{folder}/mockllm"
        if not options.mock:
            subprocess.run(["go", "build", "-o", binary, "."], cwd=ROOT.parent / "shared" / "mockllm", check=True)
        good = True
        for name in options.cases or ["attempts", *CASES]:
            good = (attempts(binary) if name == "attempts" else measure(name, CASES[name], binary)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

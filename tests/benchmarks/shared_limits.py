"""How well several worker processes keep to the limits of one account, and use them, against the mock server, in real
time.

    python -m tests.benchmarks.shared_limits [--mock PATH] [--redis PATH] [CASE]...

Without --mock the server is built with go from ../shared/mockllm. Prints a table, and exits with 1 where a case
misses its bounds. All cases together take about 20 minutes; it is no part of the test suite.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.limits import MINUTE, ROOT, START, Watch, mock, most_in_a_minute

WORKERS = 4
FILES = 16  # of the input, so that each worker has some
PATIENCE = 900.0  # seconds until a run is given up


class Case(NamedTuple):
    """A server with limits, our own limits, and what has to come of the two."""

    server: list[str]
    limits: dict[str, Any]
    allowed: float  # per minute
    unit: str = "ok"  # of `allowed`: ok (calls that were answered) or tokens
    rows: int = 3600
    shared: bool = True
    killed_at: float | None = None  # seconds after the first call, at which Redis is killed
    back_at: float | None = None  # and started again


RPM, TPM = {"requests_per_minute": 1200}, {"tokens_per_minute": 60_000}
CASES = {
    "rpm": Case(["-rpm", "1200"], RPM, 1200),
    "rpm-killed": Case(["-rpm", "1200"], RPM, 1200, killed_at=75),
    "rpm-killed-back": Case(["-rpm", "1200"], RPM, 1200, rows=4800, killed_at=60, back_at=80),
    "rpm-divided": Case(["-rpm", "1200"], {**RPM, "workers": WORKERS}, 1200, shared=False),
    "tpm": Case(["-tpm", "60000"], TPM, 60_000, "tokens", rows=6000),
    "tpm-killed": Case(["-tpm", "60000"], TPM, 60_000, "tokens", rows=6000, killed_at=75),
    "rpm-learned": Case(["-rpm", "1200"], {}, 1200),
}
USED, REFUSED = 0.9, 0.02  # the least share of what is allowed, after the start; the largest share of 429s


class Redis:
    """A Redis in memory on a free port, until it is killed."""

    def __init__(self, binary: str) -> None:
        self._binary = binary
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        command = [self._binary, "--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def redis(binary: str, case: Case, watch: Watch) -> Iterator[str | None]:
    """The Redis of a case; its URL. It goes, and comes back, when the case says so."""
    if not case.shared:
        yield None
        return
    server, ended = Redis(binary), threading.Event()

    def go_and_come() -> None:
        while len(watch.samples) < 2 or not watch.samples[-1].ok:
            if ended.wait(0.1):
                return
        if case.killed_at is not None and not ended.wait(case.killed_at):
            server.kill()
            if case.back_at is not None and not ended.wait(case.back_at - case.killed_at):
                server.start()

    thread = threading.Thread(target=go_and_come)
    thread.start()
    try:
        yield server.url
    finally:
        ended.set()
        thread.join()
        server.kill()


def pipeline(url: str, folder: Path, case: Case, shared: str | None) -> dict[str, Any]:
    """Classifies the rows of a case by several processes; the account."""
    (folder / "in").mkdir()
    for number in range(FILES):
        lines = (
            json.dumps({"id": f"r{n}", "text": f"a review of {n % 7} words and more, number {n}"})
            for n in range(number, case.rows, FILES)
        )
        (folder / "in" / f"{number:02}.jsonl").write_text("\n".join(lines) + "\n")
    settings = {
        "task": {"name": "limits", "prompt": "Review: {text}"},
        "input": {"path": str(folder / "in")},
        "output": {"path": str(folder / "out"), "report": False},
        "model": {"provider": "openai", "name": "mock-1", "base_url": f"{url}/v1"},
        "limits": {"max_in_flight": 32, "headroom": 1.0, "shared": shared, **case.limits},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    command = [sys.executable, "-m", "pipelines.classify", "--config", str(folder / "config.yaml")]
    command += ["--direct_running_mode=multi_processing", f"--direct_num_workers={WORKERS}"]
    with (folder / "log").open("w") as log:
        subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=True, timeout=PATIENCE)
    account: dict[str, Any] = json.loads(next((folder / "out" / "runs").glob("*.json")).read_text())
    return account


def measure(name: str, case: Case, mock_binary: str, redis_binary: str) -> bool:
    """Runs a case and prints a line of the table; whether it kept its bounds."""
    with tempfile.TemporaryDirectory() as folder, mock(mock_binary, "-latency", "50", *case.server) as url:
        watch = Watch(url)
        watch.start()
        with redis(redis_binary, case, watch) as shared:
            account = pipeline(url, Path(folder), case, shared)
        watch.over.set()
        watch.join()
        stats = watch.read()
    last = watch.samples[-1]
    began = next(sample.at for sample in watch.samples if sample.ok or sample.refused)
    # Near the end some workers have nothing left to do, and under divided limits their parts are nobody's.
    nearly = next(s for s in watch.samples if s.ok >= 0.85 * last.ok)
    after = next(sample for sample in watch.samples if sample.at >= began + START)
    rate = (getattr(nearly, case.unit) - getattr(after, case.unit)) / (nearly.at - after.at) * MINUTE
    peak = most_in_a_minute(watch.samples, case.unit)
    share, refused = rate / case.allowed, last.refused / stats["calls"]
    learned = not (RPM.keys() | TPM.keys()) & case.limits.keys()
    good = account["ok"] == case.rows and share >= USED and refused <= REFUSED and (learned or peak <= case.allowed)
    print(
        f"{name:16} {last.ok:6} ok  {share:7.1%} of {case.allowed:.0f} {case.unit}/min after {START:.0f} s  peak {peak}"
        f"/60 s  429s {refused:.2%}  {account['notes']}  {'ok' if good else 'MISSED'}",
        flush=True,
    )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mock", help="the server's binary")
    parser.add_argument("--redis", help="the binary of Redis", default="redis-server")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; none: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = options.mock or f"{folder}/mockllm"
        if not options.mock:
            subprocess.run(["go", "build", "-o", binary, "."], cwd=ROOT.parent / "shared" / "mockllm", check=True)
        good = [measure(name, CASES[name], binary, options.redis) for name in options.cases or CASES]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()

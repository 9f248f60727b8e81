"""What a worker needs to know what a run's journal holds: time and memory to load it, and look-ups a second.

python tests/benchmarks/journal_index.py --spans 400 --rows 2500
python tests/benchmarks/journal_index.py --spans 1 --rows 1000000
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from measured import ROOT

sys.path.insert(0, str(ROOT))

from transforms.digests import digest
from transforms.journal import OK, Entry, encode, numbered_path
from transforms.span_index import SpanIndex

LOOK_UPS = 20_000
STEP = 0.005  # seconds between two looks at the memory in use
PAGE = 4096


def entry(number: int) -> Entry:
    """A result of about 600 bytes as a line."""
    row = {
        "id": f"row-{number}",
        "label": "positive",
        "product": "kettle",
        "output_text": '{"label": "positive"}',
        "model": "gpt-5-mini-2025-08-07",
        "finish_reason": "stop",
        "prompt_tokens": 50 + number % 40,
        "completion_tokens": 12,
        "cached_tokens": 0,
        "cost_usd": 0.0000345,
        "attempts": 1,
        "latency_ms": 812.4 + number % 100,
        "run_id": "20260131T080000-1a2b3c",
        "task_hash": "0123456789abcdef0123456789abcdef",
        "finished_at": "2026-01-31T08:00:00.123Z",
        "shared_from": None,
    }
    return Entry(digest(str(row["id"])), OK, row)


def span_name(number: int) -> str:
    """The key of a span."""
    return f"{number:06d}-00000000000"


def write_journal(folder: str, spans: int, rows: int) -> int:
    """Writes `spans` files of `rows` lines each. Returns the bytes of all."""
    size = 0
    for span in range(spans):
        with Path(numbered_path(folder, span_name(span), 1)).open("wb") as file:
            for row in range(rows):
                size += file.write(encode(entry(span * rows + row)))
    return size


class Peak:
    """The most memory that the process has while the block runs, above what it had before, in 10^6 bytes."""

    def __enter__(self) -> Peak:
        self._before = self._most = self._resident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def mb(self) -> float:
        """So far."""
        return (self._most - self._before) / 1e6

    def _watch(self) -> None:
        while not self._ended.wait(STEP):
            self._most = max(self._most, self._resident())

    def _resident(self) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def main() -> None:
    """Prints what loading took, then look-ups, then looks that find nothing new."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=400)
    parser.add_argument("--rows", type=int, default=2500, help="in each span")
    options = parser.parse_args()
    spans, rows = options.spans, options.rows
    with tempfile.TemporaryDirectory() as folder:
        size = write_journal(folder, spans, rows)
        index = SpanIndex(folder)
        with Peak() as peak:
            began = time.perf_counter()
            for span in range(spans):
                index.load(span_name(span))
            seconds = time.perf_counter() - began
        print(f"{spans * rows:,} rows in {spans:,} spans, {size / 1e6:.0f} MB: {seconds:.1f} s, {peak.mb:.0f} MB more")

        wanted = [random.randrange(spans * rows) for _ in range(LOOK_UPS)]
        began = time.perf_counter()
        for number in wanted:
            found = index.find(span_name(number // rows), digest(f"row-{number}"))
            assert found is not None and found.row["id"] == f"row-{number}"  # noqa: PT018
        print(f"look-ups: {LOOK_UPS / (time.perf_counter() - began):,.0f} a second")

        began = time.perf_counter()
        for number in wanted:
            index.load(span_name(number // rows))
        took = (time.perf_counter() - began) / LOOK_UPS
        print(f"a look at a span with one file of another, where nothing is new: {took * 1e6:.1f} microseconds")
        own = numbered_path(folder, span_name(0), 1)
        began = time.perf_counter()
        for _number in wanted:
            index.load(span_name(0), own)
        took = (time.perf_counter() - began) / LOOK_UPS
        print(f"a look at a span with its own file alone: {took * 1e6:.1f} microseconds")


if __name__ == "__main__":
    main()

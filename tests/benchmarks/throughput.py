"""How many calls a second the whole pipeline makes, as a share of what the calls in flight and the latency allow.

python tests/benchmarks/throughput.py --rows 20000 --in-flight 100 400
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path

from measured import ROOT, Measured, measure
from mockserver import MockServer, mock_server

REVIEWS = ROOT.parent / "shared" / "data" / "product_reviews.jsonl"


def write_rows(path: Path, count: int) -> None:
    """`count` review sentences, each made different from all others."""
    texts = [json.loads(line)["text"] for line in REVIEWS.read_text().splitlines()]
    with path.open("w") as file:
        for number in range(count):
            text = f"{texts[number % len(texts)]} ({number})"
            file.write(json.dumps({"id": f"row-{number}", "text": text}) + "\n")


def main() -> None:
    """Prints a line for each number of calls in flight and each way to make them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--latency", type=float, default=200.0, help="mean latency of the server in milliseconds")
    parser.add_argument("--mock", help="the mock server's binary; without it, it is built")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock_server("-latency", str(options.latency), "-jitter", "0.3", binary=options.mock) as server,
    ):
        rows = Path(folder) / "rows.jsonl"
        write_rows(rows, options.rows)
        for in_flight in options.in_flight:
            server.reset()
            arguments = ["-m", "pipelines.classify", "--input", str(rows), "--output", f"{folder}/{in_flight}"]
            for setting in (
                "model.provider=openai",
                "model.name=mock-1",
                f"model.base_url={server.url}",
                f"limits.max_in_flight={in_flight}",
            ):
                arguments += ["--set", setting]
            report("pipeline", in_flight, options.rows, measure(arguments), server)
            if importlib.util.find_spec("aiohttp") is None:
                continue
            server.reset()
            loop = ["tests/benchmarks/aiohttp_loop.py", str(rows), f"{folder}/{in_flight}.jsonl", server.url]
            report("aiohttp loop", in_flight, options.rows, measure([*loop, str(in_flight)]), server)


def report(name: str, in_flight: int, rows: int, took: Measured, server: MockServer) -> None:
    """One line on what a run took and what the server saw."""
    stats = server.stats()
    ideal = in_flight / stats["mean_latency_ms"] * 1000
    print(
        f"{name}, {in_flight} in flight: {stats['calls_per_s']:.0f} of {ideal:.0f} calls/s "
        f"({stats['calls_per_s'] / ideal:.0%}), most in flight {stats['max_in_flight']}, "
        f"{took.cpu_seconds / rows * 1000:.2f} s CPU per 1,000 calls, peak {took.peak_mb:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()

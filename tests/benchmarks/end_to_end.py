"""Rows a second, peak memory and CPU by step where every row is called, answered where HTTP would begin.

python tests/benchmarks/end_to_end.py --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from measured import measure
from resume import write_input

SETTINGS = ["model.provider=openai", "model.name=mock-1", "model.base_url=http://127.0.0.1:9/v1"]
STUBBED = """
import sys
sys.path.insert(0, "tests/benchmarks")
from cpu_clocks import answer_at_once, main
answer_at_once()
sys.exit(main("classify", "stubbed", sys.argv[1:]))
"""


def main() -> None:
    """Prints a line for the run as it is, then one for each step of a run with clocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--clocked-rows", type=int, default=100_000, help="rows of the run with clocks; 0: none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        took = measure(["-c", STUBBED, *arguments(folder, "plain", options.rows)])
        print(
            f"{options.rows:,} rows: {took.seconds:.1f} s, {options.rows / took.seconds:,.0f} rows/s, "
            f"{took.cpu_seconds / options.rows * 1e6:.0f} microseconds of CPU a row, peak {took.peak_mb:.0f} MB",
            flush=True,
        )
        if options.clocked_rows:
            totals = folder / "totals.json"
            clocked = arguments(folder, "clocked", options.clocked_rows)
            measure(["tests/benchmarks/cpu_clocks.py", str(totals), *clocked])
            print(f"CPU a row by step, of {options.clocked_rows:,} rows:")
            for step, seconds in sorted(json.loads(totals.read_text()).items(), key=lambda item: -item[1]):
                print(f"  {step:15} {seconds / options.clocked_rows * 1e6:7.1f} microseconds")


def arguments(folder: Path, name: str, rows: int) -> list[str]:
    """The command line of a run over so many new rows."""
    write_input(folder / name, rows)
    flags = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["--input", str(folder / name / "*.jsonl"), "--output", str(folder / f"{name}-out"), *flags]


if __name__ == "__main__":
    main()

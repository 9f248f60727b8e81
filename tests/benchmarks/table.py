"""How fast rows go into a table, and how much memory a whole run with it takes.

python tests/benchmarks/table.py --url postgresql+psycopg://USER@HOST/DATABASE --rows 20000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from measured import ROOT, measure
from mockserver import mock_server
from resume import write_input


def write_rows(url: str, rows: int) -> float:
    """Seconds that upserting so many results takes."""
    sys.path.insert(0, str(ROOT))
    import pyarrow as pa

    from transforms.rows import result_schema
    from transforms.table import Tables, table_spec
    from transforms.write_table import TableWriter

    spec = table_spec(f"{url}#benchmark_rows", result_schema({"label": pa.string()}, {}))
    tables = Tables(spec, write=True)
    tables.create()
    tables.close()
    writer = TableWriter(spec, "ok")
    started = time.perf_counter()
    for number in range(rows):
        row = {"id": f"row-{number}", "label": "positive", "output_text": '{"label": "positive"}', "attempts": 1}
        writer.write({**row, "prompt_tokens": 60, "cost_usd": 0.0001, "finished_at": "2026-01-31T08:00:00.123Z"})
    writer.close()
    took = time.perf_counter() - started
    writer.disconnect()
    return took


def main() -> None:
    """Prints rows a second of the table alone, then time and memory of a run, and of the run that finds all done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="a database for this alone: it leaves tables there")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--mock", help="the mock server's binary; without it, it is built")
    options = parser.parse_args()
    took = write_rows(options.url, options.rows)
    print(f"{options.rows:,} rows upserted in {took:.1f} s: {options.rows / took:,.0f} rows/s")
    with tempfile.TemporaryDirectory() as name, mock_server("-latency", "20", binary=options.mock) as server:
        folder = Path(name)
        write_input(folder / "input", options.rows)
        arguments = ["-m", "pipelines.classify", "--input", str(folder / "input" / "*.jsonl")]
        arguments += ["--output", str(folder / "out")]
        for setting in (
            "model.provider=openai",
            "model.name=mock-1",
            f"model.base_url={server.url}",
            "input.carry=[]",
            "limits.max_in_flight=100",
            f"output.table={options.url}#benchmark_run",
        ):
            arguments += ["--set", setting]
        for what in ("run", "again, all done"):
            run = measure(arguments)
            print(f"{what}: {run.seconds:.1f} s, peak {run.peak_mb:.0f} MB, {server.stats()['calls']} calls")


if __name__ == "__main__":
    main()

"""How long it takes to find that nothing, or little, is left to do, beside a bare Beam read and write of as many rows.

python tests/benchmarks/resume.py --rows 1000000 --todo 10000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from measured import ROOT, measure
from mockserver import mock_server

RUN_ID = "20260101T000000-000000"
FILES = 4
BARE = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
pipeline | beam.io.ReadFromText(sys.argv[1]) | beam.io.WriteToText(sys.argv[2], num_shards=0)
pipeline.run().wait_until_finish()
"""


def write_input(folder: Path, rows: int) -> None:
    """`rows` records of about 110 bytes in a few files."""
    folder.mkdir()
    for part in range(FILES):
        with (folder / f"part-{part}.jsonl").open("w") as file:
            for number in range(part, rows, FILES):
                text = f"Review {number}: it does what it says, the box was dented and the manual is of no use."
                file.write(json.dumps({"id": f"row-{number}", "text": text}) + "\n")


def write_results(output: Path, rows: int) -> None:
    """Results of an earlier run for the first `rows` records, in shards of 100,000."""
    sys.path.insert(0, str(ROOT))
    import pyarrow as pa

    from transforms.rows import result_schema
    from transforms.shards import Roll, ShardFormat

    roll = Roll(ShardFormat("parquet", 100_000, result_schema({"label": pa.string()}, {})), str(output / "results"))
    for number in range(rows):
        roll.write({"id": f"row-{number}", "label": "positive", "run_id": RUN_ID, "attempts": 1})
    roll.close()
    for number, staged in enumerate(roll.finished):
        Path(staged.path).rename(output / "results" / f"{RUN_ID}-{number:05d}-of-{len(roll.finished):05d}.parquet")


def main() -> None:
    """Prints what the bare pipeline took, and what the resume took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--todo", type=int, default=0, help="how many of the rows are still to be called")
    parser.add_argument("--mock", help="the mock server's binary; without it, it is built")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, mock_server("-latency", "20", binary=options.mock) as server:
        folder = Path(name)
        write_input(folder / "input", options.rows)
        write_results(folder / "out", options.rows - options.todo)
        bare = measure(["-c", BARE, str(folder / "input" / "*.jsonl"), str(folder / "bare")])
        arguments = ["-m", "pipelines.classify", "--input", str(folder / "input" / "*.jsonl")]
        arguments += ["--output", str(folder / "out")]
        for setting in (
            "model.provider=openai",
            "model.name=mock-1",
            f"model.base_url={server.url}",
            "limits.max_in_flight=100",
        ):
            arguments += ["--set", setting]
        took = measure(arguments)
        calls = server.stats()["calls"]
        print(
            f"bare Beam read and write: {bare.seconds:.1f} s, {bare.cpu_seconds:.1f} s of CPU, "
            f"peak {bare.peak_mb:.0f} MB"
        )
        print(
            f"resume, {options.todo:,} of {options.rows:,} to do: {took.seconds:.1f} s "
            f"({took.seconds / bare.seconds:.2f} of bare), {took.cpu_seconds:.1f} s of CPU, "
            f"peak {took.peak_mb:.0f} MB, {calls} calls"
        )


if __name__ == "__main__":
    main()

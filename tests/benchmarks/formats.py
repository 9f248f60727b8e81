"""Rows a second and peak memory of whole runs on each input format, the answers given where HTTP would begin.

python tests/benchmarks/formats.py --rows 100000 1000000
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measured import ROOT, measure

sys.path.insert(0, str(ROOT))

from transforms.llm.transport import Response

FORMATS = ["csv", "parquet", "jsonl.gz", "jsonl"]
GROUP_ROWS = 100_000  # of a Parquet row group, in one file
ANSWER = {
    "model": "mock-1",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": '{"label": "positive"}'}}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 5},
}
# The command, with an endpoint that answers at once and needs no other process.
STUBBED = f"""
import sys
from transforms.llm.transport import Response, Transport
from pipelines.run import main
Transport.post = lambda self, body: Response({", ".join(map(repr, Response(200, {}, ANSWER, "")))})
sys.exit(main("classify", "stubbed", sys.argv[1:]))
"""


def records(rows: int) -> Iterator[dict[str, str]]:
    """Records of about 110 bytes."""
    for number in range(rows):
        text = f"Review {number}: it does what it says, the box was dented and the manual is of no use."
        yield {"id": f"row-{number}", "text": text}


def write(path: Path, rows: int) -> None:
    """One file of `rows` records in the format that its ending names."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text"])
            writer.writeheader()
            writer.writerows(records(rows))
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("id", pa.string()), ("text", pa.string())])
        with pq.ParquetWriter(path, schema) as target:
            batch: list[dict[str, str]] = []
            for record in records(rows):
                batch.append(record)
                if len(batch) == GROUP_ROWS:
                    target.write_table(pa.Table.from_pylist(batch, schema))
                    batch.clear()
            if batch:
                target.write_table(pa.Table.from_pylist(batch, schema))
    else:
        with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as lines:
            lines.writelines(json.dumps(record) + "\n" for record in records(rows))


def main() -> None:
    """Prints a line for each format and each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    options = parser.parse_args()
    settings = ["model.provider=openai", "model.name=mock-1", "model.base_url=http://127.0.0.1:9/v1", "input.carry=[]"]
    flags = [part for setting in settings for part in ("--set", setting)]
    for name in options.formats:
        for rows in options.rows:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, f"rows.{name}")
                write(path, rows)
                took = measure(["-c", STUBBED, "--input", str(path), "--output", f"{folder}/out", *flags])
            print(
                f"{name}, {rows:,} rows: {rows / took.seconds:,.0f} rows/s, {took.cpu_seconds / rows * 1000:.2f} s CPU "
                f"per 1,000, peak {took.peak_mb:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()

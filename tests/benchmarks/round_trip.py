"""Rows through every pair of an input and an output format: the same ids, the same texts.

python tests/benchmarks/round_trip.py --rows 100000
python tests/benchmarks/round_trip.py --rows 5000 --inputs csv parquet --outputs table
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from formats import STUBBED
from measured import ROOT, measure

sys.path.insert(0, str(ROOT))

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from transforms import files
from transforms.layout import Layout
from transforms.published import Published

Rows = dict[str, str]  # texts by id

# What has broken readers and writers: line ends of all kinds, quotes, what spreadsheets run, NUL, marks of direction
# and order, combining characters, and characters of two, three and four bytes.
NASTY = [
    *(
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\0",
        "\x0b",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\ufffd",
        "\x7f",
        "\\",
        "'",
        '"',
        '""',
    ),
    *("=1+1", "+", "-", "@", ",", ";", "|", "{text}", "{{", "</script>", "%s", "\u202e", "e\u0301", "\u00e9", "\u4e2d"),
    *("\U0001f600", "\U0010fffd", " ", "  ", "null", "NaN", "007", "1e999", "\\n", "\\u0000"),
]


def rows_of(count: int, seed: int = 7) -> Rows:
    """So many rows, each id with something nasty in it."""
    draw = random.Random(seed)
    found = {}
    for number in range(count):
        identifier = f"{draw.choice(NASTY)}{number}{draw.choice(NASTY)}"
        found[identifier] = "t" + "".join(draw.choices([*NASTY, "plain words "], k=draw.randrange(1, 12)))
    return found


def write_jsonl(path: Path, rows: Rows) -> None:
    """A JSON object a line."""
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w", newline="\n") as lines:
        lines.writelines(json.dumps({"id": name, "text": text}) + "\n" for name, text in rows.items())


def write_delimited(path: Path, rows: Rows) -> None:
    """A header and a row each, as the csv module writes them; packed where the path ends in .zst."""
    plain = path.with_suffix("") if path.suffix == ".zst" else path
    with plain.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if plain.suffix == ".tsv" else ",")
        writer.writerow(["id", "text"])
        writer.writerows(rows.items())
    if plain != path:
        path.write_bytes(zstandard.compress(plain.read_bytes()))
        plain.unlink()


def write_parquet(path: Path, rows: Rows) -> None:
    """Two columns of text, in several row groups."""
    pq.write_table(pa.table({"id": list(rows), "text": list(rows.values())}), path, row_group_size=10_000)


def write_batch(path: Path, rows: Rows) -> None:
    """Requests as OpenAI's Batch API takes them."""
    with path.open("w") as lines:
        for name, text in rows.items():
            body = {"model": "mock-1", "messages": [{"role": "user", "content": text}]}
            lines.write(json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}))
            lines.write("\n")


def write_database(path: Path, rows: Rows) -> None:
    """A table of SQLite."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE reviews (id TEXT, text TEXT)")
    connection.executemany("INSERT INTO reviews VALUES (?, ?)", rows.items())
    connection.commit()
    connection.close()


INPUTS: dict[str, tuple[str, Callable[[Path, Rows], None]]] = {
    "jsonl": ("rows.jsonl", write_jsonl),
    "jsonl.gz": ("rows.jsonl.gz", write_jsonl),
    "csv": ("rows.csv", write_delimited),
    "csv.zst": ("rows.csv.zst", write_delimited),
    "tsv": ("rows.tsv", write_delimited),
    "parquet": ("rows.parquet", write_parquet),
    "openai_batch": ("rows.batch.jsonl", write_batch),
    "query": ("rows.db", write_database),
}
OUTPUTS = ["parquet", "jsonl", "csv", "table"]


def settings_of(source: str, path: Path, output: str, folder: Path) -> Iterator[str]:
    """The run's settings."""
    yield from ("model.provider=openai", "model.name=mock-1", "model.base_url=http://127.0.0.1:9/v1")
    yield from ("input.carry=[text]", "output.report=false", "task.share_identical=never")
    yield f"input.path=sqlite:///{path}#reviews" if source == "query" else f"input.path={path}"
    yield f"output.table=sqlite:///{folder}/out.db#results" if output == "table" else f"output.format={output}"


def results(folder: Path) -> Rows:
    """What the run has published."""
    layout = Layout(f"{folder}/out")
    account = files.read_json(layout.accounts()[-1])
    found: Rows = {}
    for batch in Published.of(layout, account).results(["id", "text"]):
        for name, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
            assert name not in found, f"{name!r} is there twice"
            found[name] = text
    return found


def main() -> None:
    """Prints a line for each pair. Ends with an error where a row was lost, changed or merged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--outputs", nargs="+", choices=OUTPUTS, default=OUTPUTS)
    options = parser.parse_args()
    rows = rows_of(options.rows)
    for source in options.inputs:
        with tempfile.TemporaryDirectory() as top:
            name, write = INPUTS[source]
            path = Path(top, name)
            write(path, rows)
            for output in options.outputs:
                folder = Path(top, f"to-{output}")
                folder.mkdir()
                flags = [part for each in settings_of(source, path, output, folder) for part in ("--set", each)]
                took = measure(["-c", STUBBED, "--output", f"{folder}/out", *flags])
                found = results(folder)
                wrong = [name for name in rows.keys() | found.keys() if rows.get(name) != found.get(name)]
                assert not wrong, f"{source} to {output}: {len(wrong)} rows, e.g. {sorted(wrong)[:3]}"
                print(f"{source} to {output}: {len(found):,} rows, all the same, {took.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

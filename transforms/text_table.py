"""A table of texts as one file for people's own tools: JSONL, CSV or Parquet by the file's ending."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.write import JsonlWriter

_BATCH = 10_000


def write_rows(path: str, columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> int:
    """Writes rows of texts and returns how many they are. In CSV (RFC 4180) null is an empty field. A file that cannot
    be finished is removed. Raises OSError."""
    write = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[path.rsplit(".", 1)[-1]]
    try:
        return write(path, columns, rows)
    except BaseException:
        if os.path.exists(path):
            os.remove(path)
        raise


def _jsonl(path: str, columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> int:
    written = 0
    writer = JsonlWriter(path)
    for row in rows:
        writer.write({name: row.get(name) for name in columns})
        written += 1
    writer.close()
    return written


def _csv(path: str, columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> int:
    written = 0
    with open(path, "x", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        for row in rows:
            writer.writerow([row.get(name) for name in columns])
            written += 1
    return written


def _parquet(path: str, columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> int:
    written = 0
    schema = pa.schema([(name, pa.string()) for name in columns])
    rows = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(rows, _BATCH)):
            writer.write_table(pa.Table.from_pylist([dict(row) for row in chunk], schema=schema))
            written += len(chunk)
    return written

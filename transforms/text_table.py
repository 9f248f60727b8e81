"""A table of texts as one file for people's own tools: JSONL, CSV or Parquet by the file's ending."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from transforms.records import Row
from transforms.shards import ShardFormat, ShardWriter


def write_rows(path: str, columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> int:
    """Writes rows of texts and returns how many they are. In CSV null is an empty cell, and what a spreadsheet would
    take for a formula has an apostrophe in front: see csv_file. A file that cannot be finished is removed. Raises
    OSError."""
    schema = pa.schema([(name, pa.string()) for name in columns])
    writer = ShardFormat(path.rsplit(".", 1)[-1], 1, schema).writer(path)
    return write_all(path, writer, ({name: row.get(name) for name in columns} for row in rows))


def write_all(path: str, writer: ShardWriter, rows: Iterable[Row]) -> int:
    """Writes rows with the writer that has opened `path` and returns how many they are. A file that cannot be finished
    is removed."""
    written = 0
    try:
        for row in rows:
            writer.write(row)
            written += 1
        writer.close()
    except BaseException:
        writer.discard()
        if os.path.exists(path):
            os.remove(path)
        raise
    return written

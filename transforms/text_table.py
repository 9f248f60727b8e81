"""A table of texts as one file for people's own tools: JSONL, CSV or Parquet by the file's ending."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from transforms.write import ShardFormat


def write_rows(path: str, columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> int:
    """Writes rows of texts and returns how many they are. In CSV null is an empty cell, and what a spreadsheet would
    take for a formula has an apostrophe in front: see csv_file. A file that cannot be finished is removed. Raises
    OSError."""
    written = 0
    schema = pa.schema([(name, pa.string()) for name in columns])
    writer = ShardFormat(path.rsplit(".", 1)[-1], 1, schema).writer(path)
    try:
        for row in rows:
            writer.write({name: row.get(name) for name in columns})
            written += 1
        writer.close()
    except BaseException:
        writer.discard()
        if os.path.exists(path):
            os.remove(path)
        raise
    return written

"""Published results, read again by columns: for whoever looks at all of them, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import files
from transforms.csv_file import read_csv
from transforms.layout import Layout
from transforms.resume import read_jsonl
from transforms.rows import LAST_COLUMNS
from transforms.table import TableSpec
from transforms.table_rows import result_rows

_BATCH = 65_536
_KNOWN = dict(LAST_COLUMNS)


def result_batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a results file, Parquet, JSONL or CSV by its ending, in batches that have just `columns`, in that
    order. Of CSV, the columns that not every result has are text.

    A column that the file lacks is one of nulls. Those that every result has are of their own types (`finished_at`
    a timestamp in UTC) in every format. Raises OSError, or ValueError for a file that is none of a run's."""
    readers = {"parquet": _parquet, "csv": _csv}
    for batch in readers.get(path.rsplit(".", 1)[-1], _jsonl)(path, columns):
        arrays = [
            batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, _KNOWN.get(name, pa.null()))
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def all_results(layout: Layout, table: TableSpec | None, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All published results of an output, as `result_batches` gives those of a file, wherever they are: in files, or
    in the `table` that the output's accounts name (config, output, table: see table.table_spec).

    Raises DatabaseError as well, and ValueError where the environment lacks what the table's URL asks for."""
    if table is not None:
        yield from _table(table, columns)
        return
    for path in layout.shards(layout.results):
        yield from result_batches(path, columns)


def _parquet(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with files.open_read(path) as stream:
        file = pq.ParquetFile(stream)
        present = [name for name in columns if name in file.schema_arrow.names]
        yield from file.iter_batches(_BATCH, columns=present)


def _jsonl(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    rows = read_jsonl(path)
    while chunk := list(islice(rows, _BATCH)):
        yield pa.RecordBatch.from_arrays([_column([row.get(name) for row in chunk], name) for name in columns], columns)


def _csv(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with files.open_read(path) as stream:
        table = read_csv(stream)
        places = {name: place for place, name in enumerate(table.columns) if name in columns}
        while chunk := list(islice(table.rows, _BATCH)):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([row[place] for row in chunk], pa.string()).cast(_KNOWN.get(name, pa.string()))
                    for name, place in places.items()
                ],
                list(places),
            )


def _table(spec: TableSpec, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for rows in result_rows(spec, columns, _BATCH):
        yield pa.RecordBatch.from_arrays(
            [_column([row.get(name) for row in rows], name) for name in columns], list(columns)
        )


def _column(values: list[object], name: str) -> pa.Array:
    kind = _KNOWN.get(name)
    if kind is None:
        return pa.array(values)
    if pa.types.is_timestamp(kind) and not any(isinstance(value, datetime) for value in values):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)

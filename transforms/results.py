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
from transforms.rows import LAST_COLUMNS, SHARING_COLUMNS
from transforms.table import TableSpec
from transforms.table_rows import result_rows

_BATCH = 16_384
_KNOWN = dict([*LAST_COLUMNS, *SHARING_COLUMNS])


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
        # Threads would read no faster, since one reader takes it all in, and each keeps memory of its own.
        yield from file.iter_batches(_BATCH, columns=present, use_threads=False)


def _jsonl(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    rows = ([row.get(name) for name in columns] for row in read_jsonl(path))
    while chunk := list(islice(rows, _BATCH)):
        values = zip(*chunk, strict=True)
        arrays = [_column(list(each), name) for name, each in zip(columns, values, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, columns)


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


def result_columns(path: str) -> list[str]:
    """The names of the columns in a results file; of JSONL those of its first row. Raises OSError or ValueError."""
    if path.endswith(".csv"):
        with files.open_read(path) as stream:
            return list(read_csv(stream).columns)
    if not path.endswith(".parquet"):
        return list(next(read_jsonl(path), {}))
    with files.open_read(path) as stream:
        try:
            return list(pq.read_schema(stream).names)
        except ValueError as error:
            raise ValueError(f"{path}: cannot be read: {error}") from None

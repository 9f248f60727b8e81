"""Published results, read again by columns: for whoever looks at all of them, a batch at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import files
from transforms.csv_file import read_csv
from transforms.records import as_text
from transforms.resume import read_jsonl
from transforms.rows import LAST_COLUMNS, SHARING_COLUMNS
from transforms.table import TableSpec
from transforms.table_rows import result_rows

_BATCH = 16_384
_KNOWN = dict([*LAST_COLUMNS, *SHARING_COLUMNS])
_NO_TYPES: Mapping[str, pa.DataType] = {}

Types = Mapping[str, pa.DataType]


def result_batches(path: str, columns: Sequence[str], types: Types = _NO_TYPES) -> Iterator[pa.RecordBatch]:
    """The rows of a results file, Parquet, JSONL or CSV by its ending, in batches that have just `columns`, in that
    order.

    A column that the file lacks is one of nulls. Those that every result has are of their own types (`finished_at`
    a timestamp in UTC) in every format; the others of those that `types` says, as far as their values are: without,
    they are text in CSV. Raises OSError, or ValueError for a file that is none of a run's."""
    types = {**types, **_KNOWN}
    readers = {"parquet": _parquet, "csv": _csv}
    for batch in readers.get(path.rsplit(".", 1)[-1], _jsonl)(path, columns, types):
        yield _with_all(batch, columns, types)


def table_batches(
    spec: TableSpec, columns: Sequence[str], types: Types = _NO_TYPES, run_id: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a table of results, those of one run where `run_id` names it, as `result_batches` gives those of a
    file, in the order of their ids. Raises DatabaseError, and ValueError where the environment lacks what the table's
    URL asks for."""
    types = {**types, **_KNOWN}
    for rows in result_rows(spec, columns, _BATCH, run_id):
        present = [name for name in columns if name in rows[0]]
        arrays = [_column(name, [row[name] for row in rows], types.get(name)) for name in present]
        yield _with_all(pa.RecordBatch.from_arrays([pa.nulls(len(rows)), *arrays], ["", *present]), columns, types)


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


def _parquet(path: str, columns: Sequence[str], _types: Types) -> Iterator[pa.RecordBatch]:
    with files.open_read(path) as stream:
        file = pq.ParquetFile(stream)
        present = [name for name in columns if name in file.schema_arrow.names]
        # Threads would read no faster, since one reader takes it all in, and each keeps memory of its own.
        yield from file.iter_batches(_BATCH, columns=present, use_threads=False)


def _jsonl(path: str, columns: Sequence[str], types: Types) -> Iterator[pa.RecordBatch]:
    rows = ([row.get(name) for name in columns] for row in read_jsonl(path))
    while chunk := list(islice(rows, _BATCH)):
        values = zip(*chunk, strict=True)
        arrays = [_column(name, list(each), types.get(name)) for name, each in zip(columns, values, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, columns)


def _csv(path: str, columns: Sequence[str], types: Types) -> Iterator[pa.RecordBatch]:
    with files.open_read(path) as stream:
        table = read_csv(stream)
        places = {name: place for place, name in enumerate(table.columns) if name in columns}
        while chunk := list(islice(table.rows, _BATCH)):
            arrays = [_cells(name, [row[place] for row in chunk], types.get(name)) for name, place in places.items()]
            yield pa.RecordBatch.from_arrays(arrays, list(places))


def _with_all(batch: pa.RecordBatch, columns: Sequence[str], types: Types) -> pa.RecordBatch:
    arrays = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, types.get(name, pa.null()))
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _column(name: str, values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """Values as a column of `kind`; of the type that they have where they do not fit, as answers to an earlier task
    may not; as text where they have several."""
    if name in _KNOWN:
        is_text = pa.types.is_timestamp(kind) and not any(isinstance(value, datetime) for value in values)
        return pa.array(values, pa.string()).cast(kind) if is_text else pa.array(values, kind)
    for each in (kind, None):
        try:
            return pa.array(values, each)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            continue
    return pa.array([None if value is None else as_text(value) for value in values], pa.string())


def _cells(name: str, cells: list[str | None], kind: pa.DataType | None) -> pa.Array:
    """The cells of a CSV as a column of `kind`; as text where they are none."""
    texts = pa.array(cells, pa.string())
    if kind is None or pa.types.is_string(kind):
        return texts
    try:
        if pa.types.is_nested(kind):
            return pa.array([None if cell is None else json.loads(cell) for cell in cells], kind)
        return texts.cast(kind)
    except (ValueError, TypeError):
        if name in _KNOWN:
            raise
        return texts

"""Published results, read again by columns: for whoever looks at all of them, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import files
from transforms.resume import read_jsonl
from transforms.rows import LAST_COLUMNS

_BATCH = 16_384
_KNOWN = dict(LAST_COLUMNS)


def result_batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a results file, Parquet or JSONL by its ending, in batches that have just `columns`, in that order.

    A column that the file lacks is one of nulls. Those that every result has are of their own types (`finished_at`
    a timestamp in UTC) in every format. Raises OSError, or ValueError for a file that is none of a run's."""
    batches = _parquet(path, columns) if path.endswith(".parquet") else _jsonl(path, columns)
    for batch in batches:
        arrays = [
            batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, _KNOWN.get(name, pa.null()))
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


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


def _column(values: list[object], name: str) -> pa.Array:
    kind = _KNOWN.get(name)
    if kind is None:
        return pa.array(values)
    return pa.array(values, pa.string()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def result_columns(path: str) -> list[str]:
    """The names of the columns in a results file; of JSONL those of its first row. Raises OSError or ValueError."""
    if not path.endswith(".parquet"):
        return list(next(read_jsonl(path), {}))
    with files.open_read(path) as stream:
        try:
            return list(pq.read_schema(stream).names)
        except ValueError as error:
            raise ValueError(f"{path}: cannot be read: {error}") from None

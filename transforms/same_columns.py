"""One table over all runs: every Parquet file of the results has the same columns.

Which columns there are can change between runs of one task (input.carry, task.expected), or with --on-change=keep.
Readers of several files take the first one's columns for all: pyarrow.dataset drops the others, DuckDB refuses files
that lack any. So what a file lacks is added to it, as nulls. In JSONL a column that is missing is null anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import files
from transforms.commit import carry_out, plan_commit
from transforms.layout import Layout

_BATCH = 10_000  # rows that are held at once


def same_columns(layout: Layout, run_id: str, schema: pa.Schema) -> pa.Schema:
    """Adds to the results what they lack of each other's columns and of `schema`. Returns the columns that they all
    have now, which those of the run that begins are to have as well.

    Each file is replaced as a whole, and only where it has to be. A column whose type has changed keeps it in the
    files that have it. Raises OSError or ValueError where a file cannot be read or written."""
    shards = [path for path in layout.shards(layout.results) if path.endswith(".parquet")]
    present = {path: _schema(path) for path in shards}
    united = list(schema)
    for each in present.values():
        united += [field for field in each if field.name not in {known.name for known in united}]
    names = {field.name for field in united}
    moves = []
    for path, each in present.items():
        if names - set(each.names):
            staged = files.join(layout.staging(run_id), files.name(path))
            _rewrite(path, staged, _with_own_types(united, each))
            moves.append((staged, path))
    if moves:
        plan_commit(layout, run_id, moves, [], None)
        carry_out(layout, run_id)
    return pa.schema(united)


def _schema(path: str) -> pa.Schema:
    with files.open_read(path) as stream:
        try:
            return pq.read_schema(stream)
        except ValueError as error:
            raise ValueError(f"{path}: cannot be read: {error}") from None


def _with_own_types(united: list[pa.Field], own: pa.Schema) -> pa.Schema:
    return pa.schema([own.field(field.name) if field.name in own.names else field for field in united])


def _rewrite(source: str, target: str, schema: pa.Schema) -> None:
    with files.create(target) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in _batches(source, schema):
            writer.write_batch(batch)


def _batches(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with files.open_read(path) as stream:
        for batch in pq.ParquetFile(stream).iter_batches(_BATCH):
            names = batch.schema.names
            columns = [
                batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

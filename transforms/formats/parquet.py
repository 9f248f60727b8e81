"""Parquet: a record in each row, in ranges of row groups. A row's position is its number in the file.

Values become what JSON holds: see arrow_values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import files
from transforms.formats.arrow_values import is_id, plain_values, value_type
from transforms.formats.lines import cut_message
from transforms.formats.spans import Cut, InputError, InputFile, Located, Reading, Span
from transforms.parse import BadRow, Parsed, bad_id, identified

_BATCH_ROWS = 1024  # made into Python values at once
_BUFFER_BYTES = 1 << 20  # of a column: a row group is read bit by bit, whatever its size
_READ_ERRORS = (pa.ArrowException, OSError)


def columns(item: InputFile, _reading: Reading) -> list[str]:
    """The schema's columns."""
    return list(types(item))


def types(item: InputFile) -> dict[str, pa.DataType]:
    """The type of each column as results carry it."""
    with _open(item.path) as file:
        schema = file.schema_arrow
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InputError(f"{item.path}: {schema.names.count(name)} columns are named {name!r}")
    return {field.name: value_type(field.type) for field in schema}


def split(item: InputFile, length: int, _reading: Reading) -> Iterator[Span]:
    """Spans of row groups, of about `length` bytes before compression."""
    with _open(item.path) as file:
        sizes = [file.metadata.row_group(at).total_byte_size for at in range(file.num_row_groups)]
    start = size = 0
    for at, bytes_here in enumerate(sizes):
        size += bytes_here
        if size >= length or at == len(sizes) - 1:
            yield Span(item.path, item.number, start, at + 1, item.format)
            start, size = at + 1, 0


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """A row for each row of the row groups."""
    id_column = reading.id_in(span.format)
    with _open(span.path) as file:
        end = file.num_row_groups if span.end is None else span.end
        position = sum(file.metadata.row_group(at).num_rows for at in range(span.start))
        batches = file.iter_batches(_BATCH_ROWS, row_groups=range(span.start, end), use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except _READ_ERRORS as error:
                if isinstance(error, OSError) and error.errno is not None:  # the disk's fault, not the file's
                    raise
                yield Cut(position, cut_message(error))
                return
            if batch is None:
                return
            for found in _records(batch, id_column):
                yield Located(position, found)
                position += 1


def _records(batch: pa.RecordBatch, id_column: str | None) -> Iterator[Parsed | BadRow]:
    names = batch.schema.names
    try:
        values = [plain_values(column) for column in batch.columns]
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            yield _bad_encoding(batch, error)
            return
        for at in range(batch.num_rows):
            yield from _records(batch.slice(at, 1), id_column)
        return
    kind = batch.schema.field(id_column).type if id_column in names else None
    for row in zip(*values, strict=True):
        fields = dict(zip(names, row, strict=True))
        if kind is not None and id_column is not None and not is_id(kind):
            yield bad_id(fields, id_column, f"of type {kind}")
        else:
            yield identified(fields, id_column, fields.get(id_column or ""))


def _bad_encoding(batch: pa.RecordBatch, error: UnicodeDecodeError) -> BadRow:
    fields: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            fields[name] = plain_values(column)[0]
        except UnicodeDecodeError:
            fields[name] = None
    bad = ", ".join(name for name, value in fields.items() if value is None)
    return BadRow("bad_encoding", f"not UTF-8: byte 0x{error.object[error.start]:02x} in one of {bad}", fields)


@contextmanager
def _open(path: str) -> Iterator[pq.ParquetFile]:
    with files.open_read(path) as stream:
        try:
            file = pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES)
        except _READ_ERRORS as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            said = str(error).split("\n", 1)[0]
            raise InputError(f"{path}: no whole Parquet file, it must be damaged or cut: {said}") from None
        with file:
            yield file

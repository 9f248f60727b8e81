"""Shards: files of rows in Parquet, JSONL or CSV, rolled by rows, complete or not there at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import files
from transforms.csv_file import CsvWriter, join_csv
from transforms.formats.arrow_values import is_plain, typed_value
from transforms.records import Row, as_text, compact_json

_ROWS_PER_GROUP = 10_000  # of a Parquet row group: the rows that are held in memory at once
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class Staged(NamedTuple):
    """A finished file that is not published yet."""

    path: str
    rows: int


class ShardWriter(Protocol):
    """Writes one file."""

    def write(self, row: Row) -> None:
        """Adds a row."""

    def close(self) -> None:
        """Finishes the file: only now is it there."""

    def discard(self) -> None:
        """Closes the file without finishing it."""


class JsonlWriter:
    """Rows as strict JSON Lines in UTF-8. What other readers take for a line end inside a string is escaped."""

    def __init__(self, path: str) -> None:
        self._stream: IO[bytes] = files.create(path)

    def write(self, row: Row) -> None:
        """Adds a row. Raises ValueError for NaN and the like."""
        self._stream.write(compact_json(row).translate(_LINE_ENDS).encode() + b"\n")

    def close(self) -> None:
        """Finishes the file."""
        self._stream.close()

    def discard(self) -> None:
        """Closes the file."""
        self._stream.close()


class ParquetWriter:
    """Rows as Parquet (zstd), in groups of rows. Values fit the schema: they were checked when they arrived."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._stream = files.create(path)
        self._schema = schema
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._rows: list[Row] = []

    def write(self, row: Row) -> None:
        """Adds a row."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        """Finishes the file."""
        if self._rows:
            self._flush()
        self._writer.close()
        self._stream.close()

    def discard(self) -> None:
        """Closes the file without the rows that are still held."""
        try:
            self._writer.close()
        finally:
            self._stream.close()

    def _flush(self) -> None:
        columns = [_column([row.get(field.name) for row in self._rows], field.type) for field in self._schema]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._rows.clear()


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):  # nested values stand in text columns as JSON
        values = [None if value is None else as_text(value) for value in values]
    elif not is_plain(kind):
        values = [typed_value(value, kind) for value in values]
    return pa.array(values, kind)


@dataclass(frozen=True)
class ShardFormat:
    """How rows become files. Parquet and CSV need `schema`; `escape_formulas` is of CSV only."""

    name: str  # "parquet", "jsonl" or "csv", which is also the ending of the files
    rows_per_shard: int
    schema: pa.Schema | None = None
    escape_formulas: bool = True
    ordered: bool = False  # by the rows' places in the input: see order.py

    def writer(self, path: str) -> ShardWriter:
        """Opens a new file."""
        if self.name == "parquet":
            return ParquetWriter(path, self.schema)
        if self.name == "csv":
            return CsvWriter(path, self.columns, escape=self.escape_formulas)
        return JsonlWriter(path)

    @property
    def columns(self) -> list[str]:
        """The names of all columns, of a format that has a schema."""
        assert self.schema is not None
        return list(self.schema.names)

    def new_path(self, folder: str) -> str:
        """A name that nobody else uses."""
        return files.join(folder, f"{uuid.uuid4().hex}.{self.name}")


class Roll:
    """Writes rows into files of up to `rows_per_shard`, and knows those that are finished."""

    def __init__(self, shards: ShardFormat, folder: str) -> None:
        self._shards = shards
        self._folder = folder
        self._writer: ShardWriter | None = None
        self._path = ""
        self._count = 0
        self.finished: list[Staged] = []

    def write(self, row: Row) -> None:
        """Adds a row."""
        if self._writer is None:
            self._path = self._shards.new_path(self._folder)
            self._writer = self._shards.writer(self._path)
        self._writer.write(row)
        self._count += 1
        if self._count >= self._shards.rows_per_shard:
            self.close()

    def discard(self) -> None:
        """Lets go of the file that is open, if any. It is not named, so nobody publishes it. Never raises: the disk may
        be full, or a worker be ended in the middle of a write, and what broke then is what counts."""
        writer, self._writer, self._count = self._writer, None, 0
        if writer is not None:
            with suppress(Exception):
                writer.discard()

    def close(self) -> None:
        """Finishes the file that is open, if any."""
        if self._writer is not None:
            self._writer.close()
            self.finished.append(Staged(self._path, self._count))
            self._writer, self._count = None, 0


def pack(staged: Iterable[Staged], rows_per_shard: int) -> list[list[Staged]]:
    """Groups files so that each group has up to `rows_per_shard` rows; a full file stays alone."""
    groups: list[list[Staged]] = []
    room = 0
    for item in sorted(staged, key=lambda item: (-item.rows, item.path)):
        if item.rows > room:
            groups.append([])
            room = rows_per_shard
        groups[-1].append(item)
        room -= item.rows
    return groups


def join_files(group: list[Staged], shards: ShardFormat, folder: str) -> Staged:
    """One file out of several, their rows one after another. A single file is left as it is."""
    if len(group) == 1:
        return group[0]
    path = shards.new_path(folder)
    with files.create(path) as target:
        if shards.name == "parquet":
            with pq.ParquetWriter(target, shards.schema, compression="zstd") as writer:
                for item in group:
                    with files.open_read(item.path) as stream:
                        for batch in pq.ParquetFile(stream).iter_batches(_ROWS_PER_GROUP):
                            writer.write_batch(batch)
        elif shards.name == "csv":
            join_csv(target, [item.path for item in group], shards.columns, escape=shards.escape_formulas)
        else:
            for item in group:
                with files.open_read(item.path) as stream:
                    while block := stream.read(1 << 20):
                        target.write(block)
    return Staged(path, sum(item.rows for item in group))

"""An output's published rows, wherever they are: in files of any format, or in the tables of a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from transforms import files, results, table_rows
from transforms.database import DatabaseError
from transforms.layout import Layout
from transforms.llm.columns import columns as answer_types
from transforms.records import Row
from transforms.results import result_batches, table_batches
from transforms.resume import Prior, read_jsonl
from transforms.rows import type_of
from transforms.table import TableSpec, table_spec
from transforms.table_ids import PriorRows, prior_ranges


class Unreadable(ValueError):
    """Published rows cannot be read. One line, which names the file or the database."""


@dataclass(frozen=True)
class Published:
    """Results and failures: files of them, or the `table` that takes their place. `types` are those of the results'
    own columns, which CSV does not tell. With `run_id`, the rows of that run alone."""

    result_files: Sequence[str] = ()
    failure_files: Sequence[str] = ()
    table: TableSpec | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    run_id: str | None = None

    @classmethod
    def of(cls, layout: Layout, account: Mapping[str, Any]) -> Published:
        """What is in an output directory, or in the table that the configuration in `account` names: that of its last
        run, or the header of a journal; empty where there is none."""
        table = ((account.get("config") or {}).get("output") or {}).get("table")
        return cls(
            layout.shards(layout.results),
            layout.shards(layout.failures),
            None if table is None else table_spec(table),
            _types(account),
        )

    def of_run(self, run_id: str) -> Published:
        """The rows of one run alone."""
        named = [[path for path in paths if _is_of(path, run_id)] for paths in (self.result_files, self.failure_files)]
        return replace(self, result_files=named[0], failure_files=named[1], run_id=run_id)

    @property
    def has_results(self) -> bool:
        """Whether there is a place that holds results, if only none so far."""
        return self.table is not None or bool(self.result_files)

    def columns(self) -> list[str]:
        """The names of the results' columns. Raises Unreadable."""
        if self.table is not None:
            with _reported(self.table.place):
                return table_rows.result_columns(self.table)
        found: dict[str, None] = {}
        for path in self.result_files:
            with _reported(path):
                found.update(dict.fromkeys(results.result_columns(path)))
        return list(found)

    def results(self, columns: Sequence[str], *, newest_first: bool = False) -> Iterator[pa.RecordBatch]:
        """All results in batches that have just `columns`: see results.result_batches. The order is the same each
        time; `newest_first` is about files, tables are in the order of ids. Raises Unreadable."""
        if self.table is not None:
            with _reported(self.table.place):
                yield from table_batches(self.table, columns, self.types, self.run_id)
            return
        for path in _ordered(self.result_files, newest_first):
            with _reported(path):
                yield from result_batches(path, columns, self.types)

    def failures(self, *, newest_first: bool = False) -> Iterator[Row]:
        """All failures, as a stream. Raises Unreadable."""
        if self.table is not None:
            with _reported(self.table.place):
                yield from table_rows.failure_rows(self.table, self.run_id)
            return
        for path in _ordered(self.failure_files, newest_first):
            with _reported(path):
                for number, row in enumerate(read_jsonl(path), 1):
                    if not isinstance(row.get("reason"), str) or "id" not in row:
                        raise ValueError(f"{path}, line {number}: no row of a failure: it has no reason or no id")
                    if self.run_id in (None, row.get("run_id")):
                        yield row

    def priors(self) -> list[Prior | PriorRows]:
        """The same for resume.done_ids, whose places are read wherever there is room. Raises Unreadable."""
        runs = None if self.run_id is None else frozenset({self.run_id})
        if self.table is not None:
            with _reported(self.table.place):
                return [*prior_ranges(self.table, "", runs)]
        return [
            *(Prior(path, False) for path in self.result_files),
            *(Prior(path, True, runs) for path in self.failure_files),
        ]


@contextmanager
def _reported(place: str) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        raise Unreadable(str(error)) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        text = str(error)
        raise Unreadable(text if place in text else f"{place}: not what a run wrote: {text}") from None


def _ordered(paths: Sequence[str], newest_first: bool) -> Sequence[str]:
    return list(reversed(paths)) if newest_first else paths


def _is_of(path: str, run_id: str) -> bool:
    return files.name(path).startswith(f"{run_id}-")


def _types(account: Mapping[str, Any]) -> dict[str, pa.DataType]:
    schema = ((account.get("config") or {}).get("task") or {}).get("schema")
    answers = answer_types(schema) if isinstance(schema, dict) else {}
    return {**answers, **{name: type_of(kind) for name, kind in (account.get("carried") or {}).items()}}

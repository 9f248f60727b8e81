"""Records that are not worth a call, or must not have one, are set aside before anything is paid.

It comes after the resume, so that a row that has its answer is never called oversized later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from transforms.formats.arrow_values import typed_value
from transforms.llm.prompts import Prompts
from transforms.metrics import counter
from transforms.read import DEAD_LETTER
from transforms.records import Record
from transforms.rows import RunStamp, failure_row
from transforms.settings import Input, Model, Task
from transforms.table_cells import id_problem


@dataclass(frozen=True)
class Rules:
    """What a record must be for a call. `columns` are those carried into the results, with their Arrow types."""

    task: Task
    input: Input
    model: Model
    columns: Mapping[str, pa.DataType]
    postgresql: bool = False  # whether results go where not every id can be stored


class Screen:
    """Checks one record's content. Built once a process."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._prompts = Prompts(rules.task, rules.input, rules.model)
        self._max_chars = rules.input.max_chars

    def check(self, record: Record) -> Record | tuple[str, str]:
        """The record to call, which may be a shortened one, or the reason and message that set it aside."""
        problem = id_problem(record.id) if self._rules.postgresql else None
        if problem:
            return "bad_id", problem
        try:
            self._prompts.check_row(record.fields)
        except ValueError as error:
            return "bad_record", str(error)
        values = self._prompts.values(record.fields)
        empty = bool(values) and not any(value.strip() for value in values.values())
        if empty and not self._prompts.shows_image(record.fields):
            return "empty_input", f"nothing in {', '.join(values)}"
        chars = sum(map(len, values.values()))
        if chars > self._max_chars:
            message = f"{chars} characters, input.max_chars is {self._max_chars}"
            if self._rules.input.on_oversized != "truncate":
                return "oversized_input", message
            shorter = self._shorten(record, values, chars - self._max_chars)
            if shorter is None:
                return "oversized_input", f"{message}, and no text column is long enough to be cut"
            record = shorter
        for name, kind in self._rules.columns.items():
            problem = misfit(name, record.fields.get(name), kind)
            if problem:
                return "bad_record", problem
        return record

    def _shorten(self, record: Record, values: Mapping[str, str], excess: int) -> Record | None:
        longest = max(values, key=lambda name: len(values[name]))
        text = record.fields.get(longest)
        if not isinstance(text, str) or len(text) <= excess or not self._prompts.cuttable:
            return None
        return record._replace(fields={**record.fields, longest: text[:-excess]})


def misfit(name: str, value: Any, kind: pa.DataType) -> str | None:
    """Why a value cannot stand in its result column, or None where it can."""
    if value is None:
        return None
    try:
        if kind == pa.string() and not isinstance(value, str):
            return None  # written as JSON text
        if isinstance(value, bool) != pa.types.is_boolean(kind):
            raise ValueError
        if isinstance(value, float) and pa.types.is_integer(kind) and not value.is_integer():
            raise ValueError  # which Arrow would cut to an integer
        pa.scalar(typed_value(value, kind), kind)
    except (pa.ArrowException, ArithmeticError, AttributeError, TypeError, ValueError):
        shown = str(value)[:60]
        return f"column {name!r} holds {shown!r}, which is no {kind}: give its type in input.carry, e.g. {name}: json"
    return None


@dataclass
class ScreenContent(beam.PTransform):
    """Record -> Record that is worth a call. The others become failure rows under DEAD_LETTER."""

    rules: Rules
    stamp: RunStamp

    def expand(self, pcoll: Any) -> Any:
        step = beam.ParDo(_ScreenContent(self.rules, self.stamp))
        return pcoll | "ScreenContent" >> step.with_outputs(DEAD_LETTER, main="records")


class _ScreenContent(beam.DoFn):
    def __init__(self, rules: Rules, stamp: RunStamp) -> None:
        self._rules = rules
        self._stamp = stamp
        self._failed = counter("failed")

    def setup(self) -> None:
        self._screen = Screen(self._rules)

    def process(self, record: Record) -> Iterator[Any]:
        checked = self._screen.check(record)
        if isinstance(checked, Record):
            yield checked
            return
        self._failed.inc()
        yield beam.pvalue.TaggedOutput(DEAD_LETTER, set_aside(self._stamp, record, *checked))


def set_aside(stamp: RunStamp, record: Record, reason: str, message: str) -> dict[str, Any]:
    """The failure row of a record that is never called."""
    return failure_row(stamp, id=record.id, reason=reason, message=message, input=record.fields, source=record.source)

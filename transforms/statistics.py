"""What is in an output directory, in figures: read once as a stream, in memory that rows do not add to.

Latencies are kept in bins of log10(ms), 512 to a factor of ten, so that a percentile is at most 0.5 % too low;
tokens and numbers of an answer in at most 1,024 bins of equal width; times in at most 512 for each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.agreement import judged_column
from transforms.bins import Bins, arrow_floats
from transforms.failures import ReasonCounts
from transforms.frequencies import Frequencies
from transforms.llm.columns import columns
from transforms.published import Published
from transforms.quality import Confusion
from transforms.records import Row
from transforms.rows import EXPECTED

RUNS = 12  # the last runs whose rows are told apart by time
_BATCH = 8_192
_SHORTEST_MS = 0.01  # what is under it is the clock's own noise
_LAST = ("run_id", "finished_at", "cost_usd", "latency_ms", "prompt_tokens", "completion_tokens", "attempts", "model")


class Timeline:
    """When rows of one run were finished, in ms since 1970, and what they cost, in US dollars."""

    def __init__(self) -> None:
        self.ok = Bins(1.0, 512, weights=1)
        self.failed = Bins(1.0, 512, weights=1)


class Statistics:
    """Figures of results and failures. `config` is the configuration that they were made with, `runs` the ids of those
    that are told apart by time; rows of others only count."""

    def __init__(self, config: Mapping[str, Any], runs: Sequence[str]) -> None:
        self.ok = self.failed = 0
        self.cost_usd = 0.0  # of the rows that are there
        self.cost_unknown = 0  # rows that were paid, or may have been, for nobody knows how much
        self.untimed_ok = self.untimed_failed = 0  # rows of other runs or without a time
        self.untimed_usd = 0.0
        self.timelines = {run: Timeline() for run in runs[-RUNS:]}
        self.latency = Bins(2.0**-9, 8_192)  # of log10(ms)
        self.prompt, self.completion, self.attempts = Bins(1.0), Bins(1.0), Bins(1.0)
        self.models = Frequencies(100)
        self.answers: dict[str, Frequencies | Bins] = {}
        for name, kind in _answer_types(config).items():
            self.answers.update(_counter(name, kind))
        self.reasons = ReasonCounts()
        self.judged = judged_column(config)
        self.confusion = Confusion()

    @property
    def columns(self) -> list[str]:
        """The columns that `add_results` takes."""
        judged = [EXPECTED, self.judged] if self.judged is not None else []
        return list(dict.fromkeys([*_LAST, *self.answers, *judged]))

    def add_results(self, batch: pa.RecordBatch) -> None:
        """Takes in results, with all of `columns`."""
        self.ok += batch.num_rows
        self._add_money(batch["cost_usd"])
        latency = np.maximum(arrow_floats(batch["latency_ms"]), _SHORTEST_MS)
        self.latency.add(np.log10(latency))
        self.prompt.add(arrow_floats(batch["prompt_tokens"]))
        self.completion.add(arrow_floats(batch["completion_tokens"]))
        self.attempts.add(arrow_floats(batch["attempts"]))
        self.models.add(batch["model"])
        for name, counter in self.answers.items():
            _count(counter, batch[name])
        if self.judged is not None:
            self.confusion.add(batch[EXPECTED], batch[self.judged])
        self._add_times(batch["run_id"], batch["finished_at"], batch["cost_usd"], failed=False)

    def add_failures(self, rows: Sequence[Row]) -> None:
        """Takes in failures."""
        self.failed += len(rows)
        for row in rows:
            self.reasons.add(row)
        cost = pa.array([_cost(row) for row in rows], pa.float64())
        self._add_money(cost)
        times = pa.array([row.get("failed_at") for row in rows], pa.string()).cast(pa.timestamp("ms", "UTC"))
        self._add_times(pa.array([row.get("run_id") for row in rows], pa.string()), times, cost, failed=True)

    def _add_money(self, cost: pa.Array) -> None:
        self.cost_usd += pc.sum(cost).as_py() or 0.0
        self.cost_unknown += cost.null_count

    def _add_times(self, runs: pa.Array, times: pa.Array, cost: pa.Array, *, failed: bool) -> None:
        known = pc.is_valid(times)
        moments, dollars = times.cast(pa.int64()), cost.fill_null(0.0)
        rest = len(runs)
        rest_usd = pc.sum(dollars).as_py() or 0.0
        for run in pc.unique(runs).to_pylist():
            if run not in self.timelines:
                continue
            its = pc.and_(pc.fill_null(pc.equal(runs, run), False), known)
            spent = arrow_floats(dollars.filter(its))
            timeline = self.timelines[run]
            (timeline.failed if failed else timeline.ok).add(arrow_floats(moments.filter(its)), spent)
            rest -= len(spent)
            rest_usd -= float(spent.sum())
        self.untimed_usd += rest_usd
        if failed:
            self.untimed_failed += rest
        else:
            self.untimed_ok += rest


def collect(published: Published, config: Mapping[str, Any], runs: Sequence[str]) -> Statistics:
    """The figures of all that an output has published. Raises Unreadable."""
    statistics = Statistics(config, runs)
    for batch in published.results(statistics.columns):
        statistics.add_results(batch)
    for rows in _chunks(published.failures()):
        statistics.add_failures(rows)
    return statistics


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, _BATCH)):
        yield chunk


def _answer_types(config: Mapping[str, Any]) -> dict[str, pa.DataType]:
    schema = (config.get("task") or {}).get("schema")
    return columns(schema) if isinstance(schema, dict) else {}


def _count(counter: Frequencies | Bins, column: pa.Array) -> None:
    """Counts a column; not one of another kind, which answers to an earlier task can have left."""
    kind = column.type
    if isinstance(counter, Frequencies):
        if not pa.types.is_struct(kind):
            counter.add(column)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        counter.add(arrow_floats(column))


def _counter(name: str, kind: pa.DataType) -> dict[str, Frequencies | Bins]:
    """What counts the values of a column; nothing for what nobody would want counted, as objects."""
    item = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_string(item) or pa.types.is_boolean(item):
        return {name: Frequencies()}
    if pa.types.is_integer(kind):
        return {name: Bins(1.0)}
    return {name: Bins()} if pa.types.is_floating(kind) else {}


def _cost(failure: Row) -> float | None:
    """US dollars; nothing for a row that was never called. Of a call that rows share, only the first has attempts."""
    cost: float | None = failure.get("cost_usd")
    return cost if failure.get("attempts") or cost is not None else 0.0

"""Counts of a run that are exact on any engine: elements of the graph, not metrics.

A step sums what it did in a bundle and emits one tally when the bundle ends. A bundle that an engine repeats
emits its tally with its rows, once; metrics are counted by attempts and some engines report none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

TALLY = "tally"
MOST_MESSAGES = 20  # of a list, such as the files that could not be read

Tally = dict[str, Any]


def add(into: Tally, other: Tally) -> Tally:
    """Adds `other` to `into`, key by key: numbers are summed, dictionaries added, lists joined. Returns `into`."""
    for key, value in other.items():
        if isinstance(value, dict):
            into[key] = add(into.get(key, {}), value)
        elif isinstance(value, list):
            into[key] = (into.get(key, []) + value)[:MOST_MESSAGES]
        else:
            into[key] = into.get(key, 0) + value
    return into


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    result: Tally = {}
    for tally in tallies:
        add(result, tally)
    return result


def counted(tallies: Iterable[Any]) -> Any:
    """The sum of collections of tallies, as a singleton side input."""
    together = tuple(tallies) | "Tallies" >> beam.Flatten()
    whole = together | "Count" >> beam.CombineGlobally(total).without_defaults()
    return beam.pvalue.AsSingleton(whole, default_value={})


def bundle_tally(tally: Tally) -> Any:
    """A tally as `finish_bundle` has to emit it: tagged, with a window of its own."""
    return beam.pvalue.TaggedOutput(TALLY, GlobalWindows.windowed_value(tally))


def row_tally(row: dict[str, Any]) -> Tally:
    """What one row that was called adds: tokens, dollars, attempts. Unknown amounts are counted as unknown."""
    tally: Tally = {"calls": row["attempts"]}
    for key in ("prompt_tokens", "completion_tokens", "cost_usd"):
        if row[key] is None:
            tally[f"{key}_unknown"] = 1
        else:
            tally[key] = row[key]
    return tally


def outcome_tally(row: dict[str, Any], kind: str) -> Tally:
    """What one row adds to the account."""
    tally: Tally = {kind: 1}
    if kind == "failed":
        tally["failures_by_reason"] = {row["reason"]: 1}
    # Of a call that rows share, the first has the count of requests, and each its part of what they took.
    if kind == "ok" or row["attempts"] or row["prompt_tokens"] is not None:
        add(tally, row_tally(row))
    return tally

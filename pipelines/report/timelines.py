"""Rows and costs over time: the last runs one after another, without the time in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from pipelines.report import figures
from pipelines.report.charts import Bar, Frame, Line, Mark, Tick, lines
from transforms.bins import Bins, Floats
from transforms.statistics import Statistics, Timeline

_POINTS = 240  # of a line
_HITS = 48
_MARKS = 6  # runs whose beginning is labelled


class Span(NamedTuple):
    """Where on the axis a run lies: its rows came from `begun` to `ended` (ms since 1970), drawn from `at` (ms)."""

    timeline: Timeline
    begun: float
    ended: float
    at: float
    number: int


class Curve(NamedTuple):
    """An amount that grows: its value before the first run, and what it is in the bins of a run."""

    kind: str
    name: str
    before: float
    amounts: Callable[[Timeline], list[tuple[Bins, Floats]]]


def spans(statistics: Statistics, begun: Mapping[str, float], first_number: int) -> list[Span]:
    """The runs that finished rows, in order. `begun` says when a run began, in ms since 1970, where that
    is known; `first_number` is that of the first run that is told apart."""
    found: list[Span] = []
    at = 0.0
    for number, (run, timeline) in enumerate(statistics.timelines.items(), first_number):
        bins = [each for each in (timeline.ok, timeline.failed) if each.count]
        if not bins:
            continue
        first, last = min(each.smallest for each in bins), max(each.largest for each in bins)
        first = min(first, begun.get(run, first))
        found.append(Span(timeline, first, last, at, number))
        at += max(last - first, 1.0)
    return found


def rows_chart(statistics: Statistics, runs: list[Span]) -> Markup:
    """Rows that were finished, ok and failed, as they added up."""
    curves = [
        Curve("ok", "ok", statistics.untimed_ok, lambda timeline: [(timeline.ok, timeline.ok.counts)]),
        Curve(
            "failed", "failed", statistics.untimed_failed, lambda timeline: [(timeline.failed, timeline.failed.counts)]
        ),
    ]
    return _chart("Rows over time", "rows", curves, runs, figures.axis_labels, figures.number)


def cost_chart(statistics: Statistics, runs: list[Span]) -> Markup:
    """What the rows cost, as it added up."""

    def spent(timeline: Timeline) -> list[tuple[Bins, Floats]]:
        return [(each, each.sums(0)) for each in (timeline.ok, timeline.failed)]

    curves = [Curve("neutral", "cost", statistics.untimed_usd, spent)]
    return _chart("Cost over time", "US dollars", curves, runs, figures.dollar_labels, figures.dollars)


def _chart(
    title: str,
    unit: str,
    curves: list[Curve],
    runs: list[Span],
    labels: Callable[[Sequence[float]], list[str]],
    value: Callable[[float], str],
) -> Markup:
    length = runs[-1].at + max(runs[-1].ended - runs[-1].begun, 1.0)
    places = np.unique(np.concatenate([np.linspace(0.0, length, _POINTS + 1), [run.at for run in runs]]))
    drawn = {curve: _values(curve, runs, places) for curve in curves}
    y = figures.amount_ticks(max(float(values[-1]) for values in drawn.values()), whole=unit == "rows")
    top = y[-1]
    marks = [Mark(run.at / length, f"run {run.number}") for run in runs[-_MARKS:]] if len(runs) > 1 else []
    ends = ", ".join(f"{curve.name} {value(float(values[-1]))}" for curve, values in drawn.items())
    frame = Frame(
        title,
        f"{ends} after {figures.duration(length / 1000)} in {len(runs)} {'run' if len(runs) == 1 else 'runs'}",
        "time while rows came" if len(runs) > 1 else f"time since {figures.moment_of(runs[0].begun)} UTC",
        unit,
        [Tick(at * 1000 / length, label) for at, label in figures.duration_ticks(length / 1000)],
        [Tick(at / top, label) for at, label in zip(y, labels(y), strict=True)],
        marks,
    )
    shares = places / length
    return lines(
        frame,
        [
            Line(curve.kind, list(zip(shares.tolist(), (values / top).tolist(), strict=True)))
            for curve, values in drawn.items()
        ],
        _hits(length, curves, runs, value),
    )


def _hits(length: float, curves: list[Curve], runs: list[Span], value: Callable[[float], str]) -> list[Bar]:
    edges = np.linspace(0.0, length, _HITS + 1)
    ends = [_values(curve, runs, edges[1:]) for curve in curves]
    found = []
    for at in range(_HITS):
        run = [each for each in runs if each.at <= edges[at + 1]][-1]
        when = figures.moment_of(run.begun + edges[at + 1] - run.at)
        amounts = ", ".join(
            f"{curve.name} {value(float(values[at]))}" for curve, values in zip(curves, ends, strict=True)
        )
        found.append(Bar(at / _HITS, (at + 1) / _HITS, 1.0, f"{when} UTC: {amounts}"))
    return found


def _values(curve: Curve, runs: list[Span], places: Floats) -> Floats:
    """What a curve has come to at each place on the axis. A bin counts from where it ends."""
    total = np.full(len(places), float(curve.before))
    for run in runs:
        for bins, amounts in curve.amounts(run.timeline):
            ends = np.minimum(bins.starts + bins.width, run.ended) - run.begun + run.at
            sums = np.concatenate([[0.0], np.cumsum(amounts)])
            total += sums[np.searchsorted(ends, places + 1e-6, side="right")]
    return total

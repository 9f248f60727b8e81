"""How latencies, tokens, numbers and labels are spread."""

from __future__ import annotations

from math import log10
from typing import NamedTuple

from markupsafe import Markup

from pipelines.report import figures
from pipelines.report.charts import Bar, Frame, Mark, Tick, histogram
from transforms.bins import Bins, grouped
from transforms.frequencies import Frequencies
from transforms.llm.secrets import masked

PERCENTILES = (0.5, 0.95, 0.99)
_BARS = 40
_LABELS = 10  # of a column that are shown one by one
_FEW = 5  # different whole numbers
_LONG_TAIL = 3  # so many times the 99th percentile, and the axis ends there


class LabelBar(NamedTuple):
    """One label, how often it came, its share of all and, as a share of the most frequent one, its bar's length."""

    label: str
    rows: int
    share: float
    length: float
    kind: str  # label, others, none


def percentiles(latency: Bins) -> list[tuple[str, float | None]]:
    """p50, p95 and p99 in ms of latencies that are held as log10(ms)."""
    found = [(f"p{share * 100:.0f}", latency.quantile(share)) for share in PERCENTILES]
    return [(name, None if log is None else 10.0**log) for name, log in found]


def latency_chart(latency: Bins) -> Markup:
    """Latencies on a logarithmic axis, with percentiles."""
    bars = list(grouped(latency, _BARS, latency.smallest, latency.largest))
    low, high = bars[0][0], bars[-1][1]
    if high - low < 0.2:  # all but the same: a bar of its own in the middle of an axis
        low, high = low - 0.1, high + 0.1
    known = percentiles(latency)
    marks = [
        Mark(_share(found, low, high), f"{name} {figures.milliseconds(10.0**found)}")
        for name, found in ((f"p{share * 100:.0f}", latency.quantile(share)) for share in PERCENTILES)
        if found is not None
    ]
    return _histogram(
        "Latency",
        ", ".join(f"{name} {figures.milliseconds(ms)}" for name, ms in known),
        "time to the answer (logarithmic)",
        [
            (_share(start, low, high), _share(end, low, high), rows, f"{_ms(start)} to {_ms(end)}")
            for start, end, rows in bars
        ],
        [Tick(_share(log10(at), low, high), figures.milliseconds(at)) for at in figures.decade_ticks(low, high)],
        marks,
    )


def number_chart(title: str, x_label: str, bins: Bins) -> tuple[Markup, int]:
    """Numbers on a linear axis. The second value counts those beyond it: few that are very far out."""
    end = bins.largest
    far = bins.quantile(0.99)
    if far is not None and far > 0 and bins.smallest >= 0 and end > _LONG_TAIL * far:
        end = far
    bars = list(grouped(bins, _BARS, bins.smallest, end))
    low, high = bars[0][0], bars[-1][1]
    single = bins.width == 1.0 and bars[0][1] - low == 1.0  # a bar for each whole number, which stands under it
    if single and len(bars) < _FEW:  # a bar is no wall
        more = (_FEW - len(bars) + 1) // 2
        low, high = low - more, high + more
    shift = 0.5 if single else 0.0
    at = figures.ticks(low, high - 2 * shift, len(bars) if 5 < len(bars) <= 10 else 5)
    at = [each for each in at if not single or float(each).is_integer()]
    chart = _histogram(
        title,
        f"median {figures.number(bins.quantile(0.5))}, "
        f"from {figures.number(bins.smallest)} to {figures.number(bins.largest)}",
        x_label,
        [
            (_share(start, low, high), _share(stop, low, high), rows, _range(start, stop, single, bins.width))
            for start, stop, rows in bars
        ],
        [Tick(_share(each + shift, low, high), label) for each, label in zip(at, figures.axis_labels(at), strict=True)],
        [],
    )
    return chart, bins.count - sum(rows for _start, _stop, rows in bars)


def label_bars(frequencies: Frequencies) -> list[LabelBar]:
    """The most frequent labels, all others as one, and rows without a value."""
    top = frequencies.top(_LABELS + 1)
    if len(top) > _LABELS:
        top = top[:_LABELS]
    others = frequencies.total - sum(rows for _label, rows in top)
    found = [(masked(label), rows, "label") for label, rows in top]
    if others:
        different = len(frequencies.counts) - len(top)
        more = "more than " if frequencies.untold else ""
        found.append((f"{more}{different:,} others", others, "others"))
    if frequencies.nulls:
        found.append(("no value", frequencies.nulls, "none"))
    most = max((rows for _label, rows, _kind in found), default=1)
    every = frequencies.total + frequencies.nulls
    return [LabelBar(label, rows, rows / every, rows / most, kind) for label, rows, kind in found]


def _histogram(
    title: str,
    summary: str,
    x_label: str,
    bars: list[tuple[float, float, int, str]],
    x: list[Tick],
    marks: list[Mark],
) -> Markup:
    amounts = figures.amount_ticks(max(rows for _start, _end, rows, _range in bars), whole=True)
    top = amounts[-1]
    y = [Tick(at / top, label) for at, label in zip(amounts, figures.axis_labels(amounts), strict=True)]
    return histogram(
        Frame(title, summary, x_label, "rows", x, y, marks),
        [
            Bar(start, end, rows / top, f"{label}: {rows:,} {'row' if rows == 1 else 'rows'}")
            for start, end, rows, label in bars
        ],
    )


def _ms(log: float) -> str:
    return figures.milliseconds(10.0**log)


def _range(start: float, stop: float, single: bool, width: float) -> str:
    if single:
        return figures.number(start)
    last = stop - 1 if width == 1.0 else stop  # of whole numbers
    return f"{figures.number(start)} to {figures.number(last)}"


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low)

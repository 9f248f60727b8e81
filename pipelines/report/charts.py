"""Charts as inline SVG whose colours are CSS variables of the page.

Places along the x axis are per cent and those along the y axis pixels, so that a chart stretches with the page and
its text does not. The SVG is the plot alone; what is written around it lies in the padding of its box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from markupsafe import Markup

HEIGHT = 180  # pixels of a plot
_WIDE = 10_000  # units across, of what is drawn with lines
_CHARACTER = 0.024  # the share of a phone's plot that a character of a label takes
_ids = count(1)

Points = Sequence[tuple[float, float]]


class Tick(NamedTuple):
    """A label on an axis, at a share of its length."""

    at: float
    label: str


class Bar(NamedTuple):
    """A bar from `start` to `end` (shares of the x axis), as high as a share of the y axis."""

    start: float
    end: float
    height: float
    says: str  # when pointed at


class Line(NamedTuple):
    """A line through points (shares of both axes); `kind` chooses its colour: ok, failed or neutral."""

    kind: str
    points: Points


class Mark(NamedTuple):
    """A vertical line with a label, at a share of the x axis."""

    at: float
    label: str


class Frame(NamedTuple):
    """What is around a plot. `summary` says in words what the picture shows."""

    title: str
    summary: str
    x_label: str
    y_label: str
    x: Sequence[Tick]
    y: Sequence[Tick]
    marks: Sequence[Mark] = ()


def histogram(frame: Frame, bars: Iterable[Bar]) -> Markup:
    """A chart of bars."""
    return _chart(frame, Markup("").join(_bar(bar) for bar in bars))


def lines(frame: Frame, drawn: Sequence[Line], hits: Iterable[Bar]) -> Markup:
    """A chart of lines. `hits` are the invisible bars that say what the lines are at when pointed at."""
    paths = Markup("").join(_line(each) for each in drawn)
    across = Markup('<svg viewBox="0 0 {} {}" width="100%" height="{}" preserveAspectRatio="none">{}</svg>')
    return _chart(frame, across.format(_WIDE, HEIGHT, HEIGHT, paths) + Markup("").join(_hit(each) for each in hits))


def _chart(frame: Frame, content: Markup) -> Markup:
    name = f"chart-{next(_ids)}"
    levels = _levels(frame.marks)
    return Markup(
        '<div class="plot" style="--levels:{levels}"><div class="y-label" aria-hidden="true">{y_label}</div>'
        '<svg class="chart" role="img" aria-labelledby="{name}-t {name}-d" width="100%" height="{height}">'
        '<title id="{name}-t">{title}</title><desc id="{name}-d">{summary}</desc>{y}{content}{marks}{x}</svg>'
        '<div class="x-label" aria-hidden="true">{x_label}</div></div>'
    ).format(
        name=name,
        levels=max(levels, default=-1) + 1,
        height=HEIGHT,
        title=frame.title,
        summary=frame.summary,
        x_label=frame.x_label,
        y_label=frame.y_label,
        y=Markup("").join(_y_tick(tick) for tick in frame.y),
        x=Markup("").join(_x_tick(tick) for tick in frame.x),
        content=content,
        marks=_marks(frame.marks, levels),
    )


def _y_tick(tick: Tick) -> Markup:
    y = _y(tick.at)
    return Markup(
        '<line class="{kind}" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        '<text class="tick" x="-8" y="{y}" dy="0.35em" text-anchor="end">{label}</text>'
    ).format(kind="base" if tick.at == 0 else "gridline", y=y, label=tick.label)


def _x_tick(tick: Tick) -> Markup:
    return Markup(
        '<line class="base" x1="{x}" x2="{x}" y1="{y}" y2="{below}"/>'
        '<text class="tick" x="{x}" y="{text}" text-anchor="middle">{label}</text>'
    ).format(x=_x(tick.at), y=HEIGHT, below=HEIGHT + 4, text=HEIGHT + 17, label=tick.label)


def _levels(marks: Sequence[Mark]) -> list[int]:
    """For each mark the lowest level above the plot where its label meets no other one."""
    taken: list[list[tuple[float, float]]] = []
    levels = []
    for mark in marks:
        width = _label_width(mark)
        start, end = (mark.at - width, mark.at) if _leftward(mark) else (mark.at, mark.at + width)
        level = next(
            (at for at, others in enumerate(taken) if all(end <= low or high <= start for low, high in others)),
            len(taken),
        )
        if level == len(taken):
            taken.append([])
        taken[level].append((start, end))
        levels.append(level)
    return levels


def _leftward(mark: Mark) -> bool:
    return mark.at + _label_width(mark) > 1


def _label_width(mark: Mark) -> float:
    return (len(mark.label) + 2) * _CHARACTER


def _marks(marks: Sequence[Mark], levels: Sequence[int]) -> Markup:
    """Labels come after all lines, which they interrupt."""
    drawn, labels = Markup(), Markup()
    for mark, level in zip(marks, levels, strict=True):
        y = -5 - 14 * level
        drawn += Markup('<line class="mark" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>').format(
            x=_x(mark.at), top=y - 9, bottom=HEIGHT
        )
        anchor, shift = ("end", -4) if _leftward(mark) else ("start", 4)
        labels += Markup(
            '<text class="mark-label" x="{x}" dx="{shift}" y="{y}" text-anchor="{anchor}">{label}</text>'
        ).format(x=_x(mark.at), shift=shift, y=y, anchor=anchor, label=mark.label)
    return drawn + labels


def _bar(bar: Bar) -> Markup:
    height = max(bar.height * HEIGHT, 1.0 if bar.height > 0 else 0.0)  # what is there can be seen
    drawn = Markup('<rect class="bar" x="{x}" width="{width}" y="{y}" height="{height}"/>').format(
        x=_x(bar.start), width=_x(bar.end - bar.start), y=f"{HEIGHT - height:.1f}", height=f"{height:.1f}"
    )
    return drawn + _hit(bar)


def _hit(bar: Bar) -> Markup:
    return Markup(
        '<rect class="hit" x="{x}" width="{width}" y="0" height="{height}"><title>{says}</title></rect>'
    ).format(x=_x(bar.start), width=_x(bar.end - bar.start), height=HEIGHT, says=bar.says)


def _line(line: Line) -> Markup:
    places = " ".join(f"{x * _WIDE:.0f},{_y(y)}" for x, y in line.points)
    first, last = (f"{line.points[at][0] * _WIDE:.0f}" for at in (0, -1))
    return Markup('<path class="area {kind}" d="M{first},{floor} L{places} L{last},{floor} Z"/>').format(
        kind=line.kind, first=first, last=last, places=places, floor=HEIGHT
    ) + Markup('<path class="line {kind}" d="M{places}"/>').format(kind=line.kind, places=places)


def _x(share: float) -> str:
    return f"{share * 100:.3f}%"


def _y(share: float) -> str:
    return f"{HEIGHT * (1 - share):.1f}"

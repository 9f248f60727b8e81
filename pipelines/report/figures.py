"""Numbers as people read them, and the places on an axis where they stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise

UNKNOWN = "unknown"
_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_DURATIONS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def number(value: float | None) -> str:
    """A count with thousands separated, or a fraction with as many digits as matter."""
    if value is None:
        return UNKNOWN
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def brief(value: float) -> str:
    """A number with three digits where it has more than six: 37.7M."""
    size, letter = next((each for each in _SIZES if abs(value) >= max(1e6, each[0])), (1.0, ""))
    return f"{value / size:.3g}{letter}" if letter else number(value)


def axis_labels(values: Sequence[float]) -> list[str]:
    """Labels of an axis, all in thousands, millions and so on where the highest asks for it: 0, 5k, 10k."""
    highest = max(map(abs, values), default=0)
    size, letter = next((each for each in _SIZES if highest >= 10 * each[0]), (1.0, ""))
    return [f"{value / size:.4g}{letter}" if letter and value else f"{value:,.6g}" for value in values]


def dollars(value: float | None) -> str:
    """US dollars: cents where they matter, and two digits of what is less than one."""
    if value is None:
        return UNKNOWN
    if value == 0 or abs(value) >= 1:
        return f"${value:,.2f}"
    return f"${value:.{max(2, 1 - math.floor(math.log10(abs(value))))}f}"


def dollar_labels(amounts: Sequence[float]) -> list[str]:
    """Labels of an axis in US dollars, with as many digits as tell its ticks apart."""
    step = min((later - earlier for earlier, later in pairwise(amounts)), default=1.0)
    if step >= 1:
        return [f"${label}" for label in axis_labels(amounts)]
    digits = max(2, -math.floor(math.log10(step) + 1e-9))
    return [f"${amount:,.{digits}f}" for amount in amounts]


def percent(share: float | None) -> str:
    """A share; never 100 % or 0 % where a part is missing."""
    if share is None:
        return "–"
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    shown = min(max(share * 100, 0.01), 99.99)
    digits = 2 if shown > 99.9 or shown < 0.1 else 1
    return f"{shown:.{digits}f} %"


def milliseconds(value: float | None) -> str:
    """A latency: 0.5 ms, 120 ms, 3.4 s, 2 min."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g} ms" if value < 999.5 else duration(value / 1000)


def duration(seconds: float | None) -> str:
    """A length of time: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h."""
    if seconds is None:
        return UNKNOWN
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    for size, name, below, lesser in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {lesser}" if rest else "")
    return f"{whole} s"


def moment(text: str | None) -> str:
    """A time of an account as `2026-01-31 08:00:00` in UTC."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return UNKNOWN


def moment_of(ms: float) -> str:
    """A time in ms since 1970 as `2026-01-31 08:00:00` in UTC."""
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return UNKNOWN


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers, a step of 1, 2 or 5 times a power of ten apart, that lie from `low` to `high`."""
    step = _step((high - low) / about)
    return [at * step for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def amount_ticks(high: float, *, whole: bool = False) -> list[float]:
    """Ticks from 0 to the first one that is not below `high`, which is where the axis ends; of whole amounts, whole."""
    step = _step(high / 4)
    step = max(step, 1.0) if whole else step
    return [at * step for at in range(max(1, math.ceil(high / step - 1e-9)) + 1)]


def duration_ticks(seconds: float, about: int = 4) -> list[tuple[float, str]]:
    """Round lengths of time from 0 to `seconds`, each with its label."""
    rough = seconds / about
    if rough < 1:
        step = _step(rough)
    elif rough <= _DURATIONS[-1]:
        step = next(each for each in _DURATIONS if each >= rough * 0.999)
    else:
        step = _step(rough / 86_400) * 86_400
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, name = next((each for each in units if step >= each[0]), (0.001, "ms"))
    return [(at * step, f"{at * step / size:.4g} {name}") for at in range(math.floor(seconds / step + 1e-9) + 1)]


def decade_ticks(low: float, high: float, apart: float = 0.16) -> list[float]:
    """Numbers for a logarithmic axis from 10**low to 10**high, no closer than `apart`, a share of its length: powers
    of ten, and round numbers between them where there is room."""
    room = (high - low) * apart
    factors = next((each for each, gap in _FACTORS if gap >= room), (1,))
    every = max(1, math.ceil(room))  # of the powers of ten
    decades = [at for at in range(math.floor(low), math.ceil(high) + 1) if at % every == 0]
    found = [factor * 10.0**decade for decade in decades for factor in factors]
    return [each for each in found if low <= math.log10(each) <= high]


# What stands beside each power of ten, and how near its logarithms come.
_FACTORS = (((1, 1.5, 2, 3, 5, 7), 0.124), ((1, 2, 5), 0.301), ((1, 3), 0.477), ((1,), 1.0))


def _step(rough: float) -> float:
    if not rough > 0 or not math.isfinite(rough):
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough * 0.999), 10 * power)

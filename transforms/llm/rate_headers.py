"""What a response says about the limits of its account.

x-ratelimit-{limit,remaining,reset}-{requests,tokens}
    OpenAI (platform.openai.com/docs/guides/rate-limits) and what follows it; reset is a Go duration: "1s",
    "6m0s", "12ms"; also plain seconds
anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}
    docs.claude.com/en/api/rate-limits; reset is a time in RFC 3339
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

_FRACTION = re.compile(r"\.(\d+)")
_NUMBER = re.compile(r"\d{1,15}(\.\d{0,9})?", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{0,9})?(?:h|ms|m|s|us|µs|ns))+")
_PART = re.compile(r"([\d.]+)(h|ms|m|s|us|µs|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_OPENAI = "x-ratelimit-{}-{}"
_ANTHROPIC = "anthropic-ratelimit-{1}-{0}"


class Rate(NamedTuple):
    """One limit: so many a minute, so many left, and the seconds until all of it is there again. None: not said."""

    limit: float | None = None
    remaining: float | None = None
    reset: float | None = None


class RateHeaders(NamedTuple):
    """The limits that a response tells of, in the order of Amounts."""

    requests: Rate | None = None
    tokens: Rate | None = None
    input_tokens: Rate | None = None
    output_tokens: Rate | None = None


def _names(form: str, kind: str) -> tuple[str, str, str]:
    return form.format("limit", kind), form.format("remaining", kind), form.format("reset", kind)


_OPENAI_NAMES = [_names(_OPENAI, kind) for kind in ("requests", "tokens")]
_ANTHROPIC_NAMES = [_names(_ANTHROPIC, kind) for kind in ("requests", "tokens", "input-tokens", "output-tokens")]


def rate_headers(headers: Mapping[str, str], now: float | None = None) -> RateHeaders | None:
    """The limits in a response's headers; None without any. What cannot be read counts as not said.

    `headers` finds names in lower case. `now` is Unix time, for dates; None: the clock.
    """
    for names in (_OPENAI_NAMES, _ANTHROPIC_NAMES):
        found = [_rate(headers, each, now) for each in names]
        if any(found):
            return RateHeaders(*found)
    return None


def _rate(headers: Mapping[str, str], names: tuple[str, str, str], now: float | None) -> Rate | None:
    limit, remaining = _number(headers.get(names[0])), _number(headers.get(names[1]))
    if limit is None and remaining is None:
        return None
    return Rate(limit or None, remaining, _reset(headers.get(names[2]), now))  # a limit of 0 is no limit but a bug


def _number(value: str | None) -> float | None:
    return float(value) if value is not None and _NUMBER.fullmatch(value.strip()) else None


def _reset(value: str | None, now: float | None) -> float | None:
    """Seconds from a duration, a number of seconds or a time."""
    if value is None:
        return None
    value = value.strip()
    if _DURATION.fullmatch(value):
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        # Before Python 3.11 fromisoformat takes neither "Z" nor fractions of other than three or six digits.
        text = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", value.replace("Z", "+00:00").replace("z", "+00:00"))
        then = datetime.fromisoformat(text)
        then = then if then.tzinfo else then.replace(tzinfo=timezone.utc)
        return max(0.0, then.timestamp() - (time.time() if now is None else now))
    except (ValueError, OverflowError):
        return None

"""The pause that a server asks for: Retry-After (RFC 9110, section 10.2.3) and OpenAI's retry-after-ms."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime

# What float() takes beside that (nan, inf, 1_0) is junk here.
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_LONGEST = 366 * 86400.0  # a longer pause is a broken clock, not a wish


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that the response asks to wait, at least 0 and uncapped; None if it asks for nothing sensible.

    `headers` finds names in lower case. `now` is Unix time, for dates; None: the clock. A date in the past is
    0.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _sensible(milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        seconds = _until(value, time.time() if now is None else now)
    return _sensible(seconds)


def _number(value: str | None) -> float | None:
    return float(value) if value is not None and _NUMBER.fullmatch(value.strip()) else None


def _until(date: str, now: float) -> float | None:
    try:
        then = parsedate_to_datetime(date)
        # HTTP dates are in GMT; one that says "-0000" comes back without a zone.
        return max(0.0, (then if then.tzinfo else then.replace(tzinfo=timezone.utc)).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _sensible(seconds: float | None) -> float | None:
    return seconds if seconds is not None and seconds <= _LONGEST else None

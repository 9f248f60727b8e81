"""Values out of a provider's answer, none of which has to be what the documentation says."""

from __future__ import annotations

from typing import Any

from transforms.llm.errors import TransientError
from transforms.llm.text import excerpt, storable

_MOST_TOKENS = 2**63 - 1  # what a column of the results holds


def tokens(value: Any) -> int | None:
    """A count of tokens; None for what is none."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if known else None


def string(value: Any) -> str | None:
    """A text as it may be stored; None for what is none."""
    return storable(value) if isinstance(value, str) else None


def bad_shape(what: str, body: Any) -> TransientError:
    """The error for a 200 that holds no answer, which says what it holds."""
    # str() of a huge body is paid for only on this path, which a row takes a few times at most.
    return TransientError("bad_response", f"HTTP 200, but {what}: {excerpt(str(body), 200)}", http_status=200)

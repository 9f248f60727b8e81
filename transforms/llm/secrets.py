"""The one place that masks secrets: every text that leaves the process goes through `masked`.

A secret is made known once, by the code that reads it from the environment; from then on no caller has to
carry it about to keep it out of a message.
"""

from __future__ import annotations

import re
import threading
from urllib.parse import quote

MASK = "***"
_SHORTEST = 6  # characters; "none" or "x", which local servers are given as a key, would mask ordinary words

# What looks like a secret although nobody made it known: a provider's keys, as error messages quote them,
# Authorization headers, and the user part of a URL.
_TOKENS = r"\bsk-[\w*-]{8,}"
_BEARER = r"(?P<bearer>\b[Bb]earer\s+)[\w.~+/=-]{8,}"
_URL = r"(?P<url>://)[^/\s@:]*:[^/\s@]*(?=@)"

_lock = threading.Lock()
_known: set[str] = set()
_known_pattern: re.Pattern[str] | None = None
_pattern = re.compile("|".join((_BEARER, _TOKENS, _URL)))


def hide(secret: str | None) -> None:
    """Mask `secret` in every text from now on. None and texts under six characters are left alone."""
    global _known_pattern
    if not secret or len(secret) < _SHORTEST:
        return
    with _lock:
        _known.update((secret, quote(secret, safe="")))
        # The longest first: a secret that begins with another one must not leave its rest behind.
        _known_pattern = re.compile("|".join(re.escape(each) for each in sorted(_known, key=len, reverse=True)))


def masked(text: str) -> str:
    """`text` with every known secret, and all that looks like one, replaced by `***`."""
    if _known_pattern is not None:
        # First and on their own: a guess that begins before a known secret may end in the middle of it.
        text = _known_pattern.sub(MASK, text)
    return _pattern.sub(lambda found: (found["bearer"] or found["url"] or "") + MASK, text)

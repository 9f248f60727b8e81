"""The one place that masks secrets: every text that leaves the process goes through `masked`.

A secret is made known once, by the code that reads it from the environment; from then on no caller has to
carry it about to keep it out of a message.
"""

from __future__ import annotations

import html
import json
import re
import threading
from urllib.parse import quote

MASK = "***"
_SHORTEST = 6  # characters; "none" or "x", which local servers are given as a key, would mask ordinary words

# What looks like a secret although nobody made it known: a provider's keys, as error messages quote them, the
# headers that carry one, and the user part of a URL.
_TOKENS = r"\bsk-[\w*-]{8,}"
_BEFORE = r"\b[Bb]earer\s+|(?i:\b(?:x-)?api-key[\"']?\s*[:=]\s*[\"']?|\bauthorization[\"']?\s*[:=]\s*[\"']?basic\s+)"
_HEADER = rf"(?P<header>{_BEFORE})[\w.~+/=*-]{{8,}}"
_URL = r"(?P<url>://)[^/?#\s\"'<>]+(?=@)"
_LOOKALIKES = (_HEADER, _TOKENS, _URL)

_lock = threading.Lock()
_known: tuple[str, ...] = ()
_known_pattern: re.Pattern[str] | None = None
_pattern = re.compile("|".join(_LOOKALIKES))


def hide(secret: str | None) -> None:
    """Mask `secret` in every text from now on. None and texts under six characters are left alone."""
    global _known, _known_pattern
    if not secret or len(secret) < _SHORTEST:
        return
    with _lock:
        # As it stands, and as a URL, a page or a JSON text quotes it.
        forms = {secret, quote(secret, safe=""), html.escape(secret), json.dumps(secret)[1:-1]}
        # The longest first: a secret that begins with another one must not leave its rest behind.
        _known = tuple(sorted({*_known, *forms}, key=len, reverse=True))
        _known_pattern = re.compile("|".join(map(re.escape, _known)))


def masked(text: str) -> str:
    """`text` with every known secret, and all that looks like one, replaced by `***`."""
    if _known_pattern is not None:
        # First and on their own: a guess that begins before a known secret may end in the middle of it.
        text = _known_pattern.sub(MASK, text)
    return _pattern.sub(lambda found: (found["header"] or found["url"] or "") + MASK, text)


def without_known(text: str) -> str:
    """`text` with every known secret replaced by `***`: for a model's words, where what only looks like a secret
    stays as it is."""
    return text if _known_pattern is None else _known_pattern.sub(MASK, text)

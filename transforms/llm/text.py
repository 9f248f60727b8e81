"""Text from outside, made fit to be stored, logged and shown."""

from __future__ import annotations

import re

from transforms.llm.secrets import masked, without_known

_SURROGATES = re.compile("[\ud800-\udfff]")
# Control characters, line and paragraph separators, and the marks that turn the direction of what follows.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")
_LOOKED_AT = 20_000  # characters; an error page can have megabytes


def without_surrogates(text: str) -> str:
    """`text` with each lone surrogate, which no encoding and no file format takes, replaced by U+FFFD."""
    if text.isascii():
        return text
    return _SURROGATES.sub("\ufffd", text)


def storable(text: str) -> str:
    """What an endpoint wrote, as it may be kept: without lone surrogates, and without our key, should it echo it."""
    return without_known(without_surrogates(text))


def excerpt(text: str, limit: int = 500) -> str:
    """At most `limit` characters of `text`, on one line, without control characters and secrets."""
    # Masked before it is cut: half a key would no longer be recognised.
    line = " ".join(_CONTROLS.sub(" ", masked(without_surrogates(text[:_LOOKED_AT]))).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"

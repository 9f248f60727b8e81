"""Texts of somebody else's, as the page may show them."""

from __future__ import annotations

from transforms.llm.secrets import masked

MESSAGE_CHARS, INPUT_CHARS, LABEL_CHARS, BRIEF_CHARS = 400, 240, 72, 22
_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "\N{REPLACEMENT CHARACTER}")


def shown(text: object, most: int) -> str:
    """A text of somebody else's: masked, shortened, and without characters that HTML cannot hold."""
    masked_text = masked(str(text)).translate(_CONTROL)
    return masked_text if len(masked_text) <= most else masked_text[: most - 1] + "…"

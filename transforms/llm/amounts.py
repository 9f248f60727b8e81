"""What one request takes from the limits of an account."""

from __future__ import annotations

from typing import NamedTuple


class Amounts(NamedTuple):
    """Per limit that providers have, what a request takes from it. The names are those of Anthropic's headers
    (docs.claude.com/en/api/rate-limits); OpenAI knows the first two. RateHeaders has the same order."""

    requests: float = 1.0
    tokens: float = 0.0  # input and output
    input_tokens: float = 0.0  # without those read from the provider's cache, which do not count there
    output_tokens: float = 0.0

"""How many tokens a request will take, before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm.amounts import Amounts
from transforms.llm.completion import Usage

TOKENS_PER_CHARACTER = 0.25  # English, by most tokenizers; other scripts take more, which is soon learned
_ANSWER = 256  # tokens, until there is an answer
_LONGEST_FIRST_ANSWER = 1024  # what max_tokens allows is a bound; most answers are far from it
_MEMORY = 50  # requests: over so many an average moves


class TokenEstimate:
    """Learns from each answer how many tokens a character of the prompt makes and how long the answers are.

    Starts with the parameters' max_tokens or max_completion_tokens for the answer. Not for several threads at
    once.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        most = parameters.get("max_completion_tokens", parameters.get("max_tokens"))
        known = isinstance(most, int) and not isinstance(most, bool) and most > 0
        self._answer = float(min(most, _LONGEST_FIRST_ANSWER)) if known else float(_ANSWER)
        self._ratio = TOKENS_PER_CHARACTER
        self._answers = 0

    def amounts(self, characters: int) -> Amounts:
        """What a request with a prompt of so many characters is expected to take."""
        return self._with(characters, self._answer)

    def least(self, characters: int) -> Amounts:
        """The same, but no answer is assumed before one was seen: a guess must not condemn a row."""
        return self._with(characters, self._answer if self._answers else 0.0)

    def learn(self, characters: int, usage: Usage) -> None:
        """What such a request has taken."""
        if usage.prompt_tokens is None or usage.completion_tokens is None or not characters:
            return
        self._answers += 1
        weight = 1 / min(self._answers, _MEMORY)
        self._answer += (usage.completion_tokens - self._answer) * weight
        self._ratio += (usage.prompt_tokens / characters - self._ratio) * weight

    def _with(self, characters: int, answer: float) -> Amounts:
        prompt = characters * self._ratio
        return Amounts(1.0, prompt + answer, prompt, answer)

"""What is put to the model about one row, ready to be sent."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

# What an image counts for in estimates: about a thousand tokens, as providers reckon a picture of common size.
_IMAGE_CHARACTERS = 4000


class Prompt(NamedTuple):
    """One question, encoded once however often it is asked. Immutable; equal prompts are the same request."""

    system: str  # empty: none
    messages: str  # those after the system's, as a JSON list
    parameters: str = ""  # of this row alone, as the inside of a JSON object: "max_tokens": 50, "seed": 1
    text_characters: int = 0  # in all messages and the system text together
    images: int = 0
    output_limit: int | None = None  # tokens of the answer, where the row itself says so
    records: int = 1  # that it asks about; more than one are answered together, each under its key

    @property
    def characters(self) -> int:
        """The length that tokens are estimated by, an image counted as a text of about as many tokens."""
        return self.text_characters + self.images * _IMAGE_CHARACTERS

    @classmethod
    def of(cls, system: str, user: str) -> Prompt:
        """A system text, which may be empty, and one message."""
        return cls(system, encode([message("user", user)]), text_characters=len(system) + len(user))


def message(role: str, content: Any) -> dict[str, Any]:
    """A message of a conversation."""
    return {"role": role, "content": content}

"""The JSON in an answer: strict, and what a model may wrap it in taken off.

The text counts as it is, or inside one ``` fence and after one leading <think> block (also one whose opening tag
the chat template has swallowed). Nothing is repaired, and what stands inside strings is never looked at.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

_THINK, _THOUGHT = "<think>", "</think>"
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)


class Doubled(dict[str, Any]):
    """An object that had a key twice: `keys_twice`, of which only the last value is here."""

    keys_twice: frozenset[str]


def json_in(text: str, *, doubled: bool = False) -> tuple[Any, bool]:
    """The value, and whether it was unwrapped. Raises ValueError that says what is wrong with the text as it is.

    `doubled`: objects with a key twice, which is an error otherwise, are left to the caller, as Doubled."""
    problem = ""
    decoder = _lenient if doubled else _decoder
    for candidate in _candidates(text):
        try:
            return decoder.decode(candidate), candidate is not text
        except RecursionError:
            problem = problem or "nested too deeply"
        except ValueError as error:
            problem = problem or str(error)  # of the text as it is: the others are guesses
    raise ValueError(problem)


def without_thought(text: str) -> str:
    """What comes after a leading <think> block; nothing if it has no end."""
    before, thought, rest = text.partition(_THOUGHT)
    if thought:
        return rest
    return "" if before.lstrip().startswith(_THINK) else before


def _candidates(text: str) -> Iterator[str]:
    """What may be the JSON, the most literal reading first."""
    yield text
    body = text.strip()
    if not body.startswith(_THINK):
        yield from _fenced(body)
    _, thought, rest = body.partition(_THOUGHT)
    if thought:
        yield rest
        yield from _fenced(rest.strip())


def _fenced(text: str) -> tuple[str, ...]:
    """What stands between the marks, if the text is one fence from its first character to its last."""
    fence = _FENCE.fullmatch(text)
    return fence.groups() if fence else ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _object_or_doubled(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    marked = Doubled(found)
    marked.keys_twice = frozenset(key for key, count in Counter(key for key, _value in pairs).items() if count > 1)
    return marked


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number} is too large")
    return value


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
_lenient = json.JSONDecoder(object_pairs_hook=_object_or_doubled, parse_constant=_constant, parse_float=_float)

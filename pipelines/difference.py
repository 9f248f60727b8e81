"""What differs between two values of a task's fingerprint, in lines that a person finds the change in.

Short values are shown whole. Of long texts each change has a line of its own, with the words around it, marked as
`git diff --word-diff` does: [-what was-]{+what is+}. All text is masked before it is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from transforms.llm.secrets import masked
from transforms.records import canonical_json

MOST_LINES = 10  # about one key
_SHOWN = 60  # characters of a value, or of what was added or removed in a text
_LEAD = 20  # of them, the most that stand before the first difference
_AROUND = 30  # characters of a text on each side of a change
_MOST_TOKENS = 2000  # words, or lines, of which those that differ are found: it takes time in their square
_WORD = re.compile(r"\s*\S+|\s+$")


def value_changes(key: str, before: Any, after: Any) -> list[str]:
    """Lines `key: what changed`, at least one, for two JSON values that are not the same."""
    lines = list(_changes(key, before, after))
    more = len(lines) - MOST_LINES
    return lines if more <= 1 else [*lines[:MOST_LINES], f"{key}: and {more} more changes"]


def _changes(key: str, before: Any, after: Any) -> Iterator[str]:
    old, new = masked(value_text(before)), masked(value_text(after))
    if old == new:
        yield f"{key}: differs in what is masked here"
    elif max(len(old), len(new)) <= _SHOWN:
        yield f"{key}: {old} -> {new}"
    elif isinstance(before, str) and isinstance(after, str):
        yield from (f"{key}: {change}" for change in text_changes(masked(before), masked(after)))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_changes(key, before, after)
    else:
        yield f"{key}: {' -> '.join(_around_difference(old, new))}"


def value_text(value: Any) -> str:
    """A value in one line: text as Python's repr(), all else as canonical JSON."""
    return repr(value) if isinstance(value, str) else canonical_json(value)


def text_changes(old: str, new: str) -> list[str]:
    """The changes of a text, a line each; the number of the changed line is in front where there are several."""
    olds, news = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if max(len(olds), len(news)) <= 1:
        return list(_word_changes(old, new))
    if max(len(olds), len(news)) > _MOST_TOKENS:
        return [" -> ".join(_around_difference(repr(old), repr(new)))]
    found = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        paired = min(i2 - i1, j2 - j1)
        for at in range(paired):
            place = f"line {j1 + at + 1}: "
            found += [place + change for change in _word_changes(olds[i1 + at], news[j1 + at])]
        found += [f"line {at + 1}: {{+{_cut(news[at])}+}}" for at in range(j1 + paired, j2)]
        found += [f"line {at + 1} of before: [-{_cut(olds[at])}-]" for at in range(i1 + paired, i2)]
    return found


def _word_changes(old: str, new: str) -> Iterator[str]:
    olds, news = _WORD.findall(old), _WORD.findall(new)
    if max(len(olds), len(news)) in (0, 1) or max(len(olds), len(news)) > _MOST_TOKENS:
        yield " -> ".join(_around_difference(repr(old), repr(new)))
        return
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        before, after = "".join(news[:j1]), "".join(news[j2:])
        lead = f"…{_escaped(before[-_AROUND:])}" if len(before) > _AROUND else _escaped(before)
        trail = f"{_escaped(after[:_AROUND])}…" if len(after) > _AROUND else _escaped(after)
        # The space in front of a word is no part of its change, unless nothing else is.
        gone, came = "".join(olds[i1:i2]), "".join(news[j1:j2])
        space = _space(gone, came)
        gone, came = gone[len(space) :] if gone else "", came[len(space) :] if came else ""
        was, now = f"[-{_cut(gone)}-]" if gone else "", f"{{+{_cut(came)}+}}" if came else ""
        yield f"{lead}{_escaped(space)}{was}{now}{trail}"


def _space(gone: str, came: str) -> str:
    spaces = [text[: len(text) - len(text.lstrip())] for text in (gone, came) if text]
    same = len(set(spaces)) == 1 and all(text.strip() for text in (gone, came) if text)
    return spaces[0] if same else ""


def _list_changes(key: str, before: list[Any], after: list[Any]) -> Iterator[str]:
    if len(before) == len(after) and any(isinstance(item, (dict, list)) for item in (*before, *after)):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            if isinstance(one, dict) and isinstance(other, dict):
                for name in sorted({*one, *other}):
                    if canonical_json(one.get(name)) != canonical_json(other.get(name)):
                        yield from _changes(f"{key}[{at}].{name}", one.get(name), other.get(name))
            elif canonical_json(one) != canonical_json(other):
                yield from _changes(f"{key}[{at}]", one, other)
        return
    olds, news = [canonical_json(item) for item in before], [canonical_json(item) for item in after]
    gone, came = _without(olds, news), _without(news, olds)
    if not gone and not came:
        shown = " -> ".join(_around_difference(value_text(before), value_text(after)))
        yield f"{key}: the same in another order: {masked(shown)}"
    yield from (f"{key}: [-{_cut(masked(item))}-]" for item in gone)
    yield from (f"{key}: {{+{_cut(masked(item))}+}}" for item in came)


def _without(items: Sequence[str], others: Sequence[str]) -> list[str]:
    left = list(others)
    found = []
    for item in items:
        if item in left:
            left.remove(item)
        else:
            found.append(item)
    return found


def _escaped(text: str) -> str:
    return repr(text)[1:-1].replace("\\'", "'")


def _cut(text: str) -> str:
    text = _escaped(text)
    return text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]}…{text[-_SHOWN:]}"


def _around_difference(old: str, new: str) -> tuple[str, str]:
    both = zip(old, new, strict=False)  # where one begins with the other, the difference is its end
    same = next((at for at, (one, other) in enumerate(both) if one != other), min(len(old), len(new)))
    start = max(0, same - _LEAD)
    return _window(old, start), _window(new, start)


def _window(text: str, start: int) -> str:
    if len(text) <= _SHOWN:
        return text
    start = min(start, len(text) - _SHOWN)
    shown = text[start : start + _SHOWN]
    return f"{'…' if start else ''}{shown}{'…' if start + _SHOWN < len(text) else ''}"

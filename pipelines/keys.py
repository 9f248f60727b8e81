"""The keys of a configuration by their dotted names, as the user writes them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import get_args, get_origin

from transforms.settings import Section, Settings

_SECRET_NAME = re.compile(
    r"key|header|secret|password|credential|authorization|token$|connection_string", re.IGNORECASE
)


@cache
def all_keys() -> tuple[str, ...]:
    """All dotted names, a section before its keys: task, task.name, ..., model.price, model.price.input."""
    return tuple(_keys(Settings, ""))


def nearest_key(key: str) -> str | None:
    """The key probably meant by the unknown `key`: one of its section, else one of like name elsewhere."""
    parent, leaf = _split(key)
    siblings = {_split(known)[1]: known for known in all_keys() if _split(known)[0] == parent}
    elsewhere = {_split(known)[1]: known for known in reversed(all_keys())}  # the first of several stays
    for names, likeness in ((siblings, 0.6), (elsewhere, 0.8)):
        near = difflib.get_close_matches(leaf, names, n=1, cutoff=likeness)
        if near:
            return names[near[0]]
    return None


def holds_secret(key: str) -> bool:
    """Whether the value of the dotted `key` could be a secret, judged by its name: messages never show it.

    api_key_env counts too, although it holds a variable's name: the key itself easily ends up there."""
    return _SECRET_NAME.search(key) is not None


def keys_beside(key: str) -> list[str]:
    """The names, without section, of all keys in the section of `key`."""
    parent = _split(key)[0]
    return [_split(known)[1] for known in all_keys() if _split(known)[0] == parent]


def _split(key: str) -> tuple[str, str]:
    parent, _, leaf = key.rpartition(".")
    return parent, leaf


def _keys(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key
        if get_origin(field.annotation) is list:  # what is in a list has no name of its own
            continue
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, Section):
                yield from _keys(kind, f"{key}.")

"""One change of the configuration from the command line: --set KEY=VALUE."""

from __future__ import annotations

from typing import Any

from pipelines.usage import UsageError
from pipelines.yaml12 import YamlError, json_value, read_plain, read_yaml

_EXAMPLE = "write --set KEY=VALUE, e.g. --set model.name=gpt-4o-mini"
# Always text, and often with a colon, a brace or a number sign in it, so it is taken as it stands.
_TEXTS = {"task.system", "task.prompt"}


def parse_override(override: str) -> tuple[str, Any]:
    """The dotted key and the value of KEY=VALUE. What begins with a bracket, brace or quote is YAML, all else
    one plain value. Raises UsageError."""
    key, equals, text = override.partition("=")
    if not equals:
        raise UsageError(f"--set {key}: has no value, {_EXAMPLE}")
    if not all(key.split(".")):
        raise UsageError(f"--set: no key before '=', {_EXAMPLE}")
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    try:
        if not quoted and key in _TEXTS:
            return key, json_value(text)
        if not quoted and text[:1] not in ("[", "{", '"', "'"):
            return key, read_plain(text)
        return key, read_yaml(text)
    except YamlError as error:
        hint = f" (a text that begins with {text[0]} goes in quotes)" if error.line else ""
        raise UsageError(f"--set {key}: {error.problem}{hint}") from None


def put(values: dict[str, Any], key: str, value: Any, flag: str) -> None:
    """Sets the dotted `key` in `values`, with the mappings that are missing on the way. Raises UsageError,
    which names `flag`, if something on the way is no mapping."""
    *parents, last = key.split(".")
    for depth, name in enumerate(parents, 1):
        if values.get(name) is None:
            values[name] = {}
        if not isinstance(values[name], dict):
            raise UsageError(f"{flag}: {'.'.join(parents[:depth])} is not a mapping")
        values = values[name]
    values[last] = value

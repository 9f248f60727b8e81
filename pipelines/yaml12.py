"""YAML with the plain values of version 1.2, without repeated keys, and with nothing in it that JSON has not.

PyYAML reads version 1.1, in which `off`, `no` and `yes` are booleans, `2024-01-01` is a date, `12:30` is 750
and `1e-3` is text: an enum of yes and no, or `structured_output: off`, would not be what is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

import yaml

_TOO_DEEP = "nested too deeply, or an alias inside of itself"


class YamlError(Exception):
    """A text that is not valid YAML, or a value that is not JSON.

    `line` counts from 1, or is None where there is none to point at."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        # Before the base class merges `<<`, whose keys may be repeated on purpose.
        first: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if (key.tag, key.value) in first:
                problem = f"key {key.value!r} is given twice, first in line {first[key.tag, key.value]}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            first[key.tag, key.value] = line
        return super().construct_mapping(node, deep)


_PLAIN = (  # in this order: an integer matches the float's pattern as well
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?((0|[1-9][0-9_]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
)
_Loader.yaml_implicit_resolvers = {}  # those of version 1.1 belong to the base class
for _tag, _pattern, _first in _PLAIN:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def read_yaml(text: str) -> Any:
    """The one document in `text`, or None if it is empty, as json_value() returns it. Raises YamlError."""
    try:
        return json_value(yaml.load(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not valid YAML"
        raise YamlError(problem, mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        problem = f"character U+{ord(text[error.position]):04X} is not allowed"
        raise YamlError(problem, text.count("\n", 0, error.position) + 1) from None
    except ValueError as error:  # a value that its explicit tag cannot be, e.g. `!!int x`
        raise YamlError(f"not valid YAML: {type(error).__name__} in a value with a tag") from None
    except RecursionError:
        raise YamlError(_TOO_DEEP) from None


def read_plain(text: str) -> Any:
    """`text` as one unquoted value: a number, boolean or null if it looks like one, else the text itself.

    Raises YamlError if JSON has no such value."""
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return json_value(loader.construct_object(yaml.ScalarNode(tag, text)))


def json_value(value: Any, key: str = "") -> Any:
    """A copy of `value` if it is strict JSON: text, finite numbers, booleans, null, lists, mappings by text.

    The copy unshares what YAML's aliases share, so that changing one place changes one. Raises YamlError,
    which names the dotted key below `key`."""
    prefix = f"{key}: " if key else ""
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise YamlError(f"{prefix}a key must be text, put {name!r} in quotes")
        return {name: json_value(item, f"{key}.{name}" if key else name) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item, key) for item in value]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise YamlError(f"{prefix}not valid Unicode text") from None
    elif isinstance(value, float) and not math.isfinite(value):
        raise YamlError(f"{prefix}must be a finite number")
    elif not (value is None or isinstance(value, (bool, int, float))):
        raise YamlError(f"{prefix}a {type(value).__name__} cannot be in a configuration")
    return value

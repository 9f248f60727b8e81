"""The fingerprint of a task: all that shapes an answer, so that answers to two tasks are never mixed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pipelines.difference import value_changes, value_text
from pipelines.keys import holds_secret
from transforms.llm.secrets import MASK, masked
from transforms.records import canonical_json
from transforms.settings import Settings

_ABSENT, _ABSENT_TEXT = object(), "(not set)"
_SHOWN = 60  # characters of a value that is only in one of two tasks


def task_fingerprint(settings: Settings) -> dict[str, Any]:
    """All that shapes an answer, by the dotted names that the configuration gives it, as plain JSON values.

    Left out is what changes only how, where or at what price the answer is got: limits, budget, timeouts, keys,
    price, base_url and headers, and what is done with it: carry and output."""
    task, model = settings.task, settings.model
    shape: dict[str, Any] = {
        "task.system": task.system,
        "task.prompt": task.prompt,
        "task.schema": task.answer_schema,
        "input.text": settings.input.text or "text",  # what null stands for
        "model.provider": model.provider,
        "model.name": model.name,
        "model.parameters": model.parameters,
        # auto asks for the same, and where an endpoint refuses it json_schema has no answers.
        "model.structured_output": "json_schema" if model.structured_output == "auto" else model.structured_output,
    }
    if model.provider == "embedded":
        # The file's name only: the same model may lie elsewhere on another machine.
        shape["model.path"] = PurePath(model.path).name if model.path else None
    # What is not used is left out, so that a task is the same as before there was such a key.
    for name in ("examples", "messages", "parameters_from"):
        if getattr(task, name):
            shape[f"task.{name}"] = task.model_dump(mode="json", include={name})[name]
    if task.records_per_call > 1:
        shape["task.records_per_call"] = task.records_per_call
    if task.image_columns:
        shape["task.images"] = task.image_columns
    if settings.input.on_oversized == "truncate":
        shape["input.max_chars"] = settings.input.max_chars
    plain: dict[str, Any] = _numbers(shape)
    return plain


def task_hash(settings: Settings) -> str:
    """16 hexadecimal digits that are the same for the same task_fingerprint()."""
    return hashlib.sha256(canonical_json(task_fingerprint(settings)).encode()).hexdigest()[:16]


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, one line each, e.g. `model.parameters.temperature: 0 -> 1`, or
    `task.prompt: line 3: Answer with [-one-]{+a single+} word.`

    Empty exactly if their hashes are the same. Secrets are masked."""
    return _differences("", old, new)


def _differences(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name in sorted({*old, *new}):
        key = f"{prefix}{name}"
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if _ABSENT not in (before, after) and value_text(before) == value_text(after):
            continue
        if _is_secret(key):
            lines.append(f"{key}: {MASK} -> {MASK}")
        elif before is _ABSENT or after is _ABSENT:
            shown = [_ABSENT_TEXT if value is _ABSENT else _short(value) for value in (before, after)]
            lines.append(f"{key}: {' -> '.join(shown)}")
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += _differences(f"{key}.", before, after)
        else:
            lines += value_changes(key, before, after)
    return lines


def _is_secret(key: str) -> bool:
    return key.startswith("model.") and holds_secret(key)  # a schema's property may be named key as well


def _short(value: Any) -> str:
    text = masked(value_text(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _numbers(value: Any) -> Any:
    """`value` with whole floats as integers: 0.0 and 0 are the same number to JSON and to every model."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

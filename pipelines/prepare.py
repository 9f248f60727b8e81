"""All that can be known to be wrong before anything is written or paid, and what a run needs to know besides.

Every check raises UsageError with one line that names the thing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.config import UsageError
from transforms import files
from transforms.layout import Layout
from transforms.llm.answers import AnswerParser
from transforms.llm.client import connect
from transforms.llm.columns import columns
from transforms.llm.price_table import Found, find_price
from transforms.llm.prompts import Template
from transforms.llm.secrets import masked
from transforms.read import InputError, InputFile, find_inputs, first_fields
from transforms.records import Fields
from transforms.rows import ARROW_TYPES, result_schema
from transforms.settings import Settings
from transforms.store import Unsupported

SAMPLED_RECORDS = 1000  # read before the run, to learn the input's columns from


class Prepared(NamedTuple):
    """What the checks found out. `carried` has the type of each carried column by its configuration's name."""

    inputs: list[InputFile]
    carried: dict[str, str]
    schema: pa.Schema


def check_model(settings: Settings) -> None:
    """The key is set, the model is there, a request can be made of the settings, the answer's schema is one."""
    try:
        if settings.model.provider == "embedded":
            from transforms.llm.embedded import find_model

            find_model(settings.model.path)
        else:
            for model in settings.model.per_endpoint:
                connect(settings.task, model, settings.limits, pool_size=1).close()  # makes no connection
        AnswerParser(settings.task.answer_schema)
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_price(settings: Settings) -> Found | None:
    """The model's price, None where it is not known. A budget needs one."""
    found = find_price(settings.model)
    if found is None and settings.budget.max_cost_usd is not None:
        raise UsageError(
            f"budget.max_cost_usd: no price is known for model {settings.model.name}, so nothing that it costs could "
            "be counted; set model.price"
        )
    return found


def check_output(settings: Settings) -> Layout:
    """The output can be written, which on a store is tried, and its results are all of one format."""
    path, ending = settings.output.path, settings.output.format
    if files.is_local(path):
        layout = Layout(os.path.abspath(path))
    else:
        layout = Layout(path.rstrip("/"))
        _try_store(path, layout)
    others = {shard.rsplit(".", 1)[-1] for shard in layout.shards(layout.results)} - {ending}
    if others:
        raise UsageError(
            f"output.format: {path} holds results in {', '.join(sorted(others))}, which {ending} files would not be "
            "read together with; keep that format or choose another --output"
        )
    return layout


def _try_store(path: str, layout: Layout) -> None:
    if set(path) & set("*?["):
        raise UsageError(f"output.path: {path} must not hold any of * ? [")
    probe = files.join(layout.root, f".probe-{uuid.uuid4().hex}")
    try:
        files.write_json(probe, None)
        files.remove([probe])
    except Unsupported as error:
        raise UsageError(f"output.path: {error}") from None
    except OSError as error:
        raise UsageError(f"output.path: {path} cannot be written: {masked(error.strerror or str(error))}") from None


def prepare(settings: Settings, earlier_types: Mapping[str, str]) -> Prepared:
    """Finds the input and checks the task against its columns. `earlier_types` are those that carried columns had
    in the run before, which they keep."""
    try:
        inputs = find_inputs(settings.input.paths)
        sample = first_fields(inputs, settings.input.id, SAMPLED_RECORDS)
    except (InputError, OSError) as error:
        raise UsageError(f"input.path: {error}") from None
    known = list(dict.fromkeys(name for fields in sample for name in fields))
    if known:
        _check_columns(settings, known)
    carried = _carried(settings, sample, earlier_types)
    answer = columns(settings.task.answer_schema) if settings.task.answer_schema is not None else {}
    try:
        schema = result_schema(answer, {name: ARROW_TYPES[kind] for name, kind in carried.items()})
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Prepared(inputs, carried, schema)


def _check_columns(settings: Settings, known: Sequence[str]) -> None:
    wanted = settings.input
    listed = ", ".join(known)
    for key, name in (("input.id", wanted.id), ("input.text", wanted.text)):
        if name is not None and name not in known:
            raise UsageError(f"{key}: the input has no column {name!r}; its columns are: {listed}")
    for name in wanted.carry:
        if name not in known:
            raise UsageError(f"input.carry: the input has no column {name!r}; its columns are: {listed}")
    alias = {"text": wanted.text} if wanted.text else None
    for key, text in (("task.system", settings.task.system), ("task.prompt", settings.task.prompt)):
        try:
            Template(text, alias).check(known)
        except ValueError as error:
            raise UsageError(f"{key}: {error}") from None


def _carried(settings: Settings, sample: Sequence[Fields], earlier: Mapping[str, str]) -> dict[str, str]:
    if isinstance(settings.input.carry, dict):
        return dict(settings.input.carry)
    return {name: earlier.get(name) or infer_type([f.get(name) for f in sample]) for name in settings.input.carry}


def infer_type(values: Sequence[Any]) -> str:
    """The type of a carried column, by values of it: string, integer, number, boolean, or json for all else."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return "string"
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values if value is not None):
        return "integer"
    return "number" if kinds <= {int, float} else "json"

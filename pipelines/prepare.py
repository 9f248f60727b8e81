"""All that can be known to be wrong before anything is written or paid, and what a run needs to know besides.

Every check raises UsageError with one line that names the thing.
"""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.config import UsageError
from transforms import files
from transforms.agreement import answer_column
from transforms.database import DatabaseError
from transforms.formats.spans import InputFile, Reading
from transforms.inputs import Surveyed, find_inputs, survey
from transforms.layout import Layout
from transforms.llm.answers import AnswerParser
from transforms.llm.client import connect, draft
from transforms.llm.columns import columns
from transforms.llm.examples import check_answers
from transforms.llm.group_prompts import GroupPrompts
from transforms.llm.price_table import Found, find_price
from transforms.llm.prompts import Prompts
from transforms.llm.secrets import masked
from transforms.llm.template import Template
from transforms.read import first_fields, shown_path
from transforms.records import Fields, compact_json
from transforms.redis_link import Unreachable, redis_link
from transforms.rows import result_schema, sharing_columns, type_name, type_of
from transforms.settings import Input, Settings
from transforms.store import Unsupported
from transforms.table import Tables, table_spec

SAMPLED_RECORDS = 1000  # read before the run, to learn the input's columns from


class Prepared(NamedTuple):
    """What the checks found out. `carried` has the name of each carried column's type (see rows.type_of), `notes`
    are what a user should know before the run."""

    inputs: list[InputFile]
    reading: Reading
    carried: dict[str, str]
    schema: pa.Schema
    notes: list[str]


def check_model(settings: Settings) -> None:
    """The key is set, the model is there, a request can be made of the settings, the answer's schema is one, and the
    examples' answers are what it says."""
    try:
        if settings.model.provider == "embedded":
            from transforms.llm.embedded import find_model

            find_model(settings.model.path)
        else:
            for model in settings.model.per_endpoint:
                connect(settings.task, model, settings.limits, pool_size=1).close()  # makes no connection
        AnswerParser(settings.task.answer_schema)
        Prompts(settings.task, settings.input, settings.model)
        check_answers(settings.task)
        _check_group(settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_request(settings: Settings) -> None:
    """As `check_model`, for what makes no call: the key need not be set nor the embedded model be there."""
    try:
        if settings.model.provider != "embedded":
            for model in settings.model.per_endpoint:
                draft(settings.task, model, settings.limits)[0].close()
        AnswerParser(settings.task.answer_schema)
        _check_group(settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_shared(settings: Settings) -> None:
    """The Redis that workers are to share limits by answers."""
    if settings.limits.shared is None:
        return
    try:
        redis_link(settings.limits.shared).ping()
    except (ValueError, Unreachable) as error:
        raise UsageError(f"limits.shared: {error}") from None


def _check_group(settings: Settings) -> None:
    """Raises ValueError for a task whose records cannot share a call, where they are to."""
    if settings.task.records_per_call > 1:
        GroupPrompts(settings.task, settings.input)


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
    """The output can be reached, and its results are all of one format."""
    path, ending = settings.output.path, settings.output.format
    if files.is_local(path):
        layout = Layout(os.path.abspath(path))
    elif set(path) & set("*?["):
        raise UsageError(f"output.path: {path} must not hold any of * ? [")
    else:
        layout = Layout(path.rstrip("/"))
    try:
        shards = layout.shards(layout.results)
    except Unsupported as error:
        raise UsageError(f"output.path: {error}") from None
    except OSError as error:
        raise UsageError(f"output.path: {path} cannot be read: {masked(error.strerror or str(error))}") from None
    others = {shard.rsplit(".", 1)[-1] for shard in shards} - {ending}
    if others:
        raise UsageError(
            f"output.format: {path} holds results in {', '.join(sorted(others))}, which {ending} files would not be "
            "read together with; keep that format or choose another --output"
        )
    return layout


def check_writable(settings: Settings, layout: Layout) -> None:
    """On a store the output can be written and removed, which is tried; elsewhere its lock tells."""
    if files.is_local(layout.root):
        return
    probe = files.join(layout.root, f".probe-{uuid.uuid4().hex}")
    try:
        files.write_json(probe, None)
        files.remove([probe])
    except OSError as error:
        why = masked(error.strerror or str(error))
        raise UsageError(f"output.path: {settings.output.path} cannot be written: {why}") from None


def check_table(settings: Settings, layout: Layout, last: Mapping[str, Any], schema: pa.Schema, *, redo: bool) -> None:
    """Results go where those of earlier runs are, and the table's columns, unless it is to be set aside, are those of
    the results. Connects to the database."""
    name = settings.output.table
    before = last.get("config", {}).get("output", {}).get("table")
    if last and _same_table(name) != _same_table(before):
        raise UsageError(
            f"output.table: the runs in {settings.output.path} put their results into "
            f"{table_spec(before).place if before else 'files'}; keep that or choose another --output"
        )
    if name is None:
        return
    if layout.shards(layout.results):
        raise UsageError(f"output.table: {settings.output.path} holds results in files; choose another --output")
    try:
        tables = Tables(table_spec(name, schema))
        try:
            tables.check(columns=not redo)
        finally:
            tables.close()
    except DatabaseError as error:
        raise UsageError(f"output.table: {error}") from None
    except ValueError as error:
        raise UsageError(f"output.table: {error}") from None


def _same_table(text: str | None) -> tuple[str, str] | None:
    """The database's and the table's name: the host may have moved."""
    if text is None:
        return None
    spec = table_spec(text)
    return spec.place.rpartition("/")[2], spec.name


def prepare(settings: Settings, earlier_types: Mapping[str, str]) -> Prepared:
    """Finds the input and checks the task against its columns. `earlier_types` are those that carried columns had
    in the run before, which they keep."""
    reading = reading_of(settings.input)
    try:
        surveyed = list(survey(find_inputs(settings.input.paths, settings.input.query), reading))
        inputs = [each.item for each in surveyed]
        sample = first_fields(inputs, reading, SAMPLED_RECORDS)
    except (ValueError, OSError, DatabaseError) as error:  # InputError is a ValueError
        raise UsageError(f"input.path: {error}") from None
    _check_columns(settings, reading, surveyed, list(dict.fromkeys(name for fields in sample for name in fields)))
    carried = _carried(settings, surveyed, sample, earlier_types)
    task = settings.task
    answer = columns(task.answer_schema) if task.answer_schema is not None else {}
    types = {name: type_of(kind) for name, kind in carried.items()}
    try:
        if task.expected is not None:
            answer_column(task.answer_schema, task.expected)
        schema = result_schema(answer, types, expected=task.expected is not None, sharing=sharing_columns(settings))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Prepared(inputs, reading, carried, schema, _notes(settings, surveyed))


def reading_of(settings: Input) -> Reading:
    """What of the settings says how files are read."""
    return Reading(settings.id, settings.format, settings.delimiter, settings.encoding)


def _check_columns(settings: Settings, reading: Reading, surveyed: Sequence[Surveyed], sampled: Sequence[str]) -> None:
    checked = set()
    for each in surveyed:
        if not each.columns or (each.item.format, each.columns) in checked:
            continue
        checked.add((each.item.format, each.columns))
        where, known = shown_path(each.item), each.columns
        _check_column("input.id", reading.id_in(each.item.format), where, known)
        if each.item.format == "jsonl":  # whose records may leave columns out: the id, and what text stands for, never
            if _uses_text(settings):
                _check_column("input.text", settings.input.text or "text", where, known)
        else:
            _check_task(settings, where, known)
    if any(each.item.format == "jsonl" for each in surveyed) and sampled:
        _check_task(settings, "the input", sampled)


def _check_task(settings: Settings, where: str, known: Sequence[str]) -> None:
    _check_column("input.text", settings.input.text, where, known)
    _check_optional(settings, where, known)
    try:
        Prompts(settings.task, settings.input, settings.model).check(known, where)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _check_column(key: str, name: str | None, where: str, known: Sequence[str]) -> None:
    if name is not None and name not in known:
        raise UsageError(f"{key}: {where} has no column {name!r}; its columns are: {', '.join(known)}")


def _check_optional(settings: Settings, where: str, known: Sequence[str]) -> None:
    """Columns that a run can do without: all that are missing are named, each with what leaves it out."""
    expected, carry = settings.task.expected, settings.input.carry
    problems = []
    if expected is not None and expected not in known:
        problems.append(_missing("task.expected", [expected], where, known, "task.expected=null"))
    if unknown := [name for name in carry if name not in known]:
        left: Any = [name for name in carry if name in known]
        if isinstance(carry, dict):
            left = {name: carry[name] for name in left}
        problems.append(_missing("input.carry", unknown, where, known, f"input.carry={compact_json(left)}"))
    if problems:
        raise UsageError("\n".join(problems))


def _missing(key: str, names: Sequence[str], where: str, known: Sequence[str], override: str) -> str:
    shown, columns = ", ".join(map(repr, names)), ", ".join(known)
    without = f"--set {shlex.quote(override)} leaves {'it' if len(names) == 1 else 'them'} out"
    return f"{key}: {where} has no column {shown}; its columns are: {columns}; {without}"


def _uses_text(settings: Settings) -> bool:
    return any("text" in Template(text).placeholders for text in (settings.task.system, settings.task.prompt))


def _carried(
    settings: Settings, surveyed: Sequence[Surveyed], sample: Sequence[Fields], earlier: Mapping[str, str]
) -> dict[str, str]:
    if isinstance(settings.input.carry, dict):
        return dict(settings.input.carry)
    return {
        name: earlier.get(name) or _stated_type(name, surveyed) or infer_type([f.get(name) for f in sample])
        for name in settings.input.carry
    }


def _stated_type(name: str, surveyed: Sequence[Surveyed]) -> str | None:
    """The type that all files state for a column, None where they do not, or do not agree."""
    kinds = {None if each.types is None else each.types[name] for each in surveyed if each.columns}
    kind = kinds.pop() if len(kinds) == 1 else None
    return None if kind is None else type_name(kind)


def _notes(settings: Settings, surveyed: Sequence[Surveyed]) -> list[str]:
    asked: dict[str, object] = {}
    for each in surveyed:
        asked.update(each.parameters)
    used = {"model": settings.model.name, **settings.model.parameters}
    others = sorted(name for name, value in asked.items() if used.get(name) != value)
    if not others:
        return []
    return [
        f"the input's requests set {', '.join(others)} otherwise: the configuration's model and parameters are used"
    ]


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

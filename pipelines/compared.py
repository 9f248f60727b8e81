"""Two outputs that are compared: which of their columns are, and what else of them is shown."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.opened import Output, open_output
from pipelines.usage import UsageError
from transforms.agreement import OUTPUT_TEXT, judged_column
from transforms.comparison import Comparison
from transforms.published import Unreadable
from transforms.rows import EXPECTED, LAST_COLUMNS, SHARING_COLUMNS
from transforms.side import Side


class Compared(NamedTuple):
    """One of the two. `columns` are its answer columns, `judged` the one of them that is right or wrong, if any,
    `carried` the input's columns that its results have."""

    name: str
    output: Output
    columns: list[str]
    carried: list[str]
    judged: str | None

    @property
    def path(self) -> str:
        """The directory as it was given."""
        return self.output.path


class Pair(NamedTuple):
    """Both, and the answer columns that they have in common, at least one."""

    a: Compared
    b: Compared
    columns: list[str]

    def load(self) -> Comparison:
        """Reads both. Raises UsageError where they have no row in common, Unreadable."""
        sides = []
        for each in (self.a, self.b):
            try:
                side = Side(each.output.published, each.columns, each.judged).load()
            except Unreadable:
                raise
            except ValueError as error:
                raise UsageError(f"{each.path}: {error}") from None
            if not len(side):
                raise _nothing(each.path)
            sides.append(side)
        comparison = Comparison.of(*sides)
        if not len(comparison):
            raise UsageError(f"{self.a.path} and {self.b.path} have no id in common")
        return comparison


def open_both(path_a: str, path_b: str) -> Pair:
    """Opens two outputs. Raises UsageError where that cannot be, or they have no answer column in common."""
    a, b = _open("A", path_a), _open("B", path_b)
    common = [name for name in a.columns if name in b.columns]
    if not common:
        raise UsageError(
            f"no answer column in common: {a.path} has {', '.join(a.columns)}, {b.path} has {', '.join(b.columns)}"
        )
    return Pair(_judged(a, b), _judged(b, a), common)


def _open(name: str, path: str) -> Compared:
    output = open_output(path)
    if not output.published.has_results:
        raise _nothing(path)
    config = output.account.get("config") or {}
    try:
        present = output.published.columns()
    except Unreadable as error:
        raise UsageError(str(error)) from None
    last = {known for known, _type in [*LAST_COLUMNS, *SHARING_COLUMNS]}
    rest = [column for column in present if column not in ("id", EXPECTED) and column not in last]
    if output.account:
        schema = (config.get("task") or {}).get("schema") or {}
        answers = [column for column in schema.get("properties", {}) if column in present] or [OUTPUT_TEXT]
        carry = (config.get("input") or {}).get("carry") or ()
        carried = [column for column in rest if column in carry]
    else:  # whoever removed the account has no configuration: all that a run does not write itself is an answer
        answers, carried = rest or [OUTPUT_TEXT], []
    judged = judged_column(config)
    return Compared(name, output, answers, carried, judged if judged in answers else None)


def _judged(each: Compared, other: Compared) -> Compared:
    """An output that does not say what its answers are compared with is judged as the other one."""
    if each.judged is None and other.judged in each.columns:
        return each._replace(judged=other.judged)
    return each


def _nothing(path: str) -> UsageError:
    return UsageError(f"{path}: there are no results to compare")

"""The rows whose answers differ between two outputs, with the answers of both, all as text."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.compared import Pair
from transforms.agreement import expected_text
from transforms.comparison import Comparison
from transforms.places import CHANGED, Places, take, take_in_any_order
from transforms.published import Unreadable
from transforms.rows import EXPECTED
from transforms.text_table import write_rows


def differing_rows(pair: Pair, rows_a: Places, rows_b: Places) -> Iterator[dict[str, str | None]]:
    """The rows at those places, with the columns that `heads` names. Raises Unreadable."""
    carried, columns = _carried(pair), list(dict.fromkeys(["id", EXPECTED, *pair.columns]))
    of_a = take(pair.a.output.published, [*columns, *carried], rows_a)
    of_b = take_in_any_order(pair.b.output.published, columns, rows_b)
    for one, other in zip(of_a, of_b, strict=True):
        if one["id"] != other["id"]:
            raise Unreadable(CHANGED)
        row = {"id": one["id"]}
        for name in pair.columns:
            row[f"a_{name}"], row[f"b_{name}"] = expected_text(one[name]), expected_text(other[name])
        row[EXPECTED] = one[EXPECTED] if one[EXPECTED] is not None else other[EXPECTED]
        yield {**row, **{name: expected_text(one[name]) for name in carried}}


def heads(pair: Pair) -> list[str]:
    """The names of their columns."""
    both = [f"{side}_{name}" for name in pair.columns for side in "ab"]
    return ["id", *both, EXPECTED, *_carried(pair)]


def write_differing(path: str, pair: Pair, comparison: Comparison) -> int:
    """Writes all that differ to a new file, by whose name's end it is JSONL, CSV or Parquet. Returns how many there
    are. Raises OSError, Unreadable."""
    return write_rows(path, heads(pair), differing_rows(pair, *comparison.differing(pair.columns)))


def _carried(pair: Pair) -> list[str]:
    taken = {f"{side}_{name}" for side in "ab" for name in pair.columns}
    return [name for name in pair.a.carried if name not in taken]

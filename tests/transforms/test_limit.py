"""--limit: quotas of spans."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from transforms.limit import Limit, quotas
from transforms.plan import Plan
from transforms.tally import TALLY, total


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (0, {}),
        (1, {"a": 1}),
        (3, {"a": 3}),
        (4, {"a": 3, "b": 1}),
        (5, {"a": 3, "b": 2}),
        (9, {"a": 3, "b": 2, "c": 4}),
        (99, {"a": 3, "b": 2, "c": 4}),
    ],
)
def test_the_first_spans_come_first(limit: int, allowed: dict[str, int]) -> None:
    assert quotas({"a": 3, "b": 2, "c": 4}, limit) == allowed


@given(st.lists(st.integers(1, 9), max_size=9), st.integers(0, 60))
def test_quotas_add_up_to_the_limit(todo: list[int], limit: int) -> None:
    by_span = {f"{number:03d}": count for number, count in enumerate(todo)}
    allowed = quotas(by_span, limit)
    assert sum(allowed.values()) == min(limit, sum(todo))
    assert all(0 < allowed[span] <= by_span[span] for span in allowed)
    assert list(allowed) == list(by_span)[: len(allowed)]


def test_records_over_the_quota_are_unprocessed(pipeline: Callable[[], Any], make: Any) -> None:
    records = [make.record(f"{span}{n}", span=span) for span in ("a", "b", "c") for n in range(3)]
    with pipeline() as p:
        plan = p | "Plan" >> beam.Create([Plan(9, 9, {"a": 3, "b": 3, "c": 3}, {})])
        found = p | beam.Create(records, reshuffle=False) | Limit(4, beam.pvalue.AsSingleton(plan))
        assert_that(found.records | beam.Map(lambda record: record.id), equal_to(["a0", "a1", "a2", "b0"]))
        assert_that(found[TALLY] | beam.CombineGlobally(total), equal_to([{"unprocessed": 5}]), label="tally")

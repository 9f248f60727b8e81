from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.frequencies import Frequencies


def test_labels_over_several_batches() -> None:
    found = Frequencies()
    found.add(pa.array(["b", "a", None, "b"]))
    found.add(pa.array(["c", "a"]))
    found.add(pa.nulls(2))
    assert found.top(2) == [("a", 2), ("b", 2)]
    assert (found.total, found.nulls, found.free_text) == (5, 3, False)


def test_booleans_and_items_of_lists() -> None:
    found = Frequencies()
    found.add(pa.array([True, False, True]))
    assert found.top(5) == [("true", 2), ("false", 1)]
    items = Frequencies()
    items.add(pa.array([["x", "y"], ["x"], [], None]))
    assert items.top(5) == [("x", 2), ("y", 1)]
    assert items.nulls == 1


def test_only_so_many_labels_are_told_apart() -> None:
    found = Frequencies(most=2)
    found.add(pa.array(["a", "b"]))
    found.add(pa.array(["c", "a", "c"]))
    assert found.top(5) == [("a", 2), ("b", 1)]
    assert (found.untold, found.total) == (2, 5)


def test_texts_that_never_come_again_are_no_labels() -> None:
    texts, labels = Frequencies(), Frequencies()
    texts.add(pa.array([f"text {number}" for number in range(100)]))
    labels.add(pa.array([f"label {number % 60}" for number in range(300)]))
    assert texts.free_text
    assert not labels.free_text


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=5)))))
def test_counts_are_those_of_the_values(batches: list[list[str | None]]) -> None:
    found = Frequencies()
    for batch in batches:
        found.add(pa.array(batch, pa.string()))
    every = [value for batch in batches for value in batch]
    assert found.counts == Counter(value for value in every if value is not None)
    assert found.nulls == every.count(None)


@pytest.mark.parametrize("end", ["x", "y"])
def test_a_long_label_is_known_by_its_beginning(end: str) -> None:
    found = Frequencies()
    found.add(pa.array(["l" * 500 + end]))
    assert found.top(1) == [("l" * 200, 1)]

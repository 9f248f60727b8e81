from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.quality import ClassQuality, Confusion

labels = st.sampled_from(["a", "b", "c"])


def confusion(*pairs: tuple[Any, Any]) -> Confusion:
    found = Confusion()
    found.add(pa.array([right for right, _given in pairs]), pa.array([given for _right, given in pairs]))
    return found


def test_by_hand() -> None:
    """Three cats, of which one is taken for a dog and one got no answer; two dogs, one taken for a bird."""
    found = confusion(("cat", "cat"), ("cat", "dog"), ("cat", None), ("dog", "dog"), ("dog", "bird"), (None, "cat"))
    assert (found.rows, found.correct, found.unlabelled) == (5, 2, 1)
    assert found.accuracy == 0.4
    assert found.counts == {
        ("cat", "cat"): 1,
        ("cat", "dog"): 1,
        ("cat", None): 1,
        ("dog", "dog"): 1,
        ("dog", "bird"): 1,
    }
    assert found.classes() == [
        ClassQuality("cat", 3, 1, 1),
        ClassQuality("dog", 2, 2, 1),
        ClassQuality(None, 0, 1, 0),
        ClassQuality("bird", 0, 1, 0),
    ]
    cat, dog, _none, bird = found.classes()
    assert (cat.precision, cat.recall, cat.f1) == (1.0, pytest.approx(1 / 3), 0.5)
    assert (dog.precision, dog.recall, dog.f1) == (0.5, 0.5, 0.5)
    assert (bird.precision, bird.recall, bird.f1) == (0.0, None, 0.0)


def test_nothing_says_nothing() -> None:
    found = Confusion()
    assert (found.rows, found.accuracy, found.classes()) == (0, None, [])
    found.add(pa.nulls(2), pa.array(["a", "b"]))
    assert (found.rows, found.accuracy, found.unlabelled) == (0, None, 2)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.one_of(st.none(), labels), st.one_of(st.none(), labels)))))
def test_any_batches_are_the_sum_of_their_rows(batches: list[list[tuple[str | None, str | None]]]) -> None:
    found = Confusion()
    for batch in batches:
        right, given_answers = ([pair[side] for pair in batch] for side in (0, 1))
        found.add(pa.array(right, pa.string()), pa.array(given_answers, pa.string()))
    pairs = [pair for batch in batches for pair in batch if pair[0] is not None]
    assert found.rows == len(pairs)
    assert found.correct == sum(right == given_answer for right, given_answer in pairs)
    assert (
        sum(each.expected for each in found.classes()) == sum(each.answered for each in found.classes()) == len(pairs)
    )
    assert sum(each.correct for each in found.classes()) == found.correct


def test_it_does_without_beam() -> None:
    code = "import sys, transforms.quality; assert 'apache_beam' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

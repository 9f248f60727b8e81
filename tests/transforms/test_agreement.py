"""What counts as right, and how far two columns agree."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.agreement import answer_column, expected_text, judged_column, texts
from transforms.mcnemar import mcnemar
from transforms.quality import MOST_LABELS, Confusion
from transforms.rows import ARROW_TYPES, result_schema

TWO = {"type": "object", "properties": {"label": {}, "score": {}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def agreement(*pairs: tuple[pa.Array, pa.Array]) -> Confusion:
    """Of answers, each with what is right."""
    found = Confusion()
    for answered, expected in pairs:
        found.add(expected, answered)
    return found


def test_which_column_is_compared() -> None:
    assert answer_column({"properties": {"sentiment": {}}}, "label") == "sentiment"
    assert answer_column(TWO, "score") == "score"
    assert answer_column(None, "label") == "output_text"
    with pytest.raises(ValueError, match=r"task\.expected: 'truth' could be what is right for any of 'label', 'score'"):
        answer_column(TWO, "truth")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), ("a", "a"), (" a\n", " a\n"), (5, "5"), (True, "true"), ([1, "é"], '[1,"é"]'), ("5", "5")],
)
def test_what_the_input_says_as_text(value: Any, text: str | None) -> None:
    assert expected_text(value) == text


@given(JSON)
def test_what_is_answered_as_the_input_says_is_right(value: Any) -> None:
    """Whatever JSON value a scalar column holds: what it is and what the input says of it agree."""
    nested = isinstance(value, (list, dict))  # columns of any type hold these as JSON
    answer = pa.array([expected_text(value) if nested else value])
    found = agreement((answer, pa.array([expected_text(value)], pa.string())))
    assert (found.rows, found.correct) == ((0, 0) if value is None else (1, 1))


@pytest.mark.parametrize(
    ("answer", "said", "equal"),
    [
        (pa.array([5]), "5.0", 1),
        (pa.array([5.0]), "5", 1),
        (pa.array([0.5]), " 5e-1 ", 1),
        (pa.array([True]), "True", 1),
        (pa.array([False]), "no", 0),
        (pa.array([5]), "five", 0),
        (pa.array([1]), "true", 0),
        (pa.array(["1.0"]), "1", 0),  # a text is what it is, e.g. a version
        (pa.array(["yes"]), " yes\n", 1),
        (pa.array(["Yes"]), "yes", 0),
        (pa.array([7.0]), "1e999", 0),
        (pa.array([[1.0, 2.0]]), "[1,2]", 1),
    ],
)
def test_values_of_other_types_are_compared_as_what_they_say(answer: pa.Array, said: str, equal: int) -> None:
    assert agreement((answer, pa.array([said]))).correct == equal


def test_an_answer_that_is_null_is_wrong_and_what_nobody_says_is_not_counted() -> None:
    found = agreement(
        (pa.array(["a", None, "b", "c"]), pa.array(["a", "a", None, "a"])),
        (pa.nulls(2), pa.array(["a", "b"])),
        (pa.array(["a"]), pa.nulls(1)),
        (pa.array([], pa.string()), pa.array([], pa.string())),
    )
    assert (found.rows, found.correct, found.unlabelled) == (5, 1, 2)
    assert found.counts == {("a", "a"): 1, ("a", "c"): 1, ("a", None): 2, ("b", None): 1}
    assert agreement().accuracy is None
    assert agreement().kappa is None


def test_kappa() -> None:
    """The figures of a textbook's two by two table: 20 and 15 of 50 agree, by chance 0.5 would."""
    table = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    left, right = (pa.array(side) for side in zip(*table, strict=True))
    assert agreement((left[:7], right[:7]), (left[7:], right[7:])).kappa == pytest.approx(0.4)
    assert agreement((left, left)).kappa == 1.0
    assert agreement((pa.array(["a"] * 3), pa.array(["a"] * 3))).kappa is None


def test_texts_are_counted_without_their_confusion() -> None:
    many = pa.array([f"text {number}" for number in range(MOST_LABELS + 1)])
    found = agreement((many[:50], many[:50]), (many, many))
    assert (found.rows, found.correct, found.accuracy) == (MOST_LABELS + 51, MOST_LABELS + 51, 1.0)
    assert found.counts is None
    assert found.classes() == []
    assert not found.has_labels
    assert found.kappa is None


def test_few_texts_are_no_labels_where_none_comes_again() -> None:
    texts_of_their_own = pa.array([f"text {number}" for number in range(20)])
    assert not agreement((texts_of_their_own, pa.array(["yes"] * 20))).has_labels
    assert agreement((pa.array(["yes", "no"] * 10), pa.array(["yes"] * 20))).has_labels


@pytest.mark.parametrize(
    ("task", "carry", "column"),
    [
        ({"schema": {"properties": {"label": {}}}, "expected": "gold"}, [], "label"),
        ({"schema": {"properties": {"label": {}}}}, [], "label"),  # what earlier runs were told is in the results
        ({"schema": {"properties": {"label": {}}}}, ["expected"], None),
        ({"schema": {"properties": {"expected": {}}}}, [], None),
        ({"schema": TWO, "expected": "score"}, [], "score"),
        ({"schema": TWO, "expected": "gold"}, [], None),
        ({"schema": TWO}, [], None),
        ({"schema": None, "expected": "gold"}, [], "output_text"),
        ({}, {"expected": "string"}, None),
    ],
)
def test_which_column_of_the_results_is_judged(task: Any, carry: Any, column: str | None) -> None:
    assert judged_column({"task": task, "input": {"carry": carry}}) == column


def test_a_type_of_nothing_but_nulls_is_text() -> None:
    assert texts(pa.nulls(2)).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("only_a", "only_b", "chance"), [(0, 0, 1.0), (5, 5, 1.0), (0, 5, 0.0625), (1, 9, 0.021484375)]
)
def test_mcnemar(only_a: int, only_b: int, chance: float) -> None:
    assert mcnemar(only_a, only_b) == pytest.approx(chance)
    assert mcnemar(only_b, only_a) == pytest.approx(chance)


def test_mcnemar_of_many() -> None:
    assert mcnemar(400_000, 500_000) < 1e-300
    assert 0.9 < mcnemar(500_000, 500_100) < 1.0


def test_the_column_of_what_is_right() -> None:
    schema = result_schema({"label": pa.string()}, {"stars": ARROW_TYPES["integer"]}, expected=True)
    assert schema.names[:4] == ["id", "label", "stars", "expected"]
    with pytest.raises(ValueError, match=r"'expected': .*task\.expected"):
        result_schema({"expected": pa.string()}, {}, expected=True)
    assert "expected" in result_schema({"expected": pa.string()}, {}).names

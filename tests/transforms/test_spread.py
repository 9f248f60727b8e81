"""Records dealt out in pieces."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.journal import SPAN_SEPARATOR, numbered_path, spans_of
from transforms.read import order_of
from transforms.records import Record
from transforms.spread import FIRST_RECORDS, MOST_CHARACTERS, MOST_RECORDS, Spread, pieces, records_in

SPAN = "000012-00000000abc"


def records(count: int, span: str = SPAN) -> list[Record]:
    return [Record(f"{span}-{n}", {}, "in.jsonl.gz", 7 * n, span) for n in range(count)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 700), max_size=4))
def test_every_record_is_in_one_piece_and_in_order(counts: list[int]) -> None:
    todo = [record for number, count in enumerate(counts) for record in records(count, f"{number:06d}-00000000000")]
    found = list(pieces(todo))
    assert [record._replace(span=record.span[: len(SPAN)]) for piece in found for record in piece] == todo
    keys = [piece[0].span for piece in found]
    assert keys == sorted(set(keys))
    assert all(record.span == piece[0].span for piece in found for record in piece)
    assert list(pieces(todo)) == found
    for piece in found:  # a journal file's name tells the piece
        assert SPAN_SEPARATOR not in piece[0].span
        assert spans_of(numbered_path("journal", piece[0].span, 1)) == [piece[0].span]


def test_the_place_in_the_input_stays() -> None:
    todo = records(100)
    assert [order_of(record) for piece in pieces(todo) for record in piece] == [order_of(record) for record in todo]


def test_long_records_make_small_pieces() -> None:
    todo = [record._replace(fields={"text": "x" * (MOST_CHARACTERS // 4)}) for record in records(9)]
    assert [len(piece) for piece in pieces(todo)] == [4, 4, 1]


@pytest.mark.parametrize(
    ("count", "least", "most"),
    [(1, 1, 1), (64, 4, 4), (4_000, 50, 100), (1_000_000, 300, 400), (10_000_000, 2400, 2700)],
)
def test_small_inputs_are_spread_and_large_ones_make_few_pieces(count: int, least: int, most: int) -> None:
    number = 0
    while count > 0:
        count -= records_in(number)
        number += 1
    assert least <= number <= most


def test_sizes_only_grow() -> None:
    sizes = [records_in(number) for number in range(2000)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1], records_in(10**9)) == (FIRST_RECORDS, MOST_RECORDS, MOST_RECORDS)


def test_in_a_graph_all_come_out_and_pieces_stay_together(pipeline: Callable[[], Any]) -> None:
    todo = records(300) + records(5, "000013-00000000000")

    def check(found: list[Record]) -> None:
        assert sorted(record.id for record in found) == sorted(record.id for record in todo)
        runs = [list(run) for _span, run in groupby(found, lambda record: record.span)]
        assert sorted(map(tuple, runs)) == sorted(pieces(todo))

    with pipeline() as p:
        assert_that(p | beam.Create(todo, reshuffle=False) | Spread(), check)

"""--pilot: the sample, and the records that it lets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from transforms.digests import digest
from transforms.llm.prompt_size import PromptSize
from transforms.sample import EVERY, Pick, Sample, draw, smallest, threshold, unpack
from transforms.settings import Input, Model, Task
from transforms.tally import TALLY, total

SETTINGS = Task(prompt="{id}"), Input(path="x"), Model(provider="openai", name="m")


def test_draws_never_change() -> None:
    """A pilot goes on where an earlier version of this program began one."""
    assert [draw(identifier) for identifier in ("a", "b")] == [15676709816775453174, 11974539418087418829]


@given(st.sets(st.text(min_size=1).filter(lambda text: text.isprintable()), max_size=40), st.integers(1, 50))
def test_the_sample_is_the_smallest_draws_however_it_is_joined(ids: set[str], count: int) -> None:
    rows = [
        draw(i).to_bytes(8, "big") + digest(i) + PromptSize(*SETTINGS).of({"id": i}).to_bytes(8, "big") for i in ids
    ]
    whole = smallest([b"".join(rows)], count)
    parts = smallest([smallest(rows[::2], count), smallest(rows[1::2], count), b""], count)
    assert whole == parts
    picked = unpack(whole)
    assert [item.draw for item in picked] == sorted(map(draw, ids))[:count]
    assert {item.digest: item.size for item in picked}.items() <= {digest(i): len(i.encode()) for i in ids}.items()
    through = [i for i in ids if draw(i) <= threshold(picked, count)]
    assert len(through) == min(count, len(ids))


def test_too_few_records_all_pass() -> None:
    assert threshold([], 3) == EVERY
    assert draw("x") <= EVERY


def test_the_steps(pipeline: Callable[[], Any], make: Any) -> None:
    records = [make.record(f"r{n}", span=str(n % 4)) for n in range(50)]
    first = sorted(draw(record.id) for record in records)[:7]
    with pipeline() as p:
        given_ = p | beam.Create(records)
        picked = given_ | Pick(7, *SETTINGS) | beam.FlatMap(unpack) | beam.Map(lambda item: item.draw)
        assert_that(picked, equal_to(first), label="picked")
        found = given_ | Sample(first[-1])
        assert_that(found.records | beam.Map(lambda record: draw(record.id)), equal_to(first), label="passed")
        assert_that(found[TALLY] | beam.CombineGlobally(total), equal_to([{"unprocessed": 43}]), label="tally")


def test_nothing_is_a_sample_of_nothing(pipeline: Callable[[], Any]) -> None:
    with pipeline() as p:
        assert_that(p | beam.Create([]) | Pick(7, *SETTINGS), equal_to([b""]))

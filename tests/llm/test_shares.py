"""What a call took, dealt out to its records: to the token and to the picodollar."""

from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.completion import Usage
from transforms.llm.shares import split, split_dollars, split_usage

weights = st.lists(st.integers(1, 10**6), min_size=1, max_size=50)
counts = st.none() | st.integers(0, 2**40)


@given(st.integers(0, 2**62), st.lists(st.integers(0, 10**9), min_size=1).filter(any))
def test_parts_add_up_and_are_in_proportion(total: int, weights: list[int]) -> None:
    parts = split(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        exact = total * weight
        assert abs(part * sum(weights) - exact) < sum(weights)


@given(st.none() | st.floats(0, 10_000), weights)
def test_dollars_add_up(total: float | None, weights: list[int]) -> None:
    parts = split_dollars(total, weights)
    if total is None:
        assert parts == [None] * len(weights)
    else:
        known = [part for part in parts if part is not None]
        assert len(known) == len(weights)
        assert min(known) >= 0
        assert abs(sum(known) - total) < 1e-9


@given(st.builds(Usage, counts, counts, counts, counts, counts), weights)
def test_tokens_add_up(usage: Usage, weights: list[int]) -> None:
    parts = split_usage(usage, weights)
    assert len(parts) == len(weights)
    known = usage.prompt_tokens is not None
    for name in ("prompt_tokens", "completion_tokens"):
        values, whole = [getattr(part, name) for part in parts], getattr(usage, name)
        assert values == [None] * len(weights) if whole is None else sum(values) == whole
    if known and usage.cached_tokens is not None:
        assert sum(part.cached_tokens or 0 for part in parts) == min(usage.cached_tokens, usage.prompt_tokens or 0)
    for part in parts:
        assert (part.cached_tokens or 0) + (part.cache_write_tokens or 0) <= (part.prompt_tokens or 0)


def test_by_characters() -> None:
    assert split_usage(Usage(100, 10, 40), [3, 1]) == [Usage(75, 7, 30), Usage(25, 3, 10)]

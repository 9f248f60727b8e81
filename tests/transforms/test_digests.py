"""Digest arrays behave like sets of bytes."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.digests import SIZE, DigestSet, digest, merge, pack, prefix, sort_order

# Few different bytes, so that repeats, common beginnings and NUL bytes at the end are common.
FEW = st.lists(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), min_size=SIZE, max_size=SIZE).map(bytes)
SHORT = st.binary(max_size=3).map(lambda start: start.ljust(SIZE, b"\0"))
EDGES = st.sampled_from([b"\0" * SIZE, b"\xff" * SIZE, b"\0" * 15 + b"\1", b"\1" + b"\0" * 15, b"\xff" * 15 + b"\0"])
DIGESTS = EDGES | SHORT | FEW | st.binary(min_size=SIZE, max_size=SIZE)
BLOBS = st.lists(st.lists(DIGESTS, max_size=12), max_size=6)


def cut(blob: bytes) -> list[bytes]:
    return [blob[at : at + SIZE] for at in range(0, len(blob), SIZE)]


@given(BLOBS)
def test_merge_is_a_sorted_union(blobs: list[list[bytes]]) -> None:
    assert cut(merge(b"".join(each) for each in blobs)) == sorted(set().union(*blobs))


@given(st.lists(DIGESTS, max_size=40), st.lists(DIGESTS, max_size=10))
def test_a_digest_set_is_a_set(values: list[bytes], others: list[bytes]) -> None:
    expected = sorted(set(values))
    found = DigestSet(merge([b"".join(values)]))
    assert len(found) == len(expected)
    for value in values:
        assert value in found
        assert found.find(value) == expected.index(value)
    for other in others:
        assert (other in found) == (other in expected)


@given(st.lists(DIGESTS, max_size=40), st.lists(DIGESTS, max_size=10), st.integers(1, SIZE))
def test_parts_of_digests_are_a_set_too(values: list[bytes], others: list[bytes], size: int) -> None:
    parts = {value[:size] for value in values}
    found = DigestSet(merge([b"".join(value[:size] for value in values)], size), size)
    assert len(found) == len(parts)
    assert all(part in found for part in parts)
    assert [other[:size] in found for other in others] == [other[:size] in parts for other in others]


@given(st.lists(DIGESTS, max_size=30), st.integers(1, 8))
def test_pack_keeps_all_in_order(values: list[bytes], chunk: int) -> None:
    blobs = list(pack(values, chunk))
    assert b"".join(blobs) == b"".join(values)
    assert all(len(blob) == chunk * SIZE for blob in blobs[:-1])
    assert all(0 < len(blob) <= chunk * SIZE for blob in blobs)


@given(st.lists(DIGESTS, max_size=30))
def test_sort_order_sorts(values: list[bytes]) -> None:
    order = sort_order(b"".join(values)).tolist()
    assert sorted(order) == list(range(len(values)))
    assert [values[at] for at in order] == sorted(values)


def test_empty_sets_hold_nothing() -> None:
    for value in (b"\0" * SIZE, b"\xff" * SIZE):
        assert value not in DigestSet()
        assert value not in DigestSet(merge([]))
    assert len(DigestSet()) == 0


def test_a_digest_is_blake2b_of_utf8() -> None:
    text = "caf\u00e9\0"
    assert digest(text) == hashlib.blake2b(text.encode(), digest_size=16).digest()
    assert prefix(digest(text)) == int(digest(text).hex()[:16], 16)


@pytest.mark.parametrize(("one", "other"), [("caf\u00e9", "cafe\u0301"), ("k", "k\0"), (" pad ", "pad"), ("1", "1.0")])
def test_ids_that_look_alike_have_digests_of_their_own(one: str, other: str) -> None:
    assert digest(one) != digest(other)

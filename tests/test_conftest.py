"""Tests of what all tests share."""

from __future__ import annotations

import gzip

import pytest

from tests.conftest import pytest_make_parametrize_id


@pytest.mark.parametrize("value", [gzip.compress(b"a"), b"a\n", b"\xff", "a".encode("utf-16")])
def test_ids_do_not_depend_on_bytes_that_a_program_wrote(value: bytes, request: pytest.FixtureRequest) -> None:
    assert pytest_make_parametrize_id(value, "value") == "value"
    assert request.node.name.partition("[")[2].startswith("value")


@pytest.mark.parametrize("value", [b"a b", "a", 1, None])
def test_others_keep_their_names(value: object) -> None:
    assert pytest_make_parametrize_id(value, "value") is None

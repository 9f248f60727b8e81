"""When most rows of a run fail."""

from typing import Any

import pytest

from transforms.failure_share import FIRST_ROWS, FailureShare, of_run


def outcomes(share: FailureShare, make: Any, pattern: str, **failure: Any) -> list[str | None]:
    """What is said to outcomes: a letter each, + for an answer."""
    rows = [make.result("a") if sign == "+" else make.failure("a", **failure) for sign in pattern]
    return [share.add(make.entry(row)) for row in rows]


def test_nothing_is_said_before_the_hundredth(make: Any) -> None:
    said = outcomes(FailureShare(0.5), make, "-" * FIRST_ROWS, reason="invalid_json", message="no JSON")
    assert said[:-1] == [None] * (FIRST_ROWS - 1)
    assert "100 of the first 100 rows failed" in str(said[-1])
    assert "by invalid_json, e.g. 'no JSON'" in str(said[-1])


def test_as_much_as_is_allowed_goes_on(make: Any) -> None:
    share = FailureShare(0.5)
    assert set(outcomes(share, make, "+-" * FIRST_ROWS)) == {None}
    assert outcomes(share, make, "+-") == [None, None]
    assert "101 of the first 203" not in str(outcomes(share, make, "+"))
    assert outcomes(share, make, "-") == [None]
    assert outcomes(share, make, "-")[0] is not None


def test_the_most_common_reason_is_named(make: Any) -> None:
    share = FailureShare(0.1)
    outcomes(share, make, "-" * 40, reason="timeout", message="took too long")
    outcomes(share, make, "-" * 50, reason="refusal", message="I'd rather not")
    [*_, said] = outcomes(share, make, "+" * 9 + "-", reason="timeout", message="again")
    assert "91 of the first 100" in str(said)
    assert "50 of them by refusal" in str(said)


def test_rows_that_were_not_called_do_not_count(make: Any) -> None:
    share = FailureShare(0.5)
    assert set(outcomes(share, make, "-" * 300, reason="request_too_large", attempts=0)) == {None}
    assert set(outcomes(share, make, "-" * (FIRST_ROWS - 1))) == {None}


@pytest.mark.parametrize("count", [FIRST_ROWS, 1000])
def test_null_is_no_limit(make: Any, count: int) -> None:
    assert set(outcomes(FailureShare(None), make, "-" * count)) == {None}


def test_one_count_for_a_run_and_process() -> None:
    assert of_run("a", 0.5) is of_run("a", 0.5)
    assert of_run("a", 0.5) is not of_run("b", 0.5)

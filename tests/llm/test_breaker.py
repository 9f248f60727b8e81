"""When failures in a row stop the run."""

import pytest

from transforms.llm.breaker import Breaker
from transforms.llm.errors import AccountError, CallError, RowError, TransientError

DOWN = ["bad_response", "transport", "timeout", "upstream_error"]


def down(reason: str = "transport") -> CallError:
    return TransientError(reason, "no", http_status=502)  # type: ignore[arg-type]


def refused() -> CallError:
    return RowError("bad_request", "HTTP 400: max_tokens: 9 > 8", http_status=400)


@pytest.mark.parametrize("reason", DOWN)
def test_so_many_rows_without_an_answer_stop_the_run(reason: str) -> None:
    breaker = Breaker(3)
    errors = [down(reason), down(reason)]
    assert [breaker.failed(error) for error in errors] == errors
    stop = breaker.failed(down(reason))
    assert isinstance(stop, AccountError)
    assert (stop.reason, stop.http_status) == ("endpoint_down", 502)
    assert stop.message == f"3 rows in a row got no answer; the last: {reason}: no"


def test_one_answer_in_between_is_enough() -> None:
    breaker = Breaker(2)
    for _ in range(5):
        assert breaker.failed(down()).reason == "transport"
        breaker.answered()


def test_a_refusal_shows_that_the_endpoint_is_up() -> None:
    breaker = Breaker(3)
    for error in (down(), down(), refused(), down(), down()):
        assert breaker.failed(error) is error


def test_rate_limits_do_not_count() -> None:
    breaker = Breaker(2)
    for _ in range(5):
        assert breaker.failed(TransientError("rate_limited", "no")).reason == "rate_limited"


def test_rows_that_are_all_refused_from_the_start_are_the_configurations_fault() -> None:
    breaker = Breaker(3)
    assert [breaker.failed(refused()).reason for _ in range(3)] == ["bad_request", "bad_request", "config_rejected"]
    breaker = Breaker(3)
    breaker.answered()
    assert [breaker.failed(refused()).reason for _ in range(9)] == ["bad_request"] * 9

"""Retry-After in all its shapes."""

from datetime import datetime, timezone

import pytest

from transforms.llm.retry_after import retry_after

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "1"}, 1.0),
        ({"retry-after": " 0.25 "}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "86400"}, 86400.0),  # the cap is the caller's
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:02 GMT"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:02 -0000"}, 2.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_a_wish_is_seconds(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "-5",
        "soon",
        "",
        "nan",
        "inf",
        "-inf",
        "1e3",
        "1_0",
        "٣",
        "9" * 400,
        "99999999999",
        "1;2",
        "Thu, 99 Foo 1",
        "Wed, 21 Oct 99999 07:28:00 GMT",
        "Wed, 21 Oct 9999 07:28:00 GMT",
    ],
)
def test_what_cannot_be_meant_is_no_wish(value: str) -> None:
    assert retry_after({"retry-after": value}, now=NOW) is None
    assert retry_after({"retry-after-ms": value}, now=NOW) is None


def test_nothing_asked_for() -> None:
    assert retry_after({}) is None

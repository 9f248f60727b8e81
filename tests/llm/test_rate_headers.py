"""What responses say about the account's limits."""

from typing import Any

import pytest
from requests.structures import CaseInsensitiveDict

from transforms.llm.rate_headers import Rate, RateHeaders, rate_headers

NOW = 1735689600.0  # 2025-01-01T00:00:00Z


def read(headers: dict[str, str]) -> RateHeaders | None:
    found: Any = CaseInsensitiveDict(headers)
    return rate_headers(found, NOW)


def test_openai() -> None:
    headers = {
        "X-RateLimit-Limit-Requests": "60",
        "X-RateLimit-Remaining-Requests": "59",
        "X-RateLimit-Reset-Requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert read(headers) == RateHeaders(Rate(60, 59, 1), Rate(150000, 149984, 360))


def test_anthropic() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "1000",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2025-01-01T00:00:30Z",
        "anthropic-ratelimit-tokens-limit": "96000",
        "anthropic-ratelimit-tokens-remaining": "96000",
        "anthropic-ratelimit-tokens-reset": "2024-12-31T23:59:59Z",
        "anthropic-ratelimit-input-tokens-limit": "80000",
        "anthropic-ratelimit-input-tokens-remaining": "79000",
        "anthropic-ratelimit-input-tokens-reset": "2025-01-01T01:00:01.5+01:00",
        "anthropic-ratelimit-output-tokens-limit": "16000",
    }
    expected = RateHeaders(Rate(1000, 0, 30), Rate(96000, 96000, 0), Rate(80000, 79000, 1.5), Rate(16000))
    assert read(headers) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12ms", 0.012),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("2m59.56s", 179.56),
        ("500µs", 0.0005),
        ("30", 30),
        ("1.5", 1.5),
        ("", None),
        ("soon", None),
        ("-3s", None),
        ("nan", None),
        ("1e400", None),
        ("5 s", None),
        ("9999-99-99T00:00:00Z", None),
        ("." * 30 + "s", None),
    ],
)
def test_resets(text: str, seconds: float | None) -> None:
    found = read({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": text})
    assert found is not None
    assert found.requests is not None
    assert found.requests.reset == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("value", ["", "many", "-1", "nan", "inf", "1e9", "0x10", "9" * 400])
def test_what_is_no_number_was_not_said(value: str) -> None:
    assert read({"x-ratelimit-limit-requests": value}) is None


def test_a_limit_of_nothing_is_none() -> None:
    assert read({"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0"}) == RateHeaders(
        Rate(None, 0, None)
    )


def test_without_any() -> None:
    assert read({"content-type": "application/json", "x-ratelimit-reset-requests": "1s"}) is None

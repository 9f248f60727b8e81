"""No text that leaves the process holds a secret."""

import pytest

from transforms.llm.errors import RowError
from transforms.llm.secrets import hide, masked


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    hide("correct horse/battery")
    assert masked("a correct horse/battery b") == "a *** b"
    assert masked("?key=correct%20horse%2Fbattery") == "?key=***"


def test_a_secret_that_begins_with_another_leaves_nothing_behind() -> None:
    hide("staple")
    hide("staple-and-more")
    assert masked("staple-and-more staple") == "*** ***"


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("Incorrect API key provided: sk-fa****0000.", "Incorrect API key provided: ***."),
        ("sk-proj-Ab3_x9-zzzz and more", "*** and more"),
        ("{'Authorization': 'Bearer abcdef123456'}", "{'Authorization': 'Bearer ***'}"),
        ("http://user:pass@proxy:3128/", "http://***@proxy:3128/"),
        ("risk-based answers of sk-9", "risk-based answers of sk-9"),
        ("http://proxy:3128/a@b", "http://proxy:3128/a@b"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, without: str) -> None:
    assert masked(text) == without


def test_a_placeholder_for_a_key_masks_no_words() -> None:
    hide("EMPTY")
    hide("")
    hide(None)
    assert masked("EMPTY text") == "EMPTY text"


def test_errors_mask_before_they_cut() -> None:
    hide("an-unusual-secret")
    error = RowError("bad_request", "x" * 490 + " an-unusual-secret")
    assert "an-unus" not in error.message
    assert "an-unus" not in str(error)


def test_a_key_of_unusual_characters_behind_bearer_leaves_no_rest() -> None:
    hide("Zq7'unusual+key/&81")
    assert masked("got Bearer Zq7'unusual+key/&81.") == "got Bearer ***."

"""Text from outside."""

from transforms.llm.text import excerpt, without_surrogates


def test_lone_surrogates_are_replaced_and_pairs_kept() -> None:
    assert without_surrogates("a\ud83d b\udc00 😀") == "a\ufffd b\ufffd 😀"


def test_an_excerpt_is_one_clean_line() -> None:
    assert excerpt("a\r\n\tb\x00\x1b[31mc\u2028\u202ed\ud800") == "a b [31mc d\ufffd"


def test_an_excerpt_is_capped() -> None:
    assert excerpt("x" * 500) == "x" * 500
    assert excerpt("x" * 501) == "x" * 499 + "…"
    assert len(excerpt("y" * 10_000_000, 200)) == 200

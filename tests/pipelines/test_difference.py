"""What changed in a task, as a user reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.difference import MOST_LINES, text_changes, value_changes
from pipelines.fingerprint import changes

PROMPT = """You are a careful annotator of product reviews.
Classify the sentiment of the review as positive, negative or neutral.
Never explain.
Reply in JSON.
"""


def test_each_change_of_a_long_prompt_has_a_line() -> None:
    new = PROMPT.replace("careful ", "").replace("or neutral", "or mixed").replace("Never explain.\n", "")
    assert text_changes(PROMPT, new + "Use double quotes.\n") == [
        "line 1: You are a [-careful-] annotator of product reviews.…",
        "line 2: …eview as positive, negative or [-neutral.-]{+mixed.+}\\n",
        "line 3 of before: [-Never explain.\\n-]",
        "line 4: {+Use double quotes.\\n+}",
    ]


def test_white_space_alone_is_seen() -> None:
    (line,) = text_changes(PROMPT, PROMPT.rstrip("\n"))
    assert line == "line 4: Reply in JSON.[-\\n-]"
    (line,) = text_changes("a " * 40 + "b", "a " * 40 + " b")
    assert line.endswith("[- b-]{+  b+}")


def test_a_list_says_what_came_and_went() -> None:
    old = [f"a label that is called {number}" for number in range(5)]
    assert value_changes("enum", old, [*old[1:], "new"]) == [
        'enum: [-"a label that is called 0"-]',
        'enum: {+"new"+}',
    ]
    (line,) = value_changes("enum", old, old[::-1])
    assert line.startswith("enum: the same in another order: ")
    nested: list[Any] = [{"type": "object", "title": "x" * 80, "const": n} for n in range(2)]
    assert value_changes("anyOf", nested, [nested[0], {**nested[1], "const": 7}]) == ["anyOf[1].const: 1 -> 7"]


def test_many_changes_are_not_all_shown() -> None:
    old = " ".join(f"word{number} same" for number in range(100))
    lines = value_changes("task.prompt", old, old.replace("word", "term"))
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "task.prompt: and 90 more changes"


def test_secrets_are_masked_also_where_they_are_all_that_differs() -> None:
    old, new = ({"task.system": f"{PROMPT} Use the key sk-{mark * 20}."} for mark in "ab")
    assert changes(old, new) == ["task.system: differs in what is masked here"]
    (line,) = changes(old, {"task.system": old["task.system"].replace("Reply", "Answer")})
    assert "sk-" not in line
    assert "[-Reply-]{+Answer+}" in line
    assert changes({"model.parameters.key": True}, {"model.parameters.key": 1}) == ["model.parameters.key: *** -> ***"]


def test_control_characters_never_reach_the_terminal() -> None:
    (line,) = value_changes("task.prompt", PROMPT.replace("\n", " "), PROMPT.replace("\n", " ") + "\x1b[2J\u202e")
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert "\\x1b[2J" in line


def test_a_very_long_text_is_quick() -> None:
    old = " ".join(f"w{number % 7}" for number in range(200_000))
    (line,) = value_changes("task.prompt", old, old.replace("w3 w4 w5", "w3 x w5", 1))
    assert len(line) < 200


@pytest.mark.timeout(60)
@given(st.text(max_size=200), st.text(max_size=200))
def test_whatever_differs_has_a_line_and_each_is_one(old: str, new: str) -> None:
    lines = changes({"task.prompt": old}, {"task.prompt": new})
    assert bool(lines) == (old != new)
    assert all(line.startswith("task.prompt: ") and line.isprintable() for line in lines)

"""A question about several rows."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.group_prompts import GroupPrompts
from transforms.settings import Input, Task

SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}


def prompts(**task: Any) -> GroupPrompts:
    return GroupPrompts(
        Task(**{"prompt": "Review: {text}", "schema": SCHEMA, "records_per_call": 3, **task}), Input(path="x")
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=12))
def test_whatever_rows_say_each_stands_under_its_own_key(texts: list[str]) -> None:
    prompt, characters = prompts().render([{"text": text} for text in texts])
    (message,) = json.loads(prompt.messages)
    found = json.loads(message["content"])
    assert found == {str(number): f"Review: {text}" for number, text in enumerate(texts, 1)}
    assert prompt.records == len(texts)
    assert characters == [len(f"Review: {text}") for text in texts]
    assert prompt.text_characters == len(prompt.system) + len(message["content"])


def test_the_system_text_says_how_to_answer() -> None:
    rows = [{"text": "a"}, {"text": "b"}]
    assert (
        prompts(system="Label it.").render(rows).prompt.system.startswith("Label it.\n\nThe message is a JSON object")
    )
    assert prompts().render(rows).prompt.system.startswith("The message is a JSON object")
    assert "as a string" in prompts(schema=None).render(rows).prompt.system
    assert prompts().render(rows).prompt.system == prompts().render(rows * 2).prompt.system  # providers cache it


def test_examples_have_the_form_of_rows() -> None:
    examples = [{"input": "x", "answer": {"label": "a"}}, {"input": {"text": "y"}, "answer": {"label": "b"}}]
    shown = json.loads(prompts(examples=examples).render([{"text": "a"}, {"text": "b"}]).prompt.messages)
    assert [each["role"] for each in shown] == ["user", "assistant", "user"]
    assert json.loads(shown[0]["content"]) == {"1": "Review: x", "2": "Review: y"}
    assert json.loads(shown[1]["content"]) == {"1": {"label": "a"}, "2": {"label": "b"}}
    (text,) = json.loads(prompts(schema=None, examples=[{"input": "x", "answer": "A"}])._start[:-2] + "]")[1:]
    assert json.loads(text["content"]) == {"1": "A"}


def test_a_system_text_of_one_row_cannot_be_that_of_several() -> None:
    with pytest.raises(ValueError, match=r"task.system: .*\{kind\} cannot stand in it"):
        prompts(system="You label {kind}.")

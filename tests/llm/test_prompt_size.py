"""The size of a request, and the first guess of its tokens."""

from __future__ import annotations

from typing import Any

import pytest

from transforms.llm.prompt_size import PromptSize, most_completion_tokens
from transforms.settings import Input, Model, Task

SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}


def size(task: dict[str, Any], **model: Any) -> PromptSize:
    return PromptSize(Task(**task), Input(path="x"), Model(**{"provider": "openai", "name": "m", **model}))


def test_bytes_of_system_and_prompt() -> None:
    assert size({"system": "abc", "prompt": "-{text}-"}).of({"text": "12345"}) == 10
    assert size({"prompt": "{text}"}).of({"text": "ü語"}) == 5
    assert size({"prompt": "{text}"}).of({}) == 0


def test_a_row_that_no_prompt_can_be_made_of_has_none() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert size({"prompt": "{text}"}).of({"text": loop}) == 0


def test_the_guess() -> None:
    assert size({"prompt": "{text}"}).guessed_tokens(10, 400) == 100 + 10 * 3
    assert size({"prompt": "{text}", "system": "s"}).guessed_tokens(10, 400) == 100 + 10 * 6


def test_rows_that_share_a_call_share_what_it_says_once() -> None:
    task = {"system": "s" * 1000, "prompt": "{text}"}
    alone, shared = size(task), size({**task, "records_per_call": 10})
    assert 100 < shared.of({"text": "ü" * 20}) < 200 < alone.of({"text": "ü" * 20})
    assert shared.guessed_tokens(10, 400) == 100 + 2 * 3


@pytest.mark.parametrize(
    ("model", "counts"),
    [
        ({}, True),
        ({"base_url": "https://eu.api.openai.com/v1"}, True),
        ({"provider": "azure", "base_url": "https://x.openai.azure.com"}, True),
        ({"provider": "anthropic"}, True),
        ({"base_url": "http://localhost:8000/v1"}, False),  # makes a grammar of it
        ({"provider": "embedded"}, False),
        ({"structured_output": "off"}, False),
        ({"structured_output": "json_object"}, False),
        ({"parameters": {"response_format": {"type": "text"}}}, False),
        ({"provider": "anthropic", "parameters": {"tools": []}}, False),
    ],
)
def test_the_schema_counts_where_it_is_billed(model: dict[str, Any], counts: bool) -> None:
    assert (size({"prompt": "x", "schema": SCHEMA}, **model).schema_tokens > 0) is counts
    assert size({"prompt": "x"}, **model).schema_tokens == 0


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ({}, None),
        ({"parameters": {"max_tokens": 5}}, 5),
        ({"parameters": {"max_tokens": 5, "max_completion_tokens": 7}}, 7),
        ({"parameters": {"max_tokens": "many"}}, None),
        ({"provider": "anthropic"}, 1024),
        ({"provider": "embedded"}, 256),
    ],
)
def test_the_longest_answer(model: dict[str, Any], most: int | None) -> None:
    assert most_completion_tokens(Model(**{"provider": "openai", "name": "m", **model})) == most

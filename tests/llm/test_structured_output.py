"""How JSON is asked for where an endpoint refuses the first way."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from transforms.llm.chat import ChatClient
from transforms.llm.errors import AccountError, FormatRefused, RowError
from transforms.llm.prompt import Prompt
from transforms.llm.structured_output import modes

Make = Callable[..., ChatClient]
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}
KNOWN = ("json_schema", "json_object", "off")
NAMED = {"param": "response_format"}


def mode(sent: dict[str, Any]) -> str:
    return str(sent.get("response_format", {"type": "off"})["type"])


def endpoint(server: Any, *refused: str, bad: str = "bad", **more: Any) -> None:
    """Makes `server` one that refuses these modes, and prompts with `bad` in them."""

    def step(handler: Any) -> None:
        if mode(handler.sent) in refused or bad in handler.sent["messages"][-1]["content"]:
            server.error(400, **more)(handler)
        else:
            server.reply()(handler)

    server.steps = [step]


def ask(client: ChatClient, prompt: str = "x") -> tuple[str, tuple[str, ...]]:
    """The answer, asked for as often as the client says, and its notes."""
    for _ in range(5):
        try:
            found = client.complete(Prompt.of("", prompt))
        except FormatRefused:
            continue
        return str(found.text), found.notes
    raise AssertionError("asked again without an end")


FALLBACK = ("structured_output_fallback",)


@pytest.mark.parametrize(
    ("setting", "schema", "expected"),
    [
        ("auto", SCHEMA, KNOWN),
        ("auto", None, ("off",)),
        ("json_schema", SCHEMA, ("json_schema",)),
        ("json_object", SCHEMA, ("json_object",)),
        ("off", SCHEMA, ("off",)),
    ],
)
def test_what_a_setting_stands_for(setting: str, schema: Any, expected: tuple[str, ...]) -> None:
    assert modes(setting, schema, KNOWN) == expected


def test_a_setting_that_a_provider_does_not_have() -> None:
    with pytest.raises(ValueError, match=r"model\.structured_output: json_object .* it has json_schema, off"):
        modes("json_object", SCHEMA, ("json_schema", "off"))


@pytest.mark.parametrize("more", [NAMED, {"code": "invalid_json_schema"}, {"param": "response_format.type"}])
def test_a_refusal_that_names_the_format_moves_all_rows(server: Any, client: Make, more: Any) -> None:
    endpoint(server, "json_schema", **more)
    one = client(json_schema=SCHEMA)
    assert [ask(one, str(row)) for row in range(4)] == [("A", FALLBACK)] * 4
    assert [mode(sent) for sent in server.requests] == ["json_schema", *["json_object"] * 4]


def test_down_to_a_plain_prompt(server: Any, client: Make) -> None:
    endpoint(server, "json_schema", "json_object", **NAMED)
    one = client(json_schema=SCHEMA)
    assert [ask(one, str(row)) for row in range(3)] == [("A", FALLBACK)] * 3
    assert [mode(sent) for sent in server.requests] == [*KNOWN, "off", "off"]


def test_a_refusal_in_words_only_is_found_by_asking_without(server: Any, client: Make) -> None:
    """As DeepSeek and Azure refuse it: neither param nor code."""
    endpoint(server, "json_schema", message="This response_format type is unavailable now")
    one = client(json_schema=SCHEMA)
    assert [ask(one, str(row)) for row in range(3)] == [("A", FALLBACK)] * 3
    # One request more for the row that was refused.
    assert [mode(sent) for sent in server.requests] == ["json_schema", "off", "json_object", "json_object"]


def test_a_second_way_that_is_refused_in_words_too(server: Any, client: Make) -> None:
    """As json_object is where the prompt does not say "json"."""
    endpoint(server, "json_schema", "json_object")
    one = client(json_schema=SCHEMA)
    assert [ask(one, str(row)) for row in range(4)] == [("A", FALLBACK)] * 4
    assert [mode(sent) for sent in server.requests] == ["json_schema", "off", "json_object", "off", "off", "off"]


def test_a_row_that_is_refused_without_it_as_well_is_at_fault(server: Any, client: Make) -> None:
    endpoint(server)
    one = client(json_schema=SCHEMA)
    with pytest.raises(RowError, match="bad_request"):
        ask(one, "bad")
    assert ask(one) == ("A", ())
    assert [mode(sent) for sent in server.requests] == ["json_schema", "off", "json_schema"]


def test_once_it_has_worked_a_refusal_is_the_rows(server: Any, client: Make) -> None:
    endpoint(server)
    one = client(json_schema=SCHEMA)
    ask(one)
    with pytest.raises(RowError, match="bad_request"):
        one.complete(Prompt.of("", "bad"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("setting", "kind"), [("json_schema", AccountError), ("json_object", AccountError), ("auto", FormatRefused)]
)
def test_what_is_set_explicitly_is_not_changed(server: Any, client: Make, setting: str, kind: type[Exception]) -> None:
    endpoint(server, *KNOWN[:2], **NAMED)
    one = client(json_schema=SCHEMA, model={"structured_output": setting})
    with pytest.raises(kind):
        one.complete(Prompt.of("", "x"))


def test_a_response_format_among_the_parameters_stays(server: Any, client: Make) -> None:
    endpoint(server, "text", **NAMED)
    one = client(json_schema=SCHEMA, model={"parameters": {"response_format": {"type": "text"}}})
    with pytest.raises(AccountError):
        one.complete(Prompt.of("", "x"))


@pytest.mark.parametrize("status", [401, 404, 413, 429, 500])
def test_other_errors_have_nothing_to_do_with_it(server: Any, client: Make, status: int) -> None:
    server.steps = [server.error(status), server.reply()]
    one = client(json_schema=SCHEMA)
    with pytest.raises(Exception, match=f"HTTP {status}"):
        one.complete(Prompt.of("", "x"))
    one.complete(Prompt.of("", "x"))
    assert [mode(sent) for sent in server.requests] == ["json_schema", "json_schema"]


@pytest.mark.parametrize("more", [{}, NAMED])
@pytest.mark.parametrize("prompts", ["different", "the same"])
def test_many_threads_find_it_out_together(server: Any, client: Make, more: Any, prompts: str) -> None:
    endpoint(server, "json_schema", **more)
    one = client(json_schema=SCHEMA, pool_size=16)
    with ThreadPoolExecutor(16) as pool:
        rows = [f"row {row if prompts == 'different' else 0}" for row in range(100)]
        found = list(pool.map(lambda row: ask(one, row), rows))
    assert found == [("A", FALLBACK)] * 100
    assert len(server.requests) <= 100 + 2 * 16
    ask(one, "one more")
    assert mode(server.requests[-1]) == "json_object"

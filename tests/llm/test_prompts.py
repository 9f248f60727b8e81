"""From a row to the messages that are sent, for all providers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.caller import Caller
from transforms.llm.chat import ChatClient
from transforms.llm.client import connect
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.endpoints import Endpoints
from transforms.llm.examples import check_answers
from transforms.llm.gate import Gate
from transforms.llm.prompt import Prompt
from transforms.llm.prompts import Prompts
from transforms.settings import Input, Limits, Model, Task

LABEL = {"type": "object", "properties": {"label": {"enum": ["good", "bad"]}}, "required": ["label"]}
PNG = "data:image/png;base64,iVBORw0KGgo="
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello", "name": None},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]


def prompts(provider: str = "openai", parameters: Any = None, text: str | None = None, **task: Any) -> Prompts:
    if "messages" not in task:
        task = {"prompt": "Review: {text}", **task}
    model = Model(provider=provider, name="m", base_url="http://x", parameters=parameters or {})
    return Prompts(Task(**task), Input(path="x", text=text), model)


def sent(prompt: Prompt) -> Any:
    return json.loads(prompt.messages)


def test_a_plain_prompt_is_one_message() -> None:
    found = prompts(system="You read {kind}.").render({"text": "é {x}", "kind": "reviews"})
    assert found == Prompt.of("You read reviews.", "Review: é {x}")
    assert found.characters == len("You read reviews.") + len("Review: é {x}")


@given(st.text(), st.text())
def test_whatever_is_in_a_row_arrives_as_it_is(system: str, text: str) -> None:
    found = prompts(system="{s}", prompt="{t}").render({"s": system, "t": text})
    assert (found.system, sent(found)) == (system, [{"role": "user", "content": text}])


EXAMPLES = [
    {"input": "Broke.", "answer": {"label": "bad"}},
    {"input": {"text": "I ❤ it {text}"}, "answer": {"label": "good"}},
]


class TestExamples:
    def test_they_come_before_the_rows_own_message(self) -> None:
        task = Task(prompt="Review: {text}", schema=LABEL, examples=EXAMPLES)
        check_answers(task)
        found = Prompts(task, Input(path="x"), Model()).render({"text": "ok"})
        assert sent(found) == [
            {"role": "user", "content": "Review: Broke."},
            {"role": "assistant", "content": '{"label": "bad"}'},
            {"role": "user", "content": "Review: I ❤ it {text}"},
            {"role": "assistant", "content": '{"label": "good"}'},
            {"role": "user", "content": "Review: ok"},
        ]
        assert found.characters == sum(len(each["content"]) for each in sent(found))

    def test_none_of_them_changes_nothing(self) -> None:
        assert prompts(examples=[]).render({"text": "x"}) == Prompt.of("", "Review: x")

    def test_a_text_is_the_column_that_text_stands_for(self) -> None:
        found = prompts(text="body", examples=[{"input": "a", "answer": "b"}]).render({"body": "c"})
        assert [each["content"] for each in sent(found)] == ["Review: a", "b", "Review: c"]

    @pytest.mark.parametrize(
        ("example", "message"),
        [
            ({"input": {"txt": "a"}}, r"task\.examples\.0\.input: unknown placeholder \{text\}.*columns are: txt"),
            ({"input": {"text": "a", "x": 1}}, r"task\.examples\.0\.input: the prompt does not use x"),
        ],
    )
    def test_a_question_that_cannot_be_put(self, example: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            prompts(examples=[{**example, "answer": "b"}])

    def test_a_text_needs_a_place_in_the_prompt(self) -> None:
        with pytest.raises(ValueError, match=r"unknown placeholder \{title\}"):
            prompts(prompt="{title}", examples=[{"input": "a", "answer": "b"}])

    @pytest.mark.parametrize(
        ("schema", "answer", "message"),
        [
            (LABEL, {"label": "fine"}, r"task\.examples\.1\.answer: \$\.label: 'fine' is not one of"),
            (LABEL, {}, r"'label' is a required property"),
            (LABEL, "good", r"task\.examples\.1\.answer: Expecting value"),
            (LABEL, None, r"task\.examples\.1\.answer: \$: None is not of type 'object'"),
            (None, {"label": "good"}, r"must be text, as there is no task\.schema"),
            (None, " ", r"task\.examples\.1\.answer: no text"),
        ],
    )
    def test_an_answer_that_would_not_count(self, schema: Any, answer: Any, message: str) -> None:
        good = {"label": "good"} if schema else "good"
        examples = [{"input": "a", "answer": good}, {"input": "a", "answer": answer}]
        with pytest.raises(ValueError, match=message):
            check_answers(Task(prompt="{text}", schema=schema, examples=examples))


class TestImages:
    @pytest.mark.parametrize(
        ("provider", "parts"),
        [
            (
                "openai",
                [
                    {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
                    {"type": "image_url", "image_url": {"url": PNG}},
                ],
            ),
            (
                "anthropic",
                [
                    {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                    },
                ],
            ),
        ],
    )
    def test_each_protocol_has_its_own_parts(self, provider: str, parts: Any) -> None:
        one = prompts(provider, prompt="What is it? {text}", images=["photo", "more.urls"])
        found = one.render({"photo": "https://x/a.png", "more": {"urls": [PNG]}, "text": "t"})
        assert sent(found) == [{"role": "user", "content": [*parts, {"type": "text", "text": "What is it? t"}]}]
        assert (found.text_characters, found.images) == (len("What is it? t"), 2)
        assert found.characters == found.text_characters + 8000

    def test_azure_is_as_openai(self) -> None:
        fields = {"photo": "http://x/a", "text": ""}
        found = [prompts(provider, images="photo").render(fields) for provider in ("azure", "openai")]
        assert found[0] == found[1]

    @pytest.mark.parametrize("value", [None, "", []])
    def test_a_row_without_one_is_asked_without(self, value: Any) -> None:
        one = prompts(images="photo")
        assert one.render({"photo": value, "text": "x"}) == Prompt.of("", "Review: x")
        assert not one.shows_image({"photo": value})

    def test_an_empty_text_is_no_part(self) -> None:
        found = prompts(prompt="{text}", images="photo").render({"photo": "http://x/a"})
        assert [part["type"] for part in sent(found)[0]["content"]] == ["image_url"]

    @pytest.mark.parametrize(
        "value", ["photo.png", "/etc/passwd", "ftp://x/a", 5, {"url": "http://x"}, ["http://x/a", None], "data:,x"]
    )
    def test_what_is_no_url_of_an_image(self, value: Any) -> None:
        with pytest.raises(ValueError, match=r"column 'photo' holds .* which is no URL of an image"):
            prompts(images="photo").check_row({"photo": value})

    def test_the_embedded_model_takes_none(self) -> None:
        with pytest.raises(ValueError, match=r"task\.images: the embedded model"):
            prompts("embedded", images="photo")


class TestMessages:
    def test_they_are_sent_as_they_are(self) -> None:
        found = prompts(messages="chat").render({"chat": CHAT})
        null = {key: value for key, value in CHAT[2].items() if key != "name"}
        assert (found.system, sent(found)) == ("", [*CHAT[:2], null, CHAT[3]])
        assert found.characters == len("Be brief.HiHelloAnd now?")

    def test_anthropic_wants_the_system_text_apart(self) -> None:
        chat = [CHAT[0], {"role": "developer", "content": [{"type": "text", "text": "In English."}]}, *CHAT[1:]]
        found = prompts("anthropic", messages="chat").render({"chat": chat})
        assert found.system == "Be brief.\n\nIn English."
        assert [each["role"] for each in sent(found)] == ["user", "assistant", "user"]

    def test_json_text_of_a_list_will_do(self) -> None:
        one = prompts(messages="a.chat")
        assert one.render({"a": {"chat": json.dumps(CHAT)}}) == one.render({"a": {"chat": CHAT}})

    def test_calls_of_tools_and_images_pass(self) -> None:
        chat = [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "5", "tool_call_id": "1"},
        ]
        found = prompts(messages="chat").render({"chat": chat})
        assert (sent(found), found.images) == (chat, 1)

    @pytest.mark.parametrize(
        ("provider", "value", "message"),
        [
            ("openai", 5, "column 'chat' holds no list of messages"),
            ("openai", "Hello", "column 'chat' holds a text that is no JSON list"),
            ("openai", {"role": "user"}, "no list"),
            ("openai", ["Hello"], "column 'chat', message 1: is no object"),
            ("openai", [CHAT[1], {"content": "a"}], "message 2: role must be one of user, .*, not 'None'"),
            ("openai", [{"role": ["user"], "content": "a"}], "role must be one of"),
            ("openai", [{"role": "user"}], "content must be text, or a list of parts"),
            ("openai", [{"role": "user", "content": []}], "content must be"),
            ("openai", [{"role": "user", "content": ["a"]}], "content must be"),
            ("openai", [CHAT[0]], "no message of a user"),
            ("anthropic", [{"role": "tool", "content": "a"}], "role must be one of"),
            ("anthropic", [*CHAT[1:2], CHAT[0]], "system messages at the start only"),
            ("anthropic", [{"role": "system", "content": [{"type": "image"}]}, CHAT[1]], "must be text"),
        ],
    )
    def test_what_is_no_conversation(self, provider: str, value: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            prompts(provider, messages="chat").check_row({"chat": value})

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
    def test_any_other_value_is_refused_or_empty(self, value: Any) -> None:
        one = prompts(messages="chat")
        try:
            found = one.values({"chat": value})
        except ValueError as error:
            found = {"chat": str(error).partition("column 'chat'")[0]}
        assert found == {"chat": ""}


class TestParameters:
    def test_a_rows_own_go_before_the_models(self) -> None:
        one = prompts(parameters={"temperature": 1, "seed": 3}, parameters_from={"temperature": "t", "max_tokens": "m"})
        own = one.render({"text": "x", "t": 0.5, "m": "20"})
        assert json.loads(f"{{{own.parameters}}}") == {"temperature": 0.5, "max_tokens": 20}
        assert own.output_limit == 20
        assert json.loads(f"{{{one.render({'text': 'x'}).parameters}}}") == {"temperature": 1}

    def test_what_a_provider_sets_by_itself_is_not_lost(self) -> None:
        for provider, tokens in (("anthropic", 1024), ("embedded", 256)):
            one = prompts(provider, parameters_from={"max_tokens": "m"})
            assert one.render({"m": None}).output_limit == tokens
            assert one.render({"m": 7}).output_limit == 7

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("max_tokens", value) for value in (0, -1, 1.5, True, "many", [5], "1e999")),
            *(("temperature", value) for value in ("hot", True, "nan", {})),
            ("seed", 0.5),
        ],
    )
    def test_a_value_that_it_cannot_have(self, name: str, value: Any) -> None:
        with pytest.raises(ValueError, match=f"column 'c' holds .*: {name} must be a"):
            prompts(parameters_from={name: "c"}).check_row({"c": value})

    def test_values_of_other_parameters_are_sent_as_they_are(self) -> None:
        found = prompts(parameters_from={"stop": "s", "user": "u"}).render({"s": ["\n"], "u": "é"})
        assert json.loads(f"{{{found.parameters}}}") == {"stop": ["\n"], "user": "é"}

    @pytest.mark.parametrize("name", ["model", "messages", "stream", "n", "response_format", "tools"])
    def test_what_is_the_same_for_all_rows(self, name: str) -> None:
        with pytest.raises(ValueError, match=rf"task\.parameters_from\.{name}: "):
            prompts(parameters_from={name: "c"})


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"prompt": "{txet}"}, r"task\.prompt: the input: unknown placeholder \{txet\}"),
        ({"system": "{txet}"}, r"task\.system: the input: unknown placeholder \{txet\}"),
        ({"images": "photo"}, r"task\.images: the input has no column 'photo'; its columns are: id, text"),
        ({"images": ["id", "text.url", "photo"]}, r"task\.images: the input has no column 'photo'"),
        ({"messages": "chat"}, r"task\.messages: the input has no column 'chat'"),
        ({"parameters_from": {"seed": "s"}}, r"task\.parameters_from\.seed: the input has no column 's'"),
    ],
)
def test_a_column_that_is_not_there(task: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prompts(**task).check(["id", "text"])


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_what_the_server_gets(server: Any, time: Any, provider: str) -> None:
    """Everything at once, over HTTP: the body has each parameter once."""
    task = Task(
        system="Be brief.",
        prompt="{text}",
        examples=[{"input": "a", "answer": "b"}],
        images="photo",
        parameters_from={"max_tokens": "m"},
    )
    model = Model(provider=provider, name="m", base_url=server.url, parameters={"max_tokens": 5, "top_p": 1})
    body = {"content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn"}
    server.steps = [server.reply(body=server.chat() if provider == "openai" else body)]
    client = connect(task, model, Limits(), pool_size=1)
    endpoints = Endpoints([LiveEndpoint(client, Gate(max_in_flight=4))], stop=time.stop, clock=time.clock)
    caller = Caller(task, Input(path="x"), model, Limits(), endpoints=endpoints)
    try:
        for tokens in (9, None):
            caller.ask({"text": "c", "photo": "https://x/a", "m": tokens})
    finally:
        client.close()
    first, second = server.requests
    assert (first["max_tokens"], second["max_tokens"], first["top_p"]) == (9, 5, 1)
    roles = [each["role"] for each in first["messages"]]
    if provider == "anthropic":
        assert (first["system"], roles) == ("Be brief.", ["user", "assistant", "user"])
    else:
        assert roles == ["system", "user", "assistant", "user"]
    assert [part["type"] for part in first["messages"][-1]["content"]][1:] == ["text"]


def test_a_row_whose_limit_is_its_own_brings_it_once(server: Any, client: Callable[..., ChatClient]) -> None:
    one = client(model={"parameters": {"seed": 1}}, row_parameters=["max_tokens", "seed"])
    content = one._request("off", Prompt("", "[]", parameters='"seed": 2'))
    assert content == '{"model": "m", "seed": 2, "messages": []}'

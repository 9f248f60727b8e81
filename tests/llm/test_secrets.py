"""No text that leaves the process holds a secret."""

from collections.abc import Callable
from typing import Any

import pytest

from transforms.llm.chat import ChatClient
from transforms.llm.errors import CallError, RowError
from transforms.llm.prompt import Prompt
from transforms.llm.secrets import hide, masked, without_known


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
        ("see https://token-1@host/v1 or https://x", "see https://***@host/v1 or https://x"),
        ("http://user:p@ss@proxy:3128/", "http://***@proxy:3128/"),
        ("https://host?mail=a@b", "https://host?mail=a@b"),
        ("{'x-api-key': 'abcdef123456'}", "{'x-api-key': '***'}"),
        ("Api-Key: abcdef123456, api-key=abcdef123456", "Api-Key: ***, api-key=***"),
        ("authorization: Basic YWJjZGVmZw==", "authorization: Basic ***"),
        ("a basic understanding of the api-key header", "a basic understanding of the api-key header"),
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


def test_a_key_is_masked_as_pages_and_json_quote_it() -> None:
    hide('odd&"key"<1>')
    for quoted in ('odd&"key"<1>', "odd&amp;&quot;key&quot;&lt;1&gt;", 'odd&\\"key\\"<1>', "odd%26%22key%22%3C1%3E"):
        assert masked(f"a {quoted} b") == "a *** b"


def test_a_models_words_lose_only_what_is_known() -> None:
    hide("a-secret-in-an-answer")
    assert without_known("Bearer abcdef123456 a-secret-in-an-answer") == "Bearer abcdef123456 ***"


KEY = "planted/key+123456"
HEADERS = {"openai": "Bearer {}", "azure": "api-key: {}", "anthropic": "x-api-key: {}"}


@pytest.mark.parametrize("provider", HEADERS)
@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 429, 502])
@pytest.mark.parametrize("form", ["json", "page", "header"])
def test_a_key_that_a_server_echoes_stays_out_of_errors(
    server: Any, client: Callable[..., ChatClient], provider: str, status: int, form: str
) -> None:
    said = f"you sent {HEADERS[provider].format(KEY)} to https://{KEY.replace('/', '')}@host/"
    error = {"type": "invalid_request_error", "message": said, "code": said, "param": said}
    if form == "json":
        body = {"type": "error", "error": error}
        step = server.reply(status, body, location=f"https://elsewhere/?key={KEY}")
    elif form == "page":
        step = server.reply(status, raw=f"<title>{said}</title>".encode(), content_type="text/html")
    else:
        step = server.reply(status, raw=b"", content_type=f"text/{KEY}", location=f"https://{KEY}@elsewhere/")
    server.steps = [step]
    with pytest.raises(CallError) as caught:
        client(provider, api_key=KEY).complete(Prompt.of("", "x"))
    for text in (caught.value.message, str(caught.value), repr(caught.value)):
        assert "planted" not in text
        assert "123456" not in text


@pytest.mark.parametrize("provider", HEADERS)
def test_a_key_that_a_server_echoes_stays_out_of_answers(
    server: Any, client: Callable[..., ChatClient], provider: str
) -> None:
    body = server.chat(f"Your key is {KEY}.", model=KEY)
    body |= {"content": [{"type": "text", "text": f"Your key is {KEY}."}], "stop_reason": "end_turn"}
    server.steps = [server.reply(body=body)]
    found = client(provider, api_key=KEY).complete(Prompt.of("", "x"))
    assert (found.text, found.model) == ("Your key is ***.", "***")


def test_a_header_that_holds_a_secret_is_masked(server: Any, client: Callable[..., ChatClient]) -> None:
    server.steps = [server.error(400, message="reviews sent a-token-of-access")]
    headers = {"CF-Access-Client-Secret": "a-token-of-access", "X-Team": "reviews"}
    with pytest.raises(CallError) as caught:
        client(model={"headers": headers}).complete(Prompt.of("", "x"))
    assert caught.value.message == "HTTP 400: reviews sent ***"


def test_a_password_in_the_address_is_masked(server: Any, client: Callable[..., ChatClient]) -> None:
    server.steps = [server.error(400, message="you are somebody with hush%3Ahush")]
    url = server.url.replace("://", "://token-of-the-test:hush%3Ahush@")
    with pytest.raises(CallError) as caught:
        client(base_url=url).complete(Prompt.of("", "x"))
    assert caught.value.message == "HTTP 400: you are somebody with ***"
    assert masked("token-of-the-test hush:hush") == "*** ***"


def test_a_key_of_unusual_characters_behind_bearer_leaves_no_rest() -> None:
    hide("Zq7'unusual+key/&81")
    assert masked("got Bearer Zq7'unusual+key/&81.") == "got Bearer ***."

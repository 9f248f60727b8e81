"""A model server that plays a script for each row, and whole runs of the pipeline against it."""

from __future__ import annotations

import json
import logging
import random
import re
import socket
import struct
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from pipelines.run import main

Script = Callable[[str, int], dict[str, Any]]  # a row's id, which request for it this is -> what to respond
_DATE = re.compile(r"\{http_date\(now\+(\d+)s\)\}")


class Server:
    """Responds to each request as `script` says, in the terms of server_behaviours.json."""

    def __init__(self) -> None:
        self.script: Script = lambda row, number: {"status": 500}
        self.times: dict[str, list[float]] = defaultdict(list)  # row -> when its requests came
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.close_idle_after: float | None = None  # seconds
        server, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                self.timeout = server.close_idle_after
                super().setup()

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
                row = sent["messages"][-1]["content"].split("|", 1)[0]
                with lock:
                    server.requests.append({"path": self.path, **sent})
                    server.times[row].append(time.monotonic())
                    number = len(server.times[row])
                _respond(self, server.script(row, number))

            def log_message(self, *arguments: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *arguments: Any) -> None:
                pass  # connections are broken on purpose

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def attempts(self, row: str = "a") -> int:
        """How many requests came for a row."""
        return len(self.times[row])

    def waits(self, row: str = "a") -> list[float]:
        """The seconds between the requests for a row."""
        times = self.times[row]
        return [later - earlier for earlier, later in pairwise(times)]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _respond(handler: BaseHTTPRequestHandler, response: dict[str, Any]) -> None:
    time.sleep(response.get("delay", 0.0))
    transport = response.get("transport")
    if transport == "reset_before_response":
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()
        raise ConnectionResetError
    body = json.dumps(response["body"]) if "body" in response else response.get("raw_body", "")
    content = body.encode()
    headers = {name: _DATE.sub(_date, value) for name, value in response.get("headers", {}).items()}
    handler.send_response(response["status"])
    if transport == "chunked_then_close":
        headers["transfer-encoding"] = "chunked"
        content = b"%x\r\n%s\r\n" % (len(content), content)
    else:
        headers["content-length"] = str(response.get("content_length", len(content)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)
    handler.close_connection = transport is not None


def _date(found: re.Match[str]) -> str:
    return formatdate(time.time() + int(found[1]), usegmt=True)


class Run(NamedTuple):
    """What a run has left. `results` and `failures` are rows by id."""

    code: int
    account: dict[str, Any]
    results: dict[str, dict[str, Any]]
    failures: dict[str, dict[str, Any]]
    folder: Path


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def run(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    """Runs the pipeline: text by row id -> Run. Sections of the configuration can be given; a second run continues."""
    monkeypatch.setattr("transforms.llm.retries.FIRST_BACKOFF", 0.02)
    monkeypatch.setattr("transforms.llm.gate.FIRST_PAUSE", 0.05)
    monkeypatch.setenv("PLANTED_KEY", "planted-key-123456")

    def run(rows: dict[str, str], *, anthropic: bool = False, **sections: dict[str, Any]) -> Run:
        lines = [json.dumps({"id": row, "text": text}) for row, text in rows.items()]
        (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
        model: dict[str, Any] = {"provider": "openai", "name": "m", "base_url": server.url + "/v1"}
        if anthropic:
            model |= {"provider": "anthropic", "base_url": server.url}
        settings: dict[str, Any] = {
            "task": {"prompt": "{id}|{text}"},
            "input": {"path": str(tmp_path / "in.jsonl"), "max_chars": 200_000},
            "output": {"path": str(tmp_path / "out"), "format": "jsonl"},
            "model": {**model, "api_key_env": "PLANTED_KEY"},
            "limits": {"max_attempts": 3, "timeout_seconds": 10, "max_in_flight": 8},
        }
        for name, section in sections.items():
            settings[name] |= section
        (tmp_path / "x.yaml").write_text(yaml.safe_dump(settings))
        code = main("classify", "", ["--config", str(tmp_path / "x.yaml")])
        out = tmp_path / "out"
        accounts = sorted(out.glob("runs/*.json"))
        account = json.loads(accounts[-1].read_text()) if accounts else {}
        return Run(code, account, _rows(out / "results"), _rows(out / "failures"), out)

    # What a process of its own would take with it when it ends.
    disabled, hook = logging.root.manager.disable, threading.excepthook
    with warnings.catch_warnings():
        yield run
    logging.disable(disabled)
    threading.excepthook = hook


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture
def jitter() -> Callable[[float], float]:
    """A random delay, the same in each run of the tests."""
    source = random.Random(1)
    return lambda most: source.uniform(0, most)

"""A budget in whole runs: the command as a process of its own against a server that counts what it bills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS, BUDGET = 400, 0.15
PRICE = {"input": 10.0, "output": 100.0}  # a row costs about $0.001


class CountingServer:
    """Answers each review after `seconds`; every 40th with invalid JSON. Tokens follow from the prompt."""

    def __init__(self) -> None:
        self.seconds = 0.02
        self.prompt_tokens = self.completion_tokens = self.calls = 0
        server, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"]
                number = int(asked.split()[1])
                time.sleep(server.seconds)
                usage = {"prompt_tokens": 8 + len(asked) // 4, "completion_tokens": 4 + number % 9}
                with lock:
                    server.calls += 1
                    server.prompt_tokens += usage["prompt_tokens"]
                    server.completion_tokens += usage["completion_tokens"]
                content = "no JSON" if number % 40 == 7 else '{"label": "good"}'
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
                body = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def billed_usd(self) -> float:
        """What the answers cost."""
        return (self.prompt_tokens * PRICE["input"] + self.completion_tokens * PRICE["output"]) / 1e6

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def counting_server() -> Iterator[CountingServer]:
    running = CountingServer()
    yield running
    running.close()


def configure(folder: Path, url: str, **model: Any) -> None:
    """Writes input and configuration."""
    rows = ({"id": str(number), "text": f"{number} " + "well " * (number % 23)} for number in range(ROWS))
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    label = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
    settings = {
        "task": {"prompt": "Review: {text}", "schema": label},
        "input": {"path": str(folder / "in.jsonl")},
        "output": {"path": str(folder / "out")},
        "model": {"provider": "openai", "name": "m", "base_url": url, "price": PRICE, **model},
        "limits": {"max_in_flight": 16},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(settings))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.classify", "--config", str(folder / "run.yaml"), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)


def accounts(folder: Path) -> list[dict[str, Any]]:
    """Oldest first."""
    return [json.loads(path.read_text()) for path in sorted((folder / "out" / "runs").glob("*.json"))]


def rows_usd(folder: Path) -> float:
    """The sum of cost_usd over all results and failures."""
    out = folder / "out"
    results = [row for path in (out / "results").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    failures = [json.loads(line) for path in (out / "failures").glob("*") for line in path.read_text().splitlines()]
    return float(sum(row["cost_usd"] for row in (*results, *failures)))


def test_a_budget_is_never_passed_and_can_be_raised(tmp_path: Path, counting_server: CountingServer) -> None:
    configure(tmp_path, counting_server.url)

    stopped = run(tmp_path, "--set", f"budget.max_cost_usd={BUDGET}")
    assert stopped.returncode == 3, stopped.stderr
    first = accounts(tmp_path)[0]
    assert 0.95 * BUDGET < first["cost_usd"] <= BUDGET
    assert first["stop_reason"].startswith("budget: $0.1")
    assert f"stopped: {first['stop_reason']}" in stopped.stderr
    assert 0 < first["unprocessed"] == ROWS - first["ok"] - first["failed"]
    assert first["cost_usd"] == pytest.approx(counting_server.billed_usd, abs=1e-9)

    asked = counting_server.calls
    assert run(tmp_path, "--set", f"budget.max_cost_usd={BUDGET}").returncode == 3  # it is for all runs together
    assert counting_server.calls == asked

    raised = run(tmp_path, "--set", "budget.max_cost_usd=10")
    assert raised.returncode == 0, raised.stderr
    assert counting_server.calls == ROWS
    last = accounts(tmp_path)[-1]
    assert (last["skipped"], last["unprocessed"]) == (first["ok"] + first["failed"], 0)
    assert first["failures_by_reason"].keys() | last["failures_by_reason"].keys() == {"invalid_json"}

    billed = pytest.approx(counting_server.billed_usd, abs=1e-9)
    assert rows_usd(tmp_path) == billed
    assert sum(account["cost_usd"] for account in accounts(tmp_path)) == billed


def test_a_budget_without_a_price_is_a_mistake(tmp_path: Path, counting_server: CountingServer) -> None:
    configure(tmp_path, counting_server.url, price=None)
    refused = run(tmp_path, "--set", "budget.max_cost_usd=1")
    assert refused.returncode == 2
    assert refused.stderr == (
        "paidonce: budget.max_cost_usd: no price is known for model m, so nothing that it costs could be counted; "
        "set model.price\n"
    )
    assert (counting_server.calls, (tmp_path / "out").exists()) == (0, False)


def test_an_unknown_price_is_said_once_and_the_run_goes_on(tmp_path: Path, counting_server: CountingServer) -> None:
    configure(tmp_path, counting_server.url, price=None)
    counting_server.seconds = 0.0
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("no price is known for model m: costs stay empty; set model.price\n") == 1
    assert "| cost unknown\n" in ended.stdout
    account = accounts(tmp_path)[0]
    assert (account["cost_usd"], account["price"], account["cost_unknown_rows"]) == (None, None, ROWS)

"""Whole runs: the command as a process of its own, against servers on the loopback interface.

`workspace` is a folder with input, configuration and output, and the command on it. `mock` starts the fast mock
server of ../shared/mockllm, `own_server` one that follows a script. Nothing here waits for a time to pass, only
for something to be so; and each process that a test starts is ended by its own pid.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow.dataset
import pytest

from tests.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
MOCK_SOURCE = REPOSITORY.parent / "shared" / "mockllm"
PATIENCE = 120.0  # seconds until a test gives up waiting: far beyond what a busy machine needs
POLL = 0.01  # seconds

Row = dict[str, Any]


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """The first true value of `condition`. Fails, naming `what` did not come, after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {seconds:.0f} s in vain until {what}"
        time.sleep(POLL)
    return value


# The mock server


class Mock:
    """A running mock server: see ../shared/mockllm/README.md for its flags and its stats."""

    def __init__(self, binary: str, flags: Iterable[str], log: Path) -> None:
        port = free_port()
        self._root = f"http://127.0.0.1:{port}"
        self.url = f"{self._root}/v1"
        with log.open("wb") as stream:
            self._process = subprocess.Popen([binary, "-port", str(port), *flags], stdout=stream, stderr=stream)
        until(self._answers, "the mock server answers")

    def stats(self) -> dict[str, Any]:
        """What it has counted since the start or the last reset."""
        stats: dict[str, Any] = json.loads(self._get("stats"))
        return stats

    def calls(self) -> int:
        """Requests that have ended, however."""
        return int(self.stats()["calls"])

    def reset(self) -> None:
        """Counts anew from zero."""
        self._get("reset")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)

    def _get(self, page: str) -> bytes:
        with _no_proxy.open(f"{self._root}/{page}", timeout=PATIENCE) as response:
            content: bytes = response.read()
            return content

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the mock server ended at once: was its port taken meanwhile?"
        try:
            return bool(self._get("stats"))
        except (urllib.error.URLError, ConnectionError):
            return False


_no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="session")
def mock_binary(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The mock server's binary: the one that MOCKLLM names, or built once from ../shared/mockllm."""
    named = os.environ.get("MOCKLLM")
    if named:
        return named
    if not MOCK_SOURCE.is_dir():
        pytest.skip(f"no mock server: MOCKLLM names no binary, and there is no {MOCK_SOURCE}")
    go = shutil.which("go")
    if go is None:
        pytest.skip("no mock server: MOCKLLM names no binary, and there is no go to build it with")
    binary = tmp_path_factory.mktemp("mockllm") / "mockllm"
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=MOCK_SOURCE, check=True)
    return str(binary)


@pytest.fixture
def mock(mock_binary: str, tmp_path: Path) -> Iterator[Callable[..., Mock]]:
    """Starts mock servers, each with the flags given."""
    running: list[Mock] = []

    def start(*flags: str) -> Mock:
        running.append(Mock(mock_binary, flags, tmp_path / f"mock-{len(running)}.log"))
        return running[-1]

    yield start
    for each in running:
        each.close()


# A server that follows a script


class Reply(NamedTuple):
    """A response: its status, its body (bytes as they are, all else as JSON) and its further headers."""

    status: int
    body: Any
    headers: dict[str, str]


class OwnServer:
    """Answers by `script`, which is given a row's id and the number of its request, counted from 1.

    Rows are told apart by the prompt, which has to begin with "{id}|". `requests` and `answered` count by id what
    came and what was answered with 200. While `gate` is not set, requests beyond the first `pass_first` wait for it.
    """

    def __init__(self) -> None:
        self.script: Callable[[str, int], Reply] = lambda _row, _number: self.answer()
        self.requests: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.arrivals: list[float] = []  # of all requests, in seconds of the monotonic clock
        self.authorization = ""  # the header of the last request
        self.in_flight = 0
        self.gate = threading.Event()
        self.gate.set()
        self.pass_first = 0
        server, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                row = body["messages"][-1]["content"].partition("|")[0]
                with lock:
                    server.arrivals.append(time.monotonic())
                    server.authorization = self.headers.get("authorization", "")
                    server.requests[row] += 1
                    server.in_flight += 1
                    number, place = server.requests[row], len(server.arrivals)
                if place > server.pass_first:
                    server.gate.wait(PATIENCE)
                reply = server.script(row, number)
                with lock:
                    server.in_flight -= 1
                    server.answered[row] += reply.status == 200
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *args: Any) -> None:
                pass  # clients are killed on purpose

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": POLL})
        self._thread.start()

    @property
    def calls(self) -> int:
        """All requests so far."""
        return len(self.arrivals)

    @staticmethod
    def answer(content: str = '{"label": "positive"}', **more: Any) -> Reply:
        """A 200 with a whole chat completion."""
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        return Reply(200, {"id": "c", "model": "m-1", "choices": [choice], "usage": usage, **more}, {})

    @staticmethod
    def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
        """An error as OpenAI's API sends it; `headers` are written with _ for -."""
        body = {"error": {"message": message, "type": None, "param": None, "code": code}}
        return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def close(self) -> None:
        self.gate.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


# The command


class Ran(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def counts(self) -> dict[str, int]:
        """The first line of its summary, e.g. {"total": 3, "skipped": 0, ...}."""
        pairs = (part.rsplit(" ", 1) for part in self.out.splitlines()[0].split(" | "))
        return {name: int(count) for name, count in pairs}


class Started:
    """A run that is under way. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=err)

    def ended(self) -> bool:
        return self.process.poll() is not None

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Waits for `condition` while the run goes on; fails where it ends before."""

        def look() -> bool:
            ended = self.ended()  # before the condition, which may come with the last thing that a run does
            if condition():
                return True
            assert not ended, f"the run ended before {what}: {self.wait()}"
            return False

        until(look, what)

    def send(self, number: int) -> None:
        """Sends a signal to the process alone, not to its group as a terminal would."""
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def errors(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_text(encoding="utf-8")

    def wait(self) -> Ran:
        code = self.process.wait(PATIENCE)
        return Ran(code, self._out.read_text(encoding="utf-8"), self.errors())


class Workspace:
    """One test's folder, and the command on it."""

    # Here, so that tests need no import from this file.
    until = staticmethod(until)
    LABELS: ClassVar[Row] = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["positive", "negative", "neutral"]}},
        "required": ["label"],
        "additionalProperties": False,
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.input = folder / "input"
        self.output = folder / "out"
        self.config = folder / "config.yaml"
        self.module = "pipelines.classify"
        self._runs: list[Started] = []

    @staticmethod
    def rows(count: int, start: int = 0) -> list[Row]:
        """Rows whose ids, and whose texts, are all different."""
        texts = "It broke after {} days.", "Day {} and I still love it.", "Number {} came in a box."
        return [
            {"id": f"r{n:05d}", "text": texts[n % 3].format(n), "stars": n % 5} for n in range(start, start + count)
        ]

    def write_input(self, rows: Iterable[Row], files: int = 1) -> None:
        """Writes the input anew, dealt out over so many files."""
        shutil.rmtree(self.input, ignore_errors=True)
        self.input.mkdir(parents=True)
        rows = list(rows)
        for number in range(files):
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows[number::files])
            (self.input / f"part-{number}.jsonl").write_text("".join(lines), encoding="utf-8")

    def configure(self, url: str, **sections: Row) -> None:
        """Writes the configuration: the label task on the endpoint at `url`, with `sections` laid over it."""
        values: dict[str, Row] = {
            "task": {"name": "label", "prompt": "{id}|{text}", "schema": self.LABELS},
            "input": {"path": str(self.input / "*"), "id": "id"},
            "output": {"path": str(self.output)},
            "model": {"provider": "openai", "name": "mock-1", "base_url": url, "price": {"input": 1, "output": 2}},
            "limits": {"max_in_flight": 8},
        }
        for name, section in sections.items():
            values[name] = {**values[name], **section}
        self.config.write_text(json.dumps(values), encoding="utf-8")  # all JSON is YAML

    def start(
        self, *flags: str, environment: Row | None = None, python: Iterable[str] = (), configured: bool = True
    ) -> Started:
        """Starts the command from a folder of its own, with this configuration or the command's own."""
        folder = self.folder / f"run-{len(self._runs)}"
        folder.mkdir()
        config = ["--config", str(self.config)] if configured else []
        command = [sys.executable, *python, "-m", self.module, *config, *flags]
        self._runs.append(Started(command, folder, {**_environment(), **(environment or {})}))
        return self._runs[-1]

    def run(self, *flags: str, environment: Row | None = None, python: Iterable[str] = ()) -> Ran:
        """Runs the command to its end."""
        return self.start(*flags, environment=environment, python=python).wait()

    def results(self) -> list[Row]:
        """All rows in the results, as a reader with pyarrow sees them."""
        files = [str(file) for file in self.output.glob("results/*")]
        if not files:
            return []
        kind = "json" if files[0].endswith(".jsonl") else "parquet"
        found: list[Row] = pyarrow.dataset.dataset(files, format=kind).to_table().to_pylist()
        return found

    def ids(self) -> list[str]:
        """The ids in the results, sorted, with whatever repeats."""
        return sorted(row["id"] for row in self.results())

    def answers(self, folder: str) -> list[tuple[Any, ...]]:
        """What the results in an output below this folder say of each row, whichever run and engine wrote them."""
        self.output = self.folder / folder
        names = (
            "id",
            "label",
            "output_text",
            "model",
            "finish_reason",
            "prompt_tokens",
            "completion_tokens",
            "cost_usd",
        )
        return sorted(tuple(row[name] for name in names) for row in self.results())

    def failures(self) -> list[Row]:
        """All rows in the failures."""
        files = sorted(self.output.glob("failures/*"))
        return [json.loads(line) for file in files for line in file.read_bytes().split(b"\n") if line]

    def journal_lines(self) -> int:
        """Outcomes that are in journals, over all runs."""
        return sum(file.read_bytes().count(b"\n") for file in self.output.glob("journal/*/*.jsonl"))

    def account(self) -> Row:
        """The account of the last run, after a check that it adds up."""
        account: Row = json.loads(max(self.output.glob("runs/*.json")).read_text(encoding="utf-8"))
        parts = ("skipped", "recovered", "ok", "failed", "unprocessed")
        assert account["total"] == sum(account[part] for part in parts)
        return account

    def tree(self, *below: str) -> dict[str, str]:
        """A hash of each file below the output, or below folders of it."""
        roots = [self.output / part for part in below] or [self.output]
        files = sorted(file for root in roots for file in root.rglob("*") if file.is_file())
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def close(self) -> None:
        for started in self._runs:
            if not started.ended():
                started.kill()


def _environment() -> dict[str, str]:
    """Ours, without what would lead calls elsewhere, and with the repository importable from any folder."""
    known = {name: value for name, value in os.environ.items() if not name.lower().endswith(("_proxy", "_api_key"))}
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**known, "PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    space = Workspace(tmp_path)
    yield space
    space.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that runs on both engines and in other variants, each variant always runs on one of them."""
    for item in items:
        indices = item.callspec.indices if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        other = next((index for name, index in indices.items() if name != "runner"), None)
        if other is not None and "runner" in indices and (indices["runner"] + other) % 2:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(params=["in-process", pytest.param("prism", marks=pytest.mark.prism)])
def runner(request: pytest.FixtureRequest) -> list[str]:
    """The flags that choose an engine: a test that asks for them runs on both."""
    flags: list[str] = [] if request.param == "in-process" else request.getfixturevalue("prism")
    return flags


@pytest.fixture
def prism(tmp_path: Path) -> Iterator[list[str]]:
    """The flags that choose Prism. It is started by a script that notes its pid: to see that it really was Prism
    that ran, and to end it where the run that started it was killed."""
    prism = os.environ.get("PRISM")
    if not prism:
        pytest.skip("PRISM names no binary of Prism")
    pids, script = tmp_path / "prism.pids", tmp_path / "prism"
    script.write_text(f'#!/bin/sh\necho $$ >> "{pids}"\nexec "{prism}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    yield ["--runner=DirectRunner", f"--prism_location={script}"]
    assert pids.exists(), "the run did not start Prism"
    for pid in map(int, pids.read_text(encoding="utf-8").split()):
        if _runs(pid, Path(prism)):
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int, binary: Path) -> bool:
    """Whether that process is there and is still the one we started."""
    try:
        return Path(f"/proc/{pid}/exe").resolve() == binary.resolve()
    except OSError:
        return False

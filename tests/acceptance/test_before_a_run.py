"""What a run will do, cost and take, told before it: estimate, dry run and pilot against what then happens."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

REVIEWS = Path(__file__).resolve().parents[3] / "shared" / "data" / "product_reviews.jsonl"
SYSTEM = "Classify the sentiment of the review as positive, negative or neutral. Reply in JSON."
TASK = {"system": SYSTEM, "prompt": "Review: {text}"}


def figure(text: str, name: str) -> float:
    """The number that stands first in the line of that name."""
    found = re.search(rf"^{re.escape(name)}  +(?:at least )?\$?([\d,.]+)", text, re.MULTILINE)
    assert found is not None, f"no number for {name!r} in:\n{text}"
    return float(found[1].replace(",", ""))


def line(text: str, name: str) -> str:
    return next(each for each in text.splitlines() if each.startswith(f"{name} "))


@pytest.fixture
def reviews(workspace: Any) -> Any:
    if not REVIEWS.is_file():
        pytest.skip(f"the reviews are not there: {REVIEWS}")
    workspace.input.mkdir()
    (workspace.input / "reviews.jsonl").write_bytes(REVIEWS.read_bytes())
    return workspace


class TestEstimate:
    def test_prompt_tokens_are_close_to_what_is_billed(self, reviews: Any, mock: Callable[..., Any]) -> None:
        server = mock()
        reviews.configure(server.url, task=TASK)

        ran = reviews.run("--estimate")

        assert ran.code == 0, ran.err
        assert server.calls() == 0
        assert not reviews.output.exists()
        assert (figure(ran.out, "rows"), figure(ran.out, "to do")) == (3708, 3708)
        assert "unknown" in line(ran.out, "completion tokens")
        assert reviews.run().code == 0
        stats = server.stats()
        assert stats["calls"] == figure(ran.out, "requests")
        assert figure(ran.out, "prompt tokens") == pytest.approx(stats["prompt_tokens"], rel=0.15)

    def test_what_a_killed_run_left_counts_and_stays(self, workspace: Any, own_server: Any, runner: list[str]) -> None:
        workspace.write_input([*workspace.rows(60), *workspace.rows(60)[:2]], files=2)
        extra = [{"id": "r00004", "text": "other"}, {"id": 1.5}, {"id": "l", "text": "x" * 99}]
        (workspace.input / "z.jsonl").write_text("".join(json.dumps(row) + "\n" for row in extra) + "no json\n")
        workspace.configure(own_server.url, input={"max_chars": 60}, task={"prompt": "{id}|{text}"})
        own_server.script = lambda row, _number: (
            own_server.error(400, "filtered", "content_filter") if row == "r00004" else own_server.answer()
        )
        assert workspace.run("--limit", "12").code == 0
        own_server.pass_first = 30
        own_server.gate.clear()
        started = workspace.start()
        started.until(lambda: workspace.journal_lines() == 18, "the second run has journalled what may pass")
        started.kill()
        own_server.gate.set()
        before, calls = workspace.tree(), own_server.calls

        ran = workspace.run("--estimate", *runner)

        assert ran.code == 0, ran.err
        assert own_server.calls == calls
        assert workspace.tree() == before
        assert line(ran.out, "done").split()[1:3] == ["30", "18"]
        assert line(ran.out, "repeated").endswith("3  identical 2, duplicate_id 1")
        assert "3  bad_id 1, bad_record 1, oversized_input 1" in line(ran.out, "set aside")
        assert "from 30 earlier rows of this task" in line(ran.out, "completion tokens")
        # 29 answers of 20 + 5 tokens, and one refusal that cost nothing.
        assert figure(ran.out, "prompt tokens") == pytest.approx(20 * 29, rel=0.05)
        assert figure(ran.out, "completion tokens") == pytest.approx(5 * 29, rel=0.05)
        assert figure(ran.out, "failures") == 3.3
        assert figure(ran.out, "to do") == 30
        again = workspace.run()
        assert (again.counts["ok"], again.counts["recovered"], again.counts["failed"]) == (30, 18, 4)

    def test_a_limit_is_estimated_too(self, workspace: Any, own_server: Any) -> None:
        workspace.write_input(workspace.rows(50))
        workspace.configure(own_server.url, model={"parameters": {"max_tokens": 10}})
        ran = workspace.run("--estimate", "--limit", "7", "--set", "budget.max_cost_usd=0.000001")
        assert ran.code == 0, ran.err
        whole, part = ran.out.split("\n\n--limit")
        assert figure(whole, "to do") == 50
        assert "at most 500" in line(whole, "completion tokens")
        assert "at most 70" in line(part, "completion tokens")
        assert "does not suffice" in line(whole, "budget left")
        assert own_server.calls == 0

    def test_another_task_is_refused_as_a_run_would(self, workspace: Any, own_server: Any) -> None:
        workspace.write_input(workspace.rows(3))
        workspace.configure(own_server.url)
        assert workspace.run().code == 0
        changed = ["--estimate", "--set", "model.parameters.temperature=1"]
        assert workspace.run(*changed).code == 2
        redone = workspace.run(*changed, "--on-change=redo")
        assert (figure(redone.out, "to do"), figure(redone.out, "done")) == (3, 0)
        kept = workspace.run(*changed, "--on-change=keep")
        assert (figure(kept.out, "to do"), figure(kept.out, "done")) == (0, 3)


class Recorder:
    """Notes what comes over the wire, byte by byte."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                recorder.requests.append((self.path, dict(self.headers), body))
                usage = {"prompt_tokens": 1, "completion_tokens": 1}
                choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": '{"label": "neutral"}'}}
                content = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    running = Recorder()
    yield running
    running.close()


class TestDryRun:
    def test_it_shows_what_is_then_sent(self, workspace: Any, recorder: Recorder) -> None:
        key = "k-verysecret-123"
        rows = [{"id": f"r{n}", "text": f'row {n} "ünï" \u2028 {{text}}'} for n in range(9)]
        workspace.write_input([*rows[:2], rows[0], {"id": "void", "text": ""}, *rows[2:]])
        workspace.configure(
            recorder.url,
            task={"prompt": "{text}", "system": "Be brief."},
            model={"api_key_env": "DRY_KEY", "parameters": {"temperature": 0}, "headers": {"X-Team": "a"}},
            limits={"max_in_flight": 1},
        )
        environment = {"DRY_KEY": key}
        assert workspace.run("--limit", "1", environment=environment).code == 0
        before = workspace.tree()
        recorder.requests.clear()

        dry = workspace.run("--dry-run", "--limit", "4", environment=environment)

        assert dry.code == 0, dry.err
        assert recorder.requests == []
        assert workspace.tree() == before
        assert key not in dry.out + dry.err
        assert workspace.run("--limit", "4", environment=environment).code == 0
        shown = [part.split("\n", 2) for part in dry.out.split("\n\n# id ")]
        heads = dry.out.split("POST ")[1:]
        assert len(shown) == len(heads) == len(recorder.requests) == 4
        for head, (path, headers, body) in zip(heads, recorder.requests, strict=True):
            top, _blank, rest = head.partition("\n\n")
            url, *lines = top.split("\n")
            assert url == recorder.url + path.removeprefix("/v1")
            assert rest.split("\n")[0].encode() == body
            for name, value in (each.split(": ", 1) for each in lines):
                assert headers[name] == value.replace("***", key)

    def test_no_key_is_needed(self, workspace: Any, recorder: Recorder) -> None:
        workspace.write_input(workspace.rows(5))
        workspace.configure(recorder.url, model={"api_key_env": "NO_SUCH_KEY"})
        dry = workspace.run("--dry-run")
        assert dry.code == 0, dry.err
        assert dry.out.count("POST ") == 3
        assert "Authorization: Bearer ***" in dry.out
        assert "NO_SUCH_KEY is not set" in dry.out
        assert not workspace.output.exists()
        assert recorder.requests == []
        assert workspace.run("--estimate").code == 0
        assert workspace.run().code == 2


class TestPilot:
    def test_what_it_projects_comes_true(self, reviews: Any, mock: Callable[..., Any]) -> None:
        server = mock("-garbage-rate", "0.03")
        reviews.configure(server.url, task=TASK)

        pilot = reviews.run("--pilot", "300")

        assert pilot.code == 0, pilot.err
        account = reviews.account()
        assert (account["status"], account["stop_reason"], account["calls"]) == ("stopped", "pilot", 300)
        assert (account["unprocessed"], server.calls()) == (3408, 300)
        positions = sorted(row["prompt_tokens"] for row in reviews.results())
        assert len(set(positions)) > 10  # not one corner of the input
        server.reset()
        [command] = [each for each in pilot.out.splitlines() if each.startswith("go on with: ")]
        argv = shlex.split(command.removeprefix("go on with: "))
        assert "--pilot" not in argv
        rest = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=None, check=False)
        assert rest.returncode == 0, rest.stderr
        last, stats = reviews.account(), server.stats()
        assert figure(pilot.out, "rows to do") == stats["calls"] == last["calls"] == 3408
        assert figure(pilot.out, "requests") == last["calls"]
        assert figure(pilot.out, "cost") == pytest.approx(last["cost_usd"], rel=0.05)
        assert figure(pilot.out, "prompt tokens") == pytest.approx(stats["prompt_tokens"], rel=0.05)
        assert figure(pilot.out, "completion tokens") == pytest.approx(stats["completion_tokens"], rel=0.05)
        share = re.search(r"([\d.]+) % to ([\d.]+) %", line(pilot.out, "failures"))
        assert share is not None
        assert float(share[1]) <= 100 * last["failed"] / 3408 <= float(share[2])

    def test_the_sample_is_the_same_however_the_input_lies(self, workspace: Any, mock: Callable[..., Any]) -> None:
        rows = workspace.rows(500)
        ids = []
        for order, files in ((rows, 1), (rows[::-1], 7)):
            workspace.write_input([*order, *order[:5]], files=files)
            workspace.output = workspace.folder / f"out-{files}"
            workspace.configure(mock().url)
            ran = workspace.run("--pilot", "40")
            assert ran.code == 0, ran.err
            assert ran.counts["ok"] == 40
            ids.append(workspace.ids())
        assert ids[0] == ids[1]
        spread = [int(identifier[1:]) for identifier in ids[0]]
        assert min(spread) < 100
        assert max(spread) >= 400

    def test_also_on_prism(self, workspace: Any, mock: Callable[..., Any], prism: list[str]) -> None:
        workspace.write_input(workspace.rows(200), files=3)
        workspace.configure(mock().url)
        ran = workspace.run("--pilot", "20", *prism)
        assert (ran.code, ran.counts["ok"], ran.counts["unprocessed"]) == (0, 20, 180), ran.err
        on_prism = workspace.ids()
        workspace.output = workspace.folder / "elsewhere"
        workspace.configure(mock().url)
        assert workspace.run("--pilot", "20").code == 0
        assert workspace.ids() == on_prism

    def test_failures_that_may_pass_are_left_to_do(self, workspace: Any, own_server: Any) -> None:
        workspace.write_input(workspace.rows(40))
        workspace.configure(own_server.url, limits={"max_attempts": 1})
        own_server.script = lambda row, _number: (
            own_server.error(500) if int(row[1:]) % 2 else own_server.error(400, "filtered", "content_filter")
        )
        ran = workspace.run("--pilot", "20")
        assert ran.code == 0, ran.err
        retryable = sum(row["retryable"] for row in workspace.failures())
        assert 0 < retryable < 20
        assert figure(ran.out, "rows to do") == 20 + retryable
        assert figure(workspace.run("--estimate").out, "to do") == 20 + retryable

    def test_a_pilot_of_all_is_a_run(self, workspace: Any, own_server: Any) -> None:
        workspace.write_input(workspace.rows(5))
        workspace.configure(own_server.url)
        ran = workspace.run("--pilot=9")
        assert (ran.code, own_server.calls) == (0, 5)
        assert workspace.account()["status"] == "complete"
        assert "the pilot was all there was to do" in ran.out

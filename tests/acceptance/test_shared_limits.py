"""Several worker processes on one account: limits and a budget that they share over Redis, or divide."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

WORKERS = ["--direct_running_mode=multi_processing", "--direct_num_workers=3"]
PRICE = {"input": 10.0, "output": 100.0}


def pids(output: Path) -> set[int]:
    """The worker processes that have made calls in the run that is on."""
    found = set()
    for file in output.glob("journal/*/worker-*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.add(json.loads(file.read_text())["pid"])
    return found


def shared(url: str, **more: Any) -> dict[str, Any]:
    return {"shared": url, "headroom": 1.0, "max_in_flight": 16, **more}


class Watched:
    """What a server admits and refuses while a run is on."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.samples: list[tuple[float, int]] = []

    def look(self) -> dict[str, int]:
        outcomes: dict[str, int] = self._server.stats()["outcomes"]
        self.samples.append((time.monotonic(), outcomes.get("ok", 0)))
        return outcomes

    def until_it_ends(self, started: Any) -> None:
        while not started.ended():
            self.look()
            time.sleep(0.1)

    def most_in(self, seconds: float) -> int:
        return max(
            later - count
            for number, (at, count) in enumerate(self.samples)
            for other, later in self.samples[number:]
            if other - at <= seconds
        )


def test_three_processes_keep_to_one_limit_also_when_redis_is_killed(
    workspace: Any, mock: Any, redis_server: Any
) -> None:
    """3,000 a minute is 50 a second: more than what 61 seconds allow would show within any of these seconds."""
    server = mock("-rpm", "3000", "-latency", "20")
    workspace.write_input(workspace.rows(1000), files=16)
    workspace.configure(server.url, limits=shared(redis_server.url, requests_per_minute=3000))
    watched, started = Watched(server), workspace.start(*WORKERS)
    started.until(lambda: watched.look().get("ok", 0) > 300, "300 calls are made")
    assert server.calls() < 900
    redis_server.kill()
    watched.until_it_ends(started)
    ran = started.wait()
    assert ran.code == 0, ran.err
    account = workspace.account()
    assert account["ok"] == 1000
    assert 0 < account["notes"]["limits_divided"] < 1000
    assert "limits_divided" in ran.out
    assert watched.look() == {"ok": 1000}  # not one 429
    for seconds in (2, 5, 10):
        # And a quarter of a second's at once, and what came between the reading of the counter and of the clock.
        assert watched.most_in(seconds) <= 50 * (seconds + 1)
    assert f"limits.shared: redis://127.0.0.1:{redis_server.port}/0 does not answer" in ran.err


def test_two_processes_by_their_parts(workspace: Any, mock: Any) -> None:
    server = mock("-rpm", "3000", "-latency", "20")
    workspace.write_input(workspace.rows(600), files=16)
    limits = {"workers": 2, "headroom": 1.0, "requests_per_minute": 3000}
    workspace.configure(server.url, limits=limits)
    watched, started = Watched(server), workspace.start(WORKERS[0], "--direct_num_workers=2")
    watched.until_it_ends(started)
    assert started.wait().code == 0
    assert watched.look() == {"ok": 600}
    assert watched.most_in(5) <= 50 * 6


def test_a_budget_of_all_processes_is_never_passed(workspace: Any, mock: Any, redis_server: Any) -> None:
    server = mock("-latency", "20")
    workspace.write_input(workspace.rows(2000), files=16)
    most = 0.5  # of about 1.1
    workspace.configure(server.url, limits=shared(redis_server.url), model={"price": PRICE})
    started = workspace.start(*WORKERS, "--set", f"budget.max_cost_usd={most}")
    seen: set[int] = set()
    started.until(lambda: seen.update(pids(workspace.output)) or len(seen) > 1, "two processes make calls")
    ran = started.wait()
    assert ran.code == 3, ran.err
    account = workspace.account()
    stats = server.stats()
    billed = (stats["prompt_tokens"] * PRICE["input"] + stats["completion_tokens"] * PRICE["output"]) / 1e6
    assert account["cost_usd"] == pytest.approx(billed, abs=1e-6)
    assert 0.98 * most < billed <= most
    assert "of budget.max_cost_usd $0.5000 is spent" in account["stop_reason"]


def test_a_redis_that_is_not_there_ends_the_launch(workspace: Any, mock: Any, redis_server: Any) -> None:
    server = mock()
    workspace.write_input(workspace.rows(3))
    redis_server.kill()
    url = f"redis://:a-secret-word@127.0.0.1:{redis_server.port}/0"
    workspace.configure(server.url, limits=shared(url))
    ran = workspace.run()
    assert ran.code == 2
    assert ran.err.startswith(f"paidonce: limits.shared: redis://127.0.0.1:{redis_server.port}/0 does not answer: ")
    assert ran.err.count("\n") == 1
    assert "a-secret-word" not in ran.err
    assert (server.calls(), workspace.output.exists()) == (0, False)


def test_its_password_is_nowhere(workspace: Any, mock: Any, redis_server: Any) -> None:
    password = "a-secret/word@1"
    redis_server.kill()
    redis_server.password = password
    redis_server.start()
    server = mock()
    workspace.write_input(workspace.rows(20))
    url = f"redis://:${{THE_PASSWORD}}@127.0.0.1:{redis_server.port}/0"
    workspace.configure(server.url, limits=shared(url))
    missing = workspace.run()
    assert (missing.code, "THE_PASSWORD" in missing.err) == (2, True)
    wrong = workspace.run(environment={"THE_PASSWORD": "not-the-word"})
    assert (wrong.code, "not-the-word" in wrong.err) == (2, False)
    ran = workspace.run(environment={"THE_PASSWORD": password})
    assert ran.code == 0, ran.err
    assert workspace.account()["config"]["limits"]["shared"] == url
    texts = [ran.out, ran.err, *(file.read_bytes().decode(errors="replace") for file in workspace.output.rglob("*.*"))]
    assert not any(password in text for text in texts)

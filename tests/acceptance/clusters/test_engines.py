"""Prism, Flink and Spark, over the portable API: workers of an installed package, kills, and the same again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COUNT = 600
IN_FLIGHT = 8
# Spark ends the worker processes after each stage, and starts others for the next, unless it is told to keep them. A
# task that is tried again then gets the same process, also where that is dead.
KEPT = "--environment_cache_millis=60000"


def on(name: str) -> Any:
    """The parameter that has a test run on an engine."""
    return pytest.param(name, marks=getattr(pytest.mark, name))


@pytest.fixture(params=[on("flink"), on("spark")])
def engine(request: pytest.FixtureRequest) -> list[str]:
    """The flags that choose an engine."""
    flags: list[str] = request.getfixturevalue(request.param)
    return ["--runner=PrismRunner", *flags[1:]] if request.param == "prism" else flags


def configure(workspace: Any, server: Any) -> None:
    workspace.write_input(workspace.rows(COUNT), files=3)
    workspace.configure(server.url, limits={"max_in_flight": IN_FLIGHT})


def is_whole(workspace: Any) -> bool:
    return workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]


def until_under_way(started: Any, server: Any) -> None:
    started.until(lambda: server.calls() >= COUNT // 3, "a third is called")


def kill_its_worker(started: Any, server: Any, pool: Any) -> None:
    until_under_way(started, server)
    [worker] = pool.workers()
    os.kill(worker, signal.SIGKILL)


@pytest.mark.parametrize("engine", [on("prism"), on("flink"), on("spark")], indirect=True)
def test_the_same_results_as_in_this_process(workspace: Any, mock: Any, pool: Any, engine: list[str]) -> None:
    server = mock()
    workspace.write_input(workspace.rows(COUNT), files=3)
    workspace.configure(server.url, input={"path": "../input"}, output={"path": "../here"})
    assert workspace.run().code == 0
    assert server.calls() == COUNT

    ran = workspace.run(*engine, *pool.flags(), KEPT, "--output=../out")

    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == COUNT
    assert "engine: latency " in ran.out
    assert workspace.answers("out") == workspace.answers("here")
    assert server.calls() == 2 * COUNT

    again = workspace.run(*engine, *pool.flags(), KEPT, "--output=../out")

    assert again.code == 0, again.err
    assert again.counts["skipped"] == COUNT
    assert server.calls() == 2 * COUNT


def test_a_killed_worker_costs_what_it_had_under_way(workspace: Any, mock: Any, pool: Any, engine: list[str]) -> None:
    """The engine does its work again elsewhere, and what was answered is not asked again."""
    server = mock("-latency", "60")
    configure(workspace, server)
    started = workspace.start(*engine, *pool.flags())
    kill_its_worker(started, server, pool)
    ran = started.wait()

    assert ran.code == 0, ran.err
    assert is_whole(workspace)
    assert workspace.account()["ok"] == COUNT
    assert COUNT <= server.calls() <= COUNT + IN_FLIGHT
    assert "| replayed " in ran.out


def test_a_killed_launcher(workspace: Any, mock: Any, pool: Any, engine: list[str]) -> None:
    """The engine goes on without it. The next run ends that, and takes over what was answered."""
    server = mock("-latency", "60")
    configure(workspace, server)
    killed = workspace.start(*engine, *pool.flags(), KEPT)
    until_under_way(killed, server)
    killed.kill()
    ran = workspace.run(*engine, *pool.flags(), KEPT)

    assert ran.code == 0, ran.err
    assert ran.counts["recovered"] >= COUNT // 3 - IN_FLIGHT
    assert is_whole(workspace)
    assert server.calls() == COUNT


@pytest.mark.soak
def test_an_interrupt(workspace: Any, mock: Any, pool: Any, engine: list[str]) -> None:
    server = mock("-latency", "60")
    configure(workspace, server)
    started = workspace.start(*engine, *pool.flags(), KEPT)
    until_under_way(started, server)
    started.send(signal.SIGINT)
    interrupted = started.wait()

    assert interrupted.code == 130, interrupted.err
    assert interrupted.counts["ok"] == server.calls() < COUNT

    ran = workspace.run(*engine, *pool.flags(), KEPT)

    assert ran.code == 0, ran.err
    assert is_whole(workspace)
    assert server.calls() == COUNT


@pytest.mark.soak
@pytest.mark.flink
def test_a_killed_task_manager(workspace: Any, mock: Any, pool: Any, session: Any) -> None:
    """The job goes on where another one comes in its place. Its worker lives on for as long as its calls do."""
    server = mock("-latency", "60")
    configure(workspace, server)
    with session.task_manager() as first:
        started = workspace.start(*session.flags, *pool.flags())
        until_under_way(started, server)
        first.kill()
    with session.task_manager():
        ran = started.wait()

    assert ran.code == 0, ran.err
    assert is_whole(workspace)
    assert COUNT <= server.calls() <= COUNT + IN_FLIGHT
    assert "| replayed " in ran.out


@pytest.mark.soak
@pytest.mark.spark
def test_an_engine_that_gives_up_is_put_in_plain_words(workspace: Any, mock: Any, pool: Any, spark: list[str]) -> None:
    server = mock("-latency", "60")
    configure(workspace, server)
    started = workspace.start(*spark, *pool.flags(), KEPT)
    kill_its_worker(started, server, pool)
    broken = started.wait()

    assert broken.code == 1
    [said] = [line for line in broken.err.splitlines() if line.startswith("paidonce: ")]
    assert said.startswith("paidonce: the run broke: a worker process has ended (")

    ran = workspace.run(*spark, *pool.flags(), KEPT)

    assert ran.code == 0, ran.err
    assert is_whole(workspace)
    assert server.calls() <= COUNT + IN_FLIGHT


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        pytest.param(
            "flink", ["--runner=FlinkRunner", "--flink_master=[local]", "--parallelism=2"], marks=pytest.mark.flink
        ),
        pytest.param("spark", ["--runner=SparkRunner", "--spark_master_url=local[2]"], marks=pytest.mark.spark),
    ],
)
def test_the_runners_that_start_an_archive(
    workspace: Any, mock: Any, pool: Any, archive: Callable[[str], Path], name: str, flags: list[str]
) -> None:
    server = mock()
    configure(workspace, server)
    ran = workspace.run(*flags, f"--{name}_job_server_jar={archive(name)}", *pool.flags(), KEPT)

    assert ran.code == 0, ran.err
    assert is_whole(workspace)
    assert server.calls() == COUNT

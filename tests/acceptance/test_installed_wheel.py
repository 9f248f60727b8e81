"""Workers that are processes of an installed package, started from a folder of their own: what a cluster has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COUNT = 300


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment where this package is installed from its wheel. What it depends on is that of the
    environment that the tests run in."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = Path(__file__).resolve().parents[2]
    copy = folder / "source"  # building leaves files behind
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=source, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (source / name).is_file() and not name.startswith("tests/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((source / name).read_bytes())
    wheels = folder / "wheels"
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, copy], check=True)
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    [site] = environment.glob("lib/python*/site-packages")
    [wheel] = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


@pytest.fixture
def pool(installed: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a pool of workers, as Beam's containers and side-cars start them."""
    folder = tmp_path / "pool"
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{installed.parent}{os.pathsep}{environment['PATH']}"  # it starts workers by "python"
    found = subprocess.run(
        [installed, "-c", "import transforms; print(transforms.__file__)"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert str(installed.parents[1]) in found
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [installed, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    with (tmp_path / "pool.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(60)


def connects(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.prism
def test_an_external_pool_gives_the_same_results_as_this_process(
    workspace: Any, mock: Callable[..., Any], prism: list[str], pool: str
) -> None:
    server = mock()
    workspace.write_input(workspace.rows(COUNT), files=3)
    workspace.configure(server.url, input={"path": "../input"}, output={"path": "../here"})
    assert workspace.run().code == 0
    assert server.calls() == COUNT
    workspace.until(lambda: connects(pool), "the pool is there")

    flags = ["--runner=PrismRunner", *prism[1:], "--environment_type=EXTERNAL", f"--environment_config={pool}"]
    ran = workspace.run(*flags, "--output=../out")

    assert ran.code == 0, ran.err
    assert ran.counts["ok"] == COUNT
    assert answers(workspace, "out") == answers(workspace, "here")
    assert server.calls() == 2 * COUNT

    again = workspace.run(*flags, "--output=../out")

    assert again.code == 0, again.err
    assert again.counts["skipped"] == COUNT
    assert server.calls() == 2 * COUNT


def answers(workspace: Any, folder: str) -> list[tuple[Any, ...]]:
    workspace.output = workspace.folder / folder
    names = ("id", "label", "output_text", "model", "finish_reason", "prompt_tokens", "completion_tokens", "cost_usd")
    return sorted(tuple(row[name] for name in names) for row in workspace.results())


def test_the_sample_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    """It is found from any folder, and says what it would do."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [installed, "-m", "pipelines.classify", "--dry-run", "--limit", "1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "review" in ran.stdout

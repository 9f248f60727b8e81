"""What a cluster has: workers of an installed package, started by a pool, and the job servers of Flink and Spark.

FLINK_JARS and SPARK_JARS name folders with what job_servers.xml beside this file asks for, e.g.
`mvn -f job_servers.xml -P flink dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$FLINK_JARS`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.ports import free_port

SOURCE = Path(__file__).resolve().parents[3]
# What Flink and Spark reach into, and Java from 17 on keeps from them.
OPENED = [
    *(f"java.base/java.{name}" for name in ("io", "lang", "lang.invoke", "lang.reflect", "net", "nio", "util")),
    *(f"java.base/java.util.{name}" for name in ("concurrent", "concurrent.atomic")),
    *(f"java.base/sun.{name}" for name in ("nio.ch", "nio.cs", "security.action", "util.calendar")),
]
# What the README has users put into Flink's configuration. For the session cluster: what its installation would have
# brought.
RECIPE = (
    (SOURCE / "configs" / "engines" / "flink.yaml").read_text(encoding="utf-8").replace("delay: 10 s", "delay: 1 s")
)
SESSION = """\
jobmanager: {rpc: {address: 127.0.0.1, port: %(rpc)d}, bind-host: 127.0.0.1, memory: {process: {size: 1g}}}
rest: {address: 127.0.0.1, port: %(rest)d, bind-address: 127.0.0.1}
heartbeat: {interval: 1000, timeout: 8000}
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.cpu.cores: 1
taskmanager.memory:
  framework: {heap: {size: 128m}, off-heap: {size: 128m}}
  task: {heap: {size: 384m}, off-heap: {size: 64m}}
  network: {min: 128m, max: 128m}
  managed: {size: 64m}
  jvm-metaspace: {size: 128m}
  jvm-overhead: {min: 128m, max: 128m}
"""
MAIN = {
    "flink": "org.apache.beam.runners.flink.FlinkJobServerDriver",
    "spark": "org.apache.beam.runners.spark.SparkJobServerDriver",
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment where this package is installed from its wheel. What it depends on is that of the
    environment that the tests run in."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    copy = folder / "source"  # building leaves files behind
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=SOURCE, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (SOURCE / name).is_file() and not name.startswith("tests/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((SOURCE / name).read_bytes())
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


class Pool(NamedTuple):
    """A running pool of workers."""

    address: str
    process: subprocess.Popen[bytes]

    def is_there(self) -> bool:
        """Whether it can be asked for workers."""
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def workers(self) -> list[int]:
        """The processes that it has started and not ended."""
        task = Path(f"/proc/{self.process.pid}/task")
        return [int(pid) for children in task.glob("*/children") for pid in children.read_text().split()]

    def flags(self) -> list[str]:
        """Those that have an engine ask it for workers."""
        return ["--environment_type=EXTERNAL", f"--environment_config={self.address}"]


@pytest.fixture
def pool(installed: Path, tmp_path: Path, workspace: Any) -> Iterator[Pool]:
    """A pool of workers, as Beam's containers and side-cars start it."""
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
    port = free_port()
    command = [installed, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    with (tmp_path / "pool.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    started = Pool(f"127.0.0.1:{port}", process)
    workspace.until(started.is_there, "the pool is there")
    yield started
    for worker in started.workers():
        os.kill(worker, signal.SIGKILL)
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The flags that choose a Flink of our own, with four slots, which restarts what failed."""
    folder = tmp_path_factory.mktemp("flink")
    (folder / "config.yaml").write_text(RECIPE, encoding="utf-8")
    with job_server("flink", folder, ["--flink-master=[local]", f"--flink-conf-dir={folder}"]) as flags:
        yield [*flags, "--parallelism=4"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The flags that choose a Spark of our own, with four slots, which tries a task four times."""
    with job_server("spark", tmp_path_factory.mktemp("spark"), ["--spark-master-url=local[4,4]"]) as flags:
        yield flags


class Session(NamedTuple):
    """A session cluster of Flink."""

    flags: list[str]
    task_manager: Callable[[], Any]  # one more, while a block lasts


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session cluster that has no task manager yet: each program is a process of its own."""
    folder = tmp_path / "flink"
    folder.mkdir()
    rest = free_port()
    (folder / "config.yaml").write_text(RECIPE + SESSION % {"rpc": free_port(), "rest": rest}, encoding="utf-8")
    runtime, configured = "org.apache.flink.runtime", ["--configDir", str(folder)]
    job_manager = java("flink", f"{runtime}.entrypoint.StandaloneSessionClusterEntrypoint", folder, configured)
    with job_manager, job_server("flink", folder, [f"--flink-master=127.0.0.1:{rest}"]) as flags:
        yield Session(
            [*flags, "--parallelism=4"],
            lambda: java("flink", f"{runtime}.taskexecutor.TaskManagerRunner", folder, configured),
        )


@contextmanager
def job_server(engine: str, folder: Path, flags: Iterable[str]) -> Iterator[list[str]]:
    """A job server with its engine inside, while the block lasts: the flags that choose it."""
    port = free_port()
    ports = f"--job-port={port}", "--artifact-port=0", "--expansion-port=-1"
    with java(engine, MAIN[engine], folder, [*ports, *flags, f"--artifacts-dir={folder / 'artifacts'}"]):
        yield ["--runner=PortableRunner", f"--job_endpoint=127.0.0.1:{port}", "--job-server-timeout=120"]


@contextmanager
def java(engine: str, main: str, folder: Path, flags: Iterable[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program of an engine, while the block lasts."""
    command = [
        shutil.which("java") or pytest.skip("there is no Java"),
        "-Xmx1g",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
        *("-Dspark.ui.enabled=false", "-Dspark.driver.host=127.0.0.1", "-Dspark.driver.bindAddress=127.0.0.1"),
        *("-cp", f"{jars(engine)}/*", main, *flags),
    ]
    with (folder / f"{main.rpartition('.')[2]}.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def jars(engine: str) -> Path:
    """The folder with an engine and its job server."""
    variable = f"{engine.upper()}_JARS"
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no folder with jars")
    return Path(folder)


@pytest.fixture
def archive(tmp_path: Path) -> Callable[[str], Path]:
    """Makes what Beam starts as a job server of its own: an archive that refers to the jars."""

    def make(engine: str) -> Path:
        path = " ".join(jar.as_uri() for jar in sorted(jars(engine).glob("*.jar")))
        lines = (
            "Manifest-Version: 1.0",
            f"Main-Class: {MAIN[engine]}",
            f"Add-Opens: {' '.join(OPENED)}",
            f"Class-Path: {path}",
        )
        folded = ("\n ".join(textwrap.wrap(line, 70, drop_whitespace=False, break_on_hyphens=False)) for line in lines)
        made = tmp_path / "job-server.jar"
        with zipfile.ZipFile(made, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "\n".join(folded) + "\n")
        return made

    return make

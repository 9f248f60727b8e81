"""A disk that fills up in mid-run: no answer is lost, none is paid for twice. On a small tmpfs of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COUNT = 2000
IN_FLIGHT = 8


class Disk:
    """A file system of so many bytes."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        path.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs")

    def grow(self, size: int) -> None:
        """Makes it so many bytes large."""
        self._mount("-o", f"remount,size={size}")

    def fill(self, free: int) -> None:
        """Leaves so many bytes free."""
        (self.path / "ballast").write_bytes(bytes(max(0, shutil.disk_usage(self.path).free - free)))

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(self.path)], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Disk]]:
    """Makes a disk of so many bytes."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system takes root")
    made: list[Disk] = []

    def make(size: int) -> Disk:
        try:
            made.append(Disk(tmp_path / "disk", size))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"a small file system cannot be mounted here: {error.stderr.decode().strip()}")
        return made[-1]

    yield make
    for each in made:
        each.unmount()


def prepare(workspace: Any, server: Any, output: Path, **output_settings: Any) -> None:
    workspace.output = output
    workspace.write_input(workspace.rows(COUNT), files=3)
    limits = {"max_in_flight": IN_FLIGHT}
    workspace.configure(server.url, limits=limits, output={"path": str(output), **output_settings})


def journalled(workspace: Any) -> list[str]:
    """The ids in journals, of lines that are whole; none is torn."""
    lines = [
        line for file in workspace.output.glob("journal/*/*.jsonl") for line in file.read_bytes().split(b"\n") if line
    ]
    return sorted(json.loads(line)["row"]["id"] for line in lines)


def check_broken(ran: Any, output: Path) -> None:
    assert ran.code == 1, ran.err
    said = [line for line in ran.err.splitlines() if line.startswith("paidonce: ")]
    assert len(said) == 1
    assert f"the disk of {output} is full" in said[0]
    assert "Traceback" not in ran.err + ran.out


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_disk_that_fills_up(workspace: Any, mock: Any, disk: Any, runner: list[str], kind: str) -> None:
    """Whether it is the journal or a shard that finds no more room."""
    server, small = mock("-latency", "2"), disk(1 << 20)
    prepare(workspace, server, small.path / "out", format=kind)

    full = workspace.run(*runner)

    check_broken(full, workspace.output)
    workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done")
    paid = server.stats()["answered_prompts"]
    assert 0 < paid < COUNT
    ids = journalled(workspace)
    assert len(ids) == len(set(ids)) == paid
    assert server.calls() == paid

    still_full = workspace.run(*runner)  # where there is no room to publish, there is none to go on

    if still_full.code:
        check_broken(still_full, workspace.output)
    small.grow(32 << 20)
    rest = workspace.run(*runner)

    assert rest.code == 0, rest.err
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert (server.calls(), server.stats()["paid_twice_calls"]) == (COUNT, 0)
    assert not list(workspace.output.glob("journal/*"))


def test_no_room_for_a_reserve_is_found_out_before_a_call(workspace: Any, mock: Any, disk: Any) -> None:
    server, small = mock(), disk(1 << 20)
    prepare(workspace, server, small.path / "out")
    small.fill(128 << 10)

    full = workspace.run()

    check_broken(full, workspace.output)
    assert server.calls() == 0
    (small.path / "ballast").unlink()
    small.grow(32 << 20)
    assert workspace.run().code == 0
    assert server.calls() == COUNT


def test_an_output_that_is_removed_in_mid_run(workspace: Any, mock: Any) -> None:
    server = mock("-latency", "20")
    workspace.write_input(workspace.rows(COUNT), files=3)
    workspace.configure(server.url)
    started = workspace.start()
    started.until(lambda: workspace.journal_lines() > 50, "50 answers are journalled")
    # At once: a folder that is written to meanwhile cannot be emptied.
    shutil.rmtree(workspace.output.rename(workspace.folder / "removed"))
    ran = started.wait()

    assert ran.code == 1, ran.err
    [said] = [line for line in ran.err.splitlines() if line.startswith("paidonce: ")]
    assert str(workspace.output) in said
    assert "Traceback" not in ran.err + ran.out
    assert server.calls() < COUNT // 2
    assert not workspace.output.exists()

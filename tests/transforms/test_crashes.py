"""Publishing is cut short at every step, as by kill -9, and the next launch makes it whole.

A crash is an exception that nobody catches, raised before the n-th operation that changes the file system or the
store. Before each operation a reader looks at what is published, as he could at any time.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from transforms import files
from transforms.commit import publish
from transforms.layout import Layout
from transforms.recover import finish_commits, interrupted_runs, recover, write_header
from transforms.shards import Roll, ShardFormat

EARLIER, RUN = "20260101T000000-aaaaaa", "20260102T000000-bbbbbb"
ANSWERED = ["old-1", "old-2", "again", "new-1", "new-2", "new-3"]
MOST = 200  # operations: more than there are


class Crash(BaseException):
    """The process is gone."""


class Disk:
    """Lets so many operations happen, then crashes. `look` is called before each."""

    def __init__(self, patch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
        self._look = look
        self._left = MOST
        for owner, name in (
            (files, "create"),
            (os, "replace"),
            (os, "remove"),
            (os, "unlink"),
            (os, "rmdir"),
            (os, "makedirs"),
        ):
            patch.setattr(owner, name, self._watched(getattr(owner, name)))
        request = BaseClient._make_api_call
        change = self._watched(request)

        def call(client: Any, operation: str, arguments: Any) -> Any:
            changes = operation.startswith(("Put", "Copy", "Delete", "Complete"))
            return (change if changes else request)(client, operation, arguments)

        patch.setattr(BaseClient, "_make_api_call", call)

    def run(self, action: Callable[[], None], operations: int) -> bool:
        """Whether `action` came to its end within so many operations."""
        self._left = operations
        try:
            action()
        except Crash:
            return False
        finally:
            self._left = MOST
        return True

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            self._look()
            if self._left == 0:
                raise Crash
            self._left -= 1
            return function(*args, **more)

        return step


class Output:
    """An output directory with an earlier run's files, and a run that has answered all its rows."""

    def __init__(self, root: Path, make: Any, name: str) -> None:
        self.layout = Layout(str(root))
        self.make = make
        self._seen: dict[Any, list[dict[str, Any]]] = {}
        earlier = f"{EARLIER}-00000-of-00001"
        old = [make.result(id, run_id=EARLIER) for id in ("old-1", "old-2")]
        if name == "parquet":
            make.parquet(Path(self.layout.results, f"{earlier}.parquet"), old)
        else:
            make.jsonl(Path(self.layout.results, f"{earlier}.jsonl"), old)
        failed = [make.failure("again"), make.failure("stays", "refusal"), make.failure("empty", "empty_input")]
        make.jsonl(Path(self.layout.failures, f"{earlier}.jsonl"), [{**row, "run_id": EARLIER} for row in failed])

        self._shards = ShardFormat(name, 2, make.schema() if name == "parquet" else None)
        header = {"run_id": RUN, "started_at": "s", "config": {}, "task_hash": "h", "task": {}}
        write_header(self.layout, header, self._shards)
        self._ok = [make.result(id, run_id=RUN) for id in ("again", "new-1", "new-2", "new-3")]
        self._failed = [make.failure("fails", run_id=RUN)]
        folder = Path(self.layout.journal(RUN))
        make.journal(folder / "000000-00000000000-a.jsonl", self._ok[:2])
        make.journal(folder / "000001-00000000000-b.jsonl", [*self._ok[2:], *self._failed])

    def publish(self) -> None:
        """The last step of the run."""
        staged = []
        for rows, shards in ((self._ok, self._shards), (self._failed, ShardFormat("jsonl", 10))):
            roll = Roll(shards, self.layout.staging(RUN))
            for row in rows:
                roll.write(row)
            roll.close()
            staged.append(roll.finished)
        prior = self.layout.shards(self.layout.failures)
        publish(self.layout, RUN, *staged, prior, {"run_id": RUN, "ok": 4, "failed": 1})

    def launch(self) -> None:
        """What the next launch does before its own run."""
        finish_commits(self.layout)
        for run_id in interrupted_runs(self.layout):
            recover(self.layout, run_id)

    def look(self) -> None:
        """What a reader sees is whole, of one generation, with each id once."""
        results, failures = self._published(self.layout.results), self._published(self.layout.failures)
        ids = [row["id"] for row in results]
        assert len(ids) == len(set(ids))
        assert set(ids) <= set(ANSWERED)
        assert {"old-1", "old-2"} <= set(ids)
        failed = [row["id"] for row in failures]
        assert len(failed) == len(set(failed))
        assert not set(failed) & set(ids)

    def check(self) -> None:
        """All is done."""
        self.look()
        assert sorted(row["id"] for row in self._published(self.layout.results)) == sorted(ANSWERED)
        failures = self._published(self.layout.failures)
        assert sorted((row["id"], row["reason"], row["run_id"]) for row in failures) == [
            ("fails", "timeout", RUN),
            ("stays", "refusal", EARLIER),
        ]
        (path,) = self.layout.accounts()
        account = files.read_json(path)
        assert (account["run_id"], account["ok"], account["failed"]) == (RUN, 4, 1)
        for folder in (self.layout.stages, self.layout.journals):
            assert files.subfolders(folder) == []
        names = [files.name(info.path) for info in files.listing(self.layout.results)]
        assert len(names) == 3
        assert not [name for name in names if name.endswith(".part")]

    def _published(self, folder: str) -> list[dict[str, Any]]:
        """The rows of all files, each file read once: whole files appear, disappear and never change."""
        found: list[dict[str, Any]] = []
        for path in Path(folder).glob("*"):
            key = path, path.stat().st_ino, path.stat().st_mtime_ns
            if key not in self._seen:
                self._seen[key] = self.make.rows(path)
            found += self._seen[key]
        return found


class StoreOutput(Output):
    """The same in a bucket."""

    def __init__(self, root: Path, make: Any, name: str, s3: Any) -> None:
        super().__init__(root, make, name)
        for path in root.rglob("*"):
            if path.is_file():
                s3.put(f"{root.name}/{path.relative_to(root)}", path.read_bytes())
        self._local = root / "copy"
        self.layout = Layout(f"{s3.root}/{root.name}")

    def _published(self, folder: str) -> list[dict[str, Any]]:
        """The rows of all objects, each read once: no object changes under its name."""
        found: list[dict[str, Any]] = []
        for info in files.listing(folder):
            if info not in self._seen:
                with files.open_read(info.path) as stream:
                    self._local.write_bytes(stream.read())
                self._seen[info] = [json.loads(line) for line in self._local.read_bytes().splitlines()]
            found += self._seen[info]
        return found


@pytest.fixture
def outputs(tmp_path: Path, make: Any) -> Callable[[str], Output]:
    """Makes output directories."""
    numbers: Iterator[int] = iter(range(10**6))
    return lambda name: Output(tmp_path / str(next(numbers)), make, name)


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
@pytest.mark.parametrize("step", ["publish", "launch"])
def test_cut_short_at_every_step(outputs: Callable[[str], Output], name: str, step: str) -> None:
    """`publish`: a run's own last step is cut. `launch`: that of a run that never got there is."""
    for operations in range(MOST):
        output = outputs(name)
        with pytest.MonkeyPatch.context() as patch:
            ended = Disk(patch, output.look).run(getattr(output, step), operations)
            output.launch()
        output.check()
        if ended:
            break
    assert 15 < operations < MOST


def test_cut_short_twice(outputs: Callable[[str], Output]) -> None:
    """The launch that makes it whole is cut short too. Every third step of both: the rest would cost many seconds."""
    for first in range(0, MOST, 3):
        for second in range(0, MOST, 3):
            output = outputs("jsonl")
            with pytest.MonkeyPatch.context() as patch:
                disk = Disk(patch, output.look)
                published = disk.run(output.publish, first)
                recovered = disk.run(output.launch, second)
                output.launch()
            output.check()
            if recovered:
                break
        if published:
            break
    assert first > 15


def test_the_last_step_is_done_again_after_a_cut(outputs: Callable[[str], Output]) -> None:
    """An engine that repeats the step that publishes, without a launch in between."""
    for operations in range(MOST):
        output = outputs("jsonl")
        with pytest.MonkeyPatch.context() as patch:
            ended = Disk(patch, output.look).run(output.publish, operations)
            output.publish()
            output.launch()
        output.check()
        if ended:
            break
    assert operations > 15


@pytest.mark.parametrize("step", ["publish", "launch"])
def test_cut_short_at_every_step_on_a_store(tmp_path: Path, make: Any, s3: Any, step: str) -> None:
    """There a move is a copy and then a removal, and a folder goes object by object."""
    for operations in range(MOST):
        output = StoreOutput(tmp_path / str(operations), make, "jsonl", s3)
        with pytest.MonkeyPatch.context() as patch:
            ended = Disk(patch, output.look).run(getattr(output, step), operations)
            output.launch()
        output.check()
        if ended:
            break
    assert 12 < operations < MOST

"""Builders of the things that travel through the graph, and a model client that lives in memory."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline

from transforms import workers
from transforms.call import CallModel
from transforms.call_spec import CallSpec
from transforms.csv_file import read_csv
from transforms.digests import digest
from transforms.done_digests import PARTITIONS, DonePacker
from transforms.journal import HEADER_FILE, Entry, encode, read
from transforms.llm import endpoint
from transforms.llm.completion import Completion, Usage
from transforms.llm.prompt import Prompt
from transforms.records import Record
from transforms.rows import RunStamp, failure_row, result_schema
from transforms.scratch import Part, Scratch
from transforms.settings import Input, Limits, Model, Task

CASES = Path(__file__).parents[3] / "shared" / "cases" / "inputs"
STAMP = RunStamp("20260101T000000-abcdef", "0123456789abcdef")
FINISHED_AT = "2026-01-31T08:00:00.123Z"

_run_numbers = itertools.count()


class Make:
    """Builds records, rows, files. Here, so that tests need no import from this file."""

    stamp = STAMP
    finished_at = FINISHED_AT

    @staticmethod
    def record(id: str = "a", position: int = 0, span: str = "000000-00000000000", **fields: Any) -> Record:
        return Record(id, {"id": id, **fields}, "in.jsonl", position, span)

    @staticmethod
    def result(id: str, **changes: Any) -> dict[str, Any]:
        """A result row."""
        row = {
            "id": id,
            "output_text": f"answer to {id}",
            "model": "m-1",
            "finish_reason": "stop",
            "prompt_tokens": 20,
            "completion_tokens": 5,
            "cached_tokens": None,
            "cost_usd": 0.25,
            "attempts": 1,
            "latency_ms": 12.5,
            "run_id": STAMP.run_id,
            "task_hash": STAMP.task_hash,
            "finished_at": FINISHED_AT,
        }
        return {**row, **changes}

    @staticmethod
    def failure(id: str | None, reason: str = "timeout", **changes: Any) -> dict[str, Any]:
        """A failure row."""
        known: dict[str, Any] = {
            "message": "no",
            "input": {"id": id},
            "source": {"file": "in.jsonl", "position": 0},
            "retryable": reason == "timeout",
            "attempts": 1,
        }
        run_id = changes.pop("run_id", STAMP.run_id)
        return failure_row(RunStamp(run_id, STAMP.task_hash), id=id, reason=reason, **{**known, **changes})

    @staticmethod
    def entry(row: dict[str, Any]) -> Entry:
        """The journal entry of a result or failure row."""
        return Entry(digest(row["id"]), "dead_letter" if "reason" in row else "ok", row)

    @staticmethod
    def done(folder: Path, *ids: str) -> list[Part]:
        """The parts that hold done ids, two of them where there are several ids."""
        folder.mkdir(parents=True, exist_ok=True)
        parts = []
        for some in (ids[::2], ids[1::2]):
            packer = DonePacker()
            for identifier in some:
                packer.add(digest(identifier))
            parts.append(Scratch(str(folder), of_run=False).write(packer.take(), PARTITIONS))
        return [part for part in parts if part is not None]

    @staticmethod
    def journal(path: Path | str, rows: Iterable[dict[str, Any]], tail: bytes = b"") -> Path:
        """A journal file with whole lines, and something after them."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(encode(Make.entry(row)) for row in rows) + tail)
        return path

    @staticmethod
    def jsonl(path: Path, rows: Iterable[Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    @staticmethod
    def parquet(path: Path, rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return path

    @staticmethod
    def schema() -> pa.Schema:
        return result_schema({}, {})

    @staticmethod
    def rows(path: Path | str) -> list[dict[str, Any]]:
        """The rows of a shard, Parquet, JSONL or CSV (its cells as text)."""
        if str(path).endswith(".parquet"):
            return list(pq.read_table(path).to_pylist())
        if str(path).endswith(".csv"):
            with Path(path).open("rb") as stream:
                table = read_csv(stream)
                return [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
        return [json.loads(line) for line in Path(path).read_bytes().split(b"\n") if line]


@pytest.fixture
def make() -> type[Make]:
    return Make


@pytest.fixture
def pipeline() -> Callable[[], TestPipeline]:
    """Makes pipelines for the runner that works in this process."""
    return lambda: TestPipeline(runner=FnApiRunner())


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of inputs that public bug reports made us collect; beside the repository, not in it."""
    if not CASES.is_dir():
        pytest.skip(f"the collected inputs are not there: {CASES}")
    return CASES


class FakeModel:
    """A model in memory that answers `echo <prompt>`. What `behave` returns or raises goes before that. Notes every
    prompt and the most calls that were under way at once."""

    def __init__(self) -> None:
        self.behave: Callable[[str], Completion | None] = lambda _prompt: None
        self.prompts: list[str] = []
        self.most = 0
        self.closed = 0
        self._under_way = 0
        self._lock = threading.Lock()

    @staticmethod
    def completion(text: str) -> Completion:
        return Completion(text, "m-1", "stop", Usage(20, 5, None))

    def complete(self, prompt: Prompt) -> Completion:
        user = json.loads(prompt.messages)[-1]["content"]
        with self._lock:
            self.prompts.append(user)
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        try:
            return self.behave(user) or self.completion(f"echo {user}")
        finally:
            with self._lock:
                self._under_way -= 1

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeModel]:
    """Takes the place of every client that the calling step connects to."""
    fake = FakeModel()
    monkeypatch.setattr(endpoint, "connect", lambda *_settings, **_more: fake)
    yield fake
    workers.close_all()  # of runs that a test broke on purpose


@pytest.fixture
def call_spec(tmp_path: Path) -> Callable[..., CallSpec]:
    """Makes the settings of a run of its own, whose journal is open."""

    def make_spec(**changes: Any) -> CallSpec:
        run_id = f"20260101T000000-{next(_run_numbers):06x}"
        folder = tmp_path / "journal" / run_id
        folder.mkdir(parents=True)
        (folder / HEADER_FILE).write_text("{}")
        known: dict[str, Any] = {
            "task": Task(prompt="{id}"),
            "input": Input(path="in.jsonl"),
            "model": Model(provider="openai", name="m"),
            "limits": Limits(max_attempts=1),
            "max_in_flight": 4,
            "carried": {},
            "stamp": RunStamp(run_id, STAMP.task_hash),
            "journal": str(folder),
        }
        return CallSpec(**{**known, **changes})

    return make_spec


class Step:
    """The calling step, driven by hand for one bundle after the other."""

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.step = CallModel(spec)
        self.step.setup()

    def __call__(self, records: list[Record]) -> dict[str, dict[str, Any]]:
        """The rows of a bundle by id; each is there once."""
        self.step.start_bundle()
        items = [item for record in records for item in self.step.process(record)]
        items += self.step.finish_bundle()
        rows = self.plain(items)
        self.tally = rows.pop()
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows)
        return found

    @staticmethod
    def plain(items: Iterable[Any]) -> list[dict[str, Any]]:
        """Elements without their windows and tags."""
        found = []
        for item in items:
            while hasattr(item, "value"):
                item = item.value
            found.append(item)
        return found

    def journal(self) -> list[str]:
        """The ids in its journal, sorted."""
        paths = Path(self.spec.journal).glob("*.jsonl")
        return sorted(entry.row["id"] for path in paths for entry in read(str(path)) if entry is not None)


@pytest.fixture
def drive() -> Iterator[Callable[[CallSpec], Step]]:
    """Sets calling steps up; those with the same spec are of one process."""
    made: list[Step] = []

    def make_step(spec: CallSpec) -> Step:
        made.append(Step(spec))
        return made[-1]

    yield make_step
    for each in made:
        each.step.teardown()

"""An engine that executes again: the same graph, submitted anew after a fault, pays for nothing that it has.

The graph is built twice and more from one RunSpec, in this process, as an engine that restarts a job does.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.config import load
from pipelines.earlier_runs import new_run_id
from pipelines.graph import RunSpec, build
from pipelines.options import parse
from pipelines.prepare import prepare
from pipelines.run_spec import make_spec
from transforms import journal, write
from transforms.call import CallModel
from transforms.formats.spans import Reading, Span
from transforms.layout import Layout
from transforms.read import read_records
from transforms.recover import write_header

# Beam's own, and those of its threads when the bundle that they serve breaks.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

COUNT = 240
PATIENCE = 120.0  # seconds, for what comes unless something is broken
IN_FLIGHT = 8
ONE_WORKER: list[str] = []
THREE_WORKERS = ["--direct_num_workers=3", "--direct_running_mode=multi_threading"]


@pytest.fixture(autouse=True)
def _files_of_broken_bundles() -> Iterator[None]:
    """They are closed when they are collected: here, and not with a warning in whichever test comes later."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture
def spec(workspace: Any, own_server: Any) -> RunSpec:
    """A run of COUNT rows in 4 files and some more spans, whose journal is open."""
    workspace.write_input(workspace.rows(COUNT), files=4)
    workspace.configure(own_server.url, limits={"max_in_flight": IN_FLIGHT})
    options = parse([], prog="p", description="", default_config=str(workspace.config))
    settings = load(options.config)
    layout = Layout(settings.output.path)
    made = make_spec(settings, options, layout, prepare(settings, {}), [], new_run_id(layout))
    made = replace(made, span_bytes=1500)
    write_header(layout, made.header, made.shards)
    return made


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the writer of results break at the n-th row from now, in the middle of a bundle; 0: never."""
    process, lock, left = write._WriteBundle.process, threading.Lock(), [0]

    def faulty(self: Any, row: Any) -> None:
        if self._kind == "ok":
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    raise RuntimeError("a fault of the machine")
        process(self, row)

    monkeypatch.setattr(write._WriteBundle, "process", faulty)
    return lambda rows: left.__setitem__(0, rows)


def submit(spec: RunSpec, flags: list[str]) -> None:
    pipeline = beam.Pipeline("FnApiRunner", options=PipelineOptions(flags))
    build(pipeline, spec)
    pipeline.run().wait_until_finish()


@pytest.mark.parametrize(
    "workers",
    [[ONE_WORKER] * 4, [ONE_WORKER, THREE_WORKERS, ONE_WORKER, THREE_WORKERS]],
    ids=["same-bundles", "other-bundles"],
)
def test_three_faults_and_then_none(
    workspace: Any, own_server: Any, spec: RunSpec, fault: Callable[[int], None], workers: list[list[str]]
) -> None:
    answered = 0
    for rows, flags in zip([60, 90, 150], workers, strict=False):
        fault(rows)
        with pytest.raises(Exception, match="a fault of the machine"):
            submit(spec, flags)
        assert own_server.answered.total() >= answered
        answered = own_server.answered.total()
        assert not list(workspace.output.glob("results/*"))

    fault(0)
    submit(spec, workers[-1])

    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    account = workspace.account()
    assert (account["total"], account["ok"], account["calls"]) == (COUNT, COUNT, COUNT)
    assert set(own_server.requests) == {row["id"] for row in workspace.rows(COUNT)}
    # The pool ends with its last bundle, after the calls under way: not even these are made again.
    assert set(own_server.requests.values()) == {1}
    assert not list(workspace.output.glob("journal/*"))
    assert not list(workspace.output.glob("staging/*"))


def test_a_run_that_was_broken_for_good_is_published_by_the_next(
    workspace: Any, own_server: Any, spec: RunSpec, fault: Callable[[int], None]
) -> None:
    fault(100)
    with pytest.raises(Exception, match="a fault of the machine"):
        submit(spec, ONE_WORKER)
    answered = own_server.answered.total()
    assert workspace.journal_lines() == answered

    ran = workspace.run()

    assert ran.code == 0, ran.err
    assert (ran.counts["recovered"], ran.counts["ok"]) == (answered, COUNT - answered)
    assert set(own_server.requests.values()) == {1}
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]


def test_a_graph_that_is_executed_again_after_it_was_published(workspace: Any, own_server: Any, spec: RunSpec) -> None:
    """An engine may lose the news that the last step was done, and restart the job: nothing may be paid again."""
    submit(spec, ONE_WORKER)
    before = workspace.tree()

    submit(spec, ONE_WORKER)

    assert own_server.calls == COUNT
    assert {name: value for name, value in workspace.tree().items() if "/journal/" not in name} == before
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert ran.counts["skipped"] == COUNT
    assert own_server.calls == COUNT
    assert not list(workspace.output.glob("journal/*"))


def test_a_bundle_that_is_repeated_while_its_calls_are_under_way(
    workspace: Any, own_server: Any, spec: RunSpec
) -> None:
    """In a worker process that goes on, beside another bundle: what is in flight is joined."""
    file = spec.inputs[0]
    span = Span(file.path, file.number, 0, file.size)
    records = list(read_records(span, Reading()))[: 2 * IN_FLIGHT - 1]
    own_server.gate.clear()
    neighbour, broken, repeated = CallModel(spec.call), CallModel(spec.call), CallModel(spec.call)
    neighbour.setup()
    broken.setup()
    broken.start_bundle()
    for record in records:
        assert list(broken.process(record)) == []
    workspace.until(lambda: own_server.in_flight == IN_FLIGHT, "all threads are calling")
    broken.teardown()

    repeated.setup()
    repeated.start_bundle()
    for record in records:
        assert list(repeated.process(record)) == []
    own_server.gate.set()
    rows = [item.value for item in repeated.finish_bundle()]
    repeated.teardown()
    neighbour.teardown()

    assert sorted(row["id"] for row in rows if isinstance(row, dict) and "id" in row) == [r.id for r in records]
    assert set(own_server.requests.values()) == {1}


# One of two worker processes at the same spans, as an engine has them where it took one for lost: it calls for all
# records of a run, a span a bundle, begins with the span of that number, and says how many rows it had.
TWIN = """
import pickle, sys
from transforms.call import CallModel
from transforms.read import read_records, split
spec = pickle.loads(open(sys.argv[1], "rb").read())
spans = [span for item in spec.inputs for span in split(item, spec.span_bytes, spec.reading)]
first = int(sys.argv[2]) % len(spans)
step, rows = CallModel(spec.call), set()
step.setup()
for span in spans[first:] + spans[:first]:
    step.start_bundle()
    items = [item for record in read_records(span, spec.reading) for item in step.process(record)]
    for item in [*items, *step.finish_bundle()]:
        while hasattr(item, "value"):  # its window, its tag
            item = item.value
        rows.update([item["id"]] if "id" in item else [])
step.teardown()
print(len(rows))
"""


@pytest.fixture
def twin(workspace: Any, spec: RunSpec) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts worker processes on the run's journal, each at the span given."""
    path = workspace.folder / "spec.pickle"
    path.write_bytes(pickle.dumps(spec))
    started: list[subprocess.Popen[str]] = []

    def start(first: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", TWIN, str(path), str(first)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def test_a_process_that_hangs_and_another_pay_once(
    workspace: Any, own_server: Any, twin: Callable[..., subprocess.Popen[str]]
) -> None:
    go, held = threading.Event(), threading.Event()

    def hold_the_first(_row: str, _number: int) -> Any:
        if not held.is_set():
            assert go.wait(PATIENCE)
        return own_server.answer()

    own_server.script = hold_the_first
    slow = twin()
    workspace.until(lambda: own_server.in_flight == IN_FLIGHT, "all its threads call")
    held.set()
    fast = twin(1)
    # All but what the other has in flight, or in its window, which is twice as much.
    workspace.until(lambda: own_server.answered.total() >= COUNT - 2 * IN_FLIGHT, "the other does the rest")
    go.set()
    for each in (slow, fast):
        assert each.communicate(timeout=PATIENCE)[0].strip() == str(COUNT)

    assert set(own_server.requests) == {row["id"] for row in workspace.rows(COUNT)}
    assert set(own_server.requests.values()) == {1}


def test_one_of_two_processes_is_killed_and_three_come_after_it(
    workspace: Any, own_server: Any, spec: RunSpec, twin: Callable[..., subprocess.Popen[str]]
) -> None:
    killed, goes_on = twin(), twin(3)
    workspace.until(lambda: own_server.answered.total() >= COUNT // 4, "some rows are answered")
    killed.kill()
    killed.wait()
    assert goes_on.communicate(timeout=PATIENCE)[0].strip() == str(COUNT)
    calls = own_server.calls
    assert calls - COUNT <= IN_FLIGHT  # of the one that was killed

    for again in [twin(), twin(2), twin()]:
        assert again.communicate(timeout=PATIENCE)[0].strip() == str(COUNT)
    submit(spec, ONE_WORKER)

    assert own_server.calls == calls
    assert workspace.ids() == [row["id"] for row in workspace.rows(COUNT)]
    assert workspace.account()["ok"] == COUNT


def test_replayed_failures_stay_failures(
    workspace: Any, own_server: Any, spec: RunSpec, fault: Callable[[int], None]
) -> None:
    filtered = {row["id"] for row in workspace.rows(COUNT)[::10]}
    own_server.script = lambda row, _number: (
        own_server.error(400, "filtered", "content_filter") if row in filtered else own_server.answer()
    )
    fault(150)
    with pytest.raises(Exception, match="a fault of the machine"):
        submit(spec, THREE_WORKERS)
    entries = [
        json.loads(line)["outcome"]
        for file in workspace.output.glob("journal/*/*.jsonl")
        for line in file.read_text(encoding="ascii").splitlines()
    ]
    assert {journal.OK, journal.DEAD_LETTER} == set(entries)

    fault(0)
    submit(spec, ONE_WORKER)

    assert {row["id"] for row in workspace.failures()} == filtered
    assert len(workspace.ids()) == COUNT - len(filtered)
    assert workspace.account()["failures_by_reason"] == {"content_filter": len(filtered)}
    assert set(own_server.requests.values()) == {1}

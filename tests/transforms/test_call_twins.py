"""Two instances of the calling step at the same records at once, with a model in memory: each record is asked once."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from transforms import claims
from transforms.call_spec import CallSpec
from transforms.digests import digest
from transforms.journal import JournalFile
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, RowError
from transforms.record_locks import RecordLocks
from transforms.records import Record
from transforms.settings import Limits, Model, Price, Task

WAIT = 30  # seconds: for what comes at once, unless something is broken
PRICED = Model(provider="openai", name="m", price=Price(input=1, output=2))
Row = dict[str, Any]


@pytest.fixture
def records(make: Any) -> Callable[..., list[Record]]:
    """So many records, with the ids "0", "1", ..., whose texts are among so many."""
    return lambda count, texts=1000: [make.record(str(n), n, text=f"text {n % texts}") for n in range(count)]


@pytest.fixture
def together() -> Iterator[Callable[..., list[Any]]]:
    """Runs functions at once, and gives what they return."""
    with ThreadPoolExecutor(4) as pool:

        def run(*functions: Callable[[], Any]) -> list[Any]:
            begin = threading.Barrier(len(functions))

            def started(function: Callable[[], Any]) -> Any:
                begin.wait(WAIT)
                return function()

            return [future.result(WAIT) for future in [pool.submit(started, function) for function in functions]]

        yield run


def begin(step: Any, records: list[Record]) -> None:
    """Begins a bundle and leaves it there, as an engine does with one that breaks."""
    step.step.start_bundle()
    for record in records:
        assert list(step.step.process(record)) == []


def nobody_waits(spec: CallSpec) -> bool:
    return not claims.of_run(spec.journal)._waiting


def test_two_at_once(model: Any, call_spec: Any, drive: Any, records: Any, together: Any) -> None:
    spec = call_spec(model=PRICED)
    steps = [drive(spec), drive(spec), drive(spec)]
    found = together(*(lambda step=step: step(records(60)) for step in steps))
    assert found[0] == found[1] == found[2]
    assert set(Counter(model.prompts).values()) == {1}
    assert steps[0].journal() == sorted(found[0])
    assert all(row["attempts"] == 1 and row["cost_usd"] > 0 for row in found[1].values())
    assert [step.tally for step in steps] == [{"unprocessed": 0}] * 3
    assert nobody_waits(spec)


def test_what_is_under_way_is_joined(model: Any, call_spec: Any, drive: Any, records: Any) -> None:
    """The first bundle broke; its calls go on, and what waits for its turn behind them is asked by the second."""
    go, two = threading.Event(), threading.Barrier(3)

    def behave(prompt: str) -> None:
        if prompt in "01":
            two.wait(WAIT)
            assert go.wait(WAIT)

    model.behave = behave
    spec = call_spec(max_in_flight=2)
    broken, repeated = drive(spec), drive(spec)
    begin(broken, records(3))
    two.wait(WAIT)
    begin(repeated, records(3))
    broken.step._window.open = False
    go.set()
    rows = repeated.plain(repeated.step.finish_bundle())[:-1]
    assert sorted(row["id"] for row in rows) == ["0", "1", "2"]
    assert sorted(model.prompts) == ["0", "1", "2"]
    assert repeated.journal() == ["0", "1", "2"]
    assert nobody_waits(spec)


def test_the_pool_of_the_broken_bundle_ends_meanwhile(
    model: Any, call_spec: Any, drive: Any, records: Any, together: Any
) -> None:
    """What its threads do not begin any more is asked by those of the next."""
    go, one = threading.Event(), threading.Barrier(2)

    def behave(prompt: str) -> None:
        if prompt == "0":
            one.wait(WAIT)
            assert go.wait(WAIT)

    model.behave = behave
    spec = call_spec(max_in_flight=1)
    broken = drive(spec)
    begin(broken, records(2)[:1])
    one.wait(WAIT)
    with ThreadPoolExecutor(1) as ending:
        ended = ending.submit(broken.step.teardown)
        repeated = drive(spec)  # in the same pool, or in one of its own
        begin(repeated, records(2)[:1])
        go.set()
        rows = repeated.plain(repeated.step.finish_bundle())
        ended.result(WAIT)
    broken.step.teardown = lambda: None
    assert [row["id"] for row in rows[:-1]] == ["0"]
    assert model.prompts == ["0"]
    assert nobody_waits(spec)


def test_where_the_other_cannot_keep_its_answer_one_asks_itself(
    model: Any, call_spec: Any, drive: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, one = threading.Event(), threading.Barrier(2)
    append, failed = JournalFile.append, []

    def fails_once(self: JournalFile, entry: Any) -> None:
        if not failed:
            failed.append(entry)
            raise OSError(errno.EIO, "Input/output error", "journal")
        append(self, entry)

    def behave(_prompt: str) -> None:
        if not go.is_set():
            one.wait(WAIT)
            assert go.wait(WAIT)

    model.behave = behave
    monkeypatch.setattr(JournalFile, "append", fails_once)
    spec = call_spec(max_in_flight=1)
    broken, repeated = drive(spec), drive(spec)
    begin(broken, records(1))
    one.wait(WAIT)
    begin(repeated, records(1))
    go.set()
    rows = repeated.plain(repeated.step.finish_bundle())
    assert [row["id"] for row in rows[:-1]] == ["0"]
    assert model.prompts == ["0", "0"]
    with pytest.raises(OSError, match="Input/output error"):
        list(broken.step.finish_bundle())
    assert nobody_waits(spec)


def test_what_the_other_has_answered_since_is_replayed(model: Any, call_spec: Any, drive: Any, records: Any) -> None:
    spec = call_spec()
    late, first = drive(spec), drive(spec)
    late.step.start_bundle()
    items = [item for record in records(5) for item in late.step.process(record)]
    rows = first(records(40))
    items += [item for record in records(40)[5:] for item in late.step.process(record)]
    items += late.step.finish_bundle()
    again = {row["id"]: row for row in late.plain(items)[:-1]}
    assert again == rows
    assert set(Counter(model.prompts).values()) == {1}
    assert late.journal() == sorted(rows)


def test_failures_are_shared_as_they_are(model: Any, call_spec: Any, drive: Any, records: Any, together: Any) -> None:
    def behave(prompt: str) -> None:
        if int(prompt) % 3 == 0:
            raise RowError("refusal", "no")

    model.behave = behave
    spec = call_spec()
    steps = [drive(spec), drive(spec)]
    found = together(*(lambda step=step: step(records(30)) for step in steps))
    assert found[0] == found[1]
    assert len(model.prompts) == 30
    assert sum("reason" in row for row in found[0].values()) == 10


def test_a_stop_leaves_those_who_wait_undone(model: Any, call_spec: Any, drive: Any, records: Any) -> None:
    go, one = threading.Event(), threading.Barrier(2)

    def behave(_prompt: str) -> None:
        one.wait(WAIT)
        assert go.wait(WAIT)
        raise AccountError("auth", "no such key")

    model.behave = behave
    spec = call_spec(max_in_flight=1)
    first, second = drive(spec), drive(spec)
    begin(first, records(1))
    one.wait(WAIT)
    begin(second, records(1))
    go.set()
    for step in (first, second):
        assert step.plain(step.step.finish_bundle()) == [{"unprocessed": 1}]
    assert model.prompts == ["0"]
    assert nobody_waits(spec)


def test_a_process_that_stands_still_is_waited_for_as_long_as_a_call_may_take(
    model: Any, call_spec: Any, drive: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordLocks, "take", lambda _self, value: value != digest("1"))
    spec = call_spec(limits=Limits(max_attempts=1, timeout_seconds=0.3))
    began = time.monotonic()
    rows = drive(spec)(records(3))
    assert sorted(rows) == ["0", "1", "2"]
    assert model.prompts[-1] == "1"
    assert time.monotonic() - began > 0.3
    assert nobody_waits(spec)


def test_who_waits_for_another_process_gets_what_it_wrote(
    model: Any, call_spec: Any, drive: Any, records: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = call_spec()
    row = make.result("1", output_text="from elsewhere")
    looks = []

    def take(_self: RecordLocks, value: bytes) -> bool:
        if value == digest("1"):
            looks.append(value)
            if len(looks) == 3:
                other = JournalFile(spec.journal, "000000-00000000000")
                other.append(make.entry(row))
                other.close()
        return value != digest("1")

    monkeypatch.setattr(RecordLocks, "take", take)
    rows = drive(spec)(records(3))
    assert rows["1"] == row
    assert sorted(model.prompts) == ["0", "2"]


def answered(prompt: str) -> Completion:
    """`echo TEXT` for one, or for each under its key."""
    texts = json.loads(prompt) if prompt.startswith("{") else prompt
    text = f"echo {texts}" if isinstance(texts, str) else json.dumps({key: f"echo {v}" for key, v in texts.items()})
    return Completion(text, "m-1", "stop", Usage(10, 4))


@pytest.mark.parametrize("records_per_call", [1, 4])
@pytest.mark.parametrize("texts", [7, 1000])
def test_two_at_once_with_groups_and_shared_answers(
    model: Any, call_spec: Any, drive: Any, records: Any, together: Any, records_per_call: int, texts: int
) -> None:
    model.behave = answered
    task = Task(prompt="{text}", records_per_call=records_per_call)
    spec = call_spec(model=PRICED, task=task, share_identical=True, limits=Limits(max_attempts=1))
    steps = [drive(spec), drive(spec)]
    found = together(*(lambda step=step: step(records(60, texts)) for step in steps))
    assert found[0] == found[1]
    assert steps[0].journal() == sorted(found[0], key=str)
    asked = [
        text for prompt in model.prompts for text in (json.loads(prompt).values() if prompt[0] == "{" else [prompt])
    ]
    assert sorted(asked) == sorted(f"text {n}" for n in range(min(texts, 60)))
    assert {row["output_text"] for row in found[1].values()} == {f"echo text {n}" for n in range(min(texts, 60))}
    assert sum(row["shared_from"] is None for row in found[0].values()) == min(texts, 60)
    assert nobody_waits(spec)


def test_nobody_reads_the_broken_bundle_and_nothing_hangs(
    model: Any, call_spec: Any, drive: Any, records: Any, together: Any
) -> None:
    """Each of many bundles is given up at some record, while another one of the same records goes on."""
    spec = call_spec(max_in_flight=2)
    for number in range(8):
        broken, repeated = drive(spec), drive(spec)

        def give_up(step: Any = broken, number: int = number) -> None:
            step.step.start_bundle()
            for record in records(40)[: 5 * number + 3]:
                list(step.step.process(record))
            step.step.teardown()
            step.step.teardown = lambda: None

        rows = together(give_up, lambda step=repeated: step(records(40)))[1]
        assert len(rows) == 40
    assert set(Counter(model.prompts).values()) == {1}
    assert nobody_waits(spec)
    assert len(list(Path(spec.journal).glob("*.jsonl"))) >= 1

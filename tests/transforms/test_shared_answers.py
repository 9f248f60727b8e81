"""The same request paid once, with a model in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from transforms import call, stop
from transforms.call_spec import CallSpec
from transforms.journal import DEAD_LETTER, OK, Entry
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, RowError, TransientError
from transforms.llm.prompts import Prompts
from transforms.records import Record
from transforms.settings import Input, Limits, Model, Price, Task
from transforms.shared_answers import SharedAnswers

WAIT = 30  # seconds: for what comes at once, unless something is broken
Row = dict[str, Any]


@pytest.fixture
def step(call_spec: Callable[..., CallSpec], drive: Callable[[CallSpec], Any]) -> Callable[..., Any]:
    """Makes steps; those with the same spec are of one process."""

    def make_step(spec: CallSpec | None = None, **changes: Any) -> Any:
        known: dict[str, Any] = {
            "task": Task(prompt="{text}"),
            "model": Model(provider="openai", name="m", price=Price(input=1, output=2)),
            "share_identical": True,
            "carried": {"note": pa.string()},
        }
        return drive(spec or call_spec(**{**known, **changes}))

    return make_step


@pytest.fixture
def texts(make: Any) -> Callable[..., list[Record]]:
    """Records with these texts, and the ids "0", "1", ..., or from another number on."""

    def make_records(*texts: str, start: int = 0) -> list[Record]:
        return [make.record(str(n), n, text=text, note=f"n{n}") for n, text in enumerate(texts, start)]

    return make_records


def test_the_same_text_is_asked_once(model: Any, step: Any, texts: Any) -> None:
    run = step()
    rows = run(texts("a", "b", "a", "a", "b"))
    assert sorted(model.prompts) == ["a", "b"]
    assert [rows[key]["output_text"] for key in "01234"] == ["echo a", "echo b", "echo a", "echo a", "echo b"]
    assert [rows[key]["note"] for key in "01234"] == ["n0", "n1", "n2", "n3", "n4"]
    assert [rows[key]["shared_from"] for key in "01234"] == [None, None, "0", "0", "1"]
    for key in "234":
        paid = [rows[key][name] for name in ("attempts", "prompt_tokens", "completion_tokens", "cost_usd")]
        assert paid == [0, 0, 0, 0.0]
        assert rows[key]["latency_ms"] is None
    assert sum(row["prompt_tokens"] for row in rows.values()) == 40
    assert list(rows["0"]) == list(rows["2"])  # the columns of JSONL
    later = run(texts("b", start=7))
    assert later["7"]["shared_from"] == "1"
    assert len(model.prompts) == 2


def test_off_it_is_asked_each_time(model: Any, step: Any, texts: Any) -> None:
    rows = step(share_identical=False)(texts("a", "a"))
    assert model.prompts == ["a", "a"]
    assert "shared_from" not in rows["0"]


def test_what_is_unknown_stays_unknown(model: Any, step: Any, texts: Any) -> None:
    model.behave = lambda _prompt: Completion("A", "m", "stop", Usage(5, None))
    rows = step()(texts("a", "a"))
    assert [rows["1"][name] for name in ("prompt_tokens", "completion_tokens", "cost_usd")] == [0, None, None]


def test_those_who_wait_take_no_thread(model: Any, step: Any, texts: Any) -> None:
    """With one thread: the first answer comes only once all records after it have been read."""
    read, many = threading.Event(), 900

    def behave(prompt: str) -> None:
        if prompt == "a":
            assert read.wait(WAIT)

    def records() -> Iterator[Record]:
        yield from texts(*["a"] * many)
        read.set()

    model.behave = behave
    run = step(max_in_flight=1)
    rows = run(records())
    assert len(rows) == many
    assert model.prompts == ["a"]


def test_few_wait_at_once(model: Any, step: Any, texts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory stays flat; what they wait for may be in a group that is not full yet."""
    monkeypatch.setattr(call, "MOST_WAITING", 5)
    run = step(task=Task(prompt="{text}", records_per_call=10))
    model.behave = lambda prompt: Completion(
        json.dumps(dict.fromkeys(json.loads(prompt), "A")) if prompt.startswith("{") else "A",
        "m",
        "stop",
        Usage(1, 1),
    )
    most = 0
    run.step.start_bundle()
    count = 0
    for record in texts(*["a"] * 50):
        count += len(list(run.step.process(record)))
        most = max(most, run.step._window.waiting)
    count += len(list(run.step.finish_bundle())) - 1
    assert most < 5
    assert count == 50
    assert len(model.prompts) == 1


def test_a_failure_of_the_row_is_that_of_all(model: Any, step: Any, texts: Any) -> None:
    def behave(_prompt: str) -> Completion:
        raise RowError("content_filter", "no", http_status=400)

    model.behave = behave
    rows = step()(texts("a", "a", "a"))
    assert len(model.prompts) == 1
    assert [rows[key]["reason"] for key in "012"] == ["content_filter"] * 3
    assert [rows[key]["attempts"] for key in "012"] == [1, 0, 0]
    assert rows["2"]["message"] == "the same request as that of row '0', which failed: no"
    assert rows["2"]["input"]["note"] == "n2"


def test_an_answer_that_was_paid_and_failed_costs_once(model: Any, step: Any, texts: Any) -> None:
    model.behave = lambda _prompt: Completion(" ", "m", "stop", Usage(8, 2))
    rows = step()(texts("a", "a"))
    assert [rows[key]["reason"] for key in "01"] == ["empty_output"] * 2
    assert [rows[key]["prompt_tokens"] for key in "01"] == [8, 0]
    assert [rows[key]["cost_usd"] for key in "01"] == [pytest.approx(12e-6), 0.0]


def test_after_a_failure_for_now_the_next_tries_for_itself(model: Any, step: Any, texts: Any) -> None:
    started = threading.Event()

    def behave(_prompt: str) -> Completion | None:
        if len(model.prompts) <= 2:
            started.wait(WAIT)
            raise TransientError("upstream_error", "down", http_status=503)
        return None

    def records() -> Iterator[Record]:
        yield from texts("a", "a", "a", "a")
        started.set()

    model.behave = behave
    rows = step(max_in_flight=1)(records())
    assert len(model.prompts) == 3
    assert [rows[key].get("reason", "ok") for key in "0123"] == ["upstream_error", "upstream_error", "ok", "ok"]
    assert rows["3"]["shared_from"] == "2"


def test_a_thousand_that_fail_for_now_are_no_deep_recursion(model: Any, step: Any, texts: Any) -> None:
    def behave(_prompt: str) -> Completion:
        raise TransientError("upstream_error", "down", http_status=500)

    model.behave = behave
    limits = Limits(max_attempts=1, max_failure_share=None, max_consecutive_failures=10_000)
    rows = step(max_in_flight=1, limits=limits)(texts(*["a"] * 1500))
    assert len(rows) == len(model.prompts) == 1500
    assert {row["reason"] for row in rows.values()} == {"upstream_error"}


def test_a_stop_leaves_those_who_wait_undone(model: Any, step: Any, texts: Any) -> None:
    started = threading.Event()

    def behave(_prompt: str) -> Completion:
        started.wait(WAIT)
        raise AccountError("auth", "no")

    def records() -> Iterator[Record]:
        yield from texts("a", "a", "a")
        started.set()

    model.behave = behave
    run = step(max_in_flight=1)
    assert run(records()) == {}
    assert run.tally["unprocessed"] == 3
    assert len(model.prompts) == 1


def test_two_bundles_of_a_process_share(model: Any, step: Any, texts: Any) -> None:
    """One waits for the other's call, and both end."""
    second = threading.Event()

    def behave(_prompt: str) -> None:
        assert second.wait(WAIT)

    model.behave = behave
    one = step()
    two = step(one.spec)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(one, texts("a"))
        while not model.prompts:
            pass
        two.step.start_bundle()
        assert not list(two.step.process(texts("a", start=5)[0]))
        second.set()
        rows = two.plain(two.step.finish_bundle())
        assert first.result(WAIT)["0"]["shared_from"] is None
    assert rows[0]["shared_from"] == "0"
    assert len(model.prompts) == 1


def test_one_that_waited_for_a_broken_bundle_asks_itself(model: Any, step: Any, texts: Any) -> None:
    """The threads are held by other records while the bundle with the first of them breaks."""
    held = threading.Event()
    both = threading.Barrier(3, timeout=WAIT)

    def behave(prompt: str) -> None:
        if prompt != "a":
            both.wait()
            assert held.wait(WAIT)

    model.behave = behave
    broken = step(max_in_flight=2)
    other = step(broken.spec)
    broken.step.start_bundle()
    for record in texts("long", "longer", "a"):
        list(broken.step.process(record))
    other.step.start_bundle()
    list(other.step.process(texts("a", start=5)[0]))
    both.wait()
    broken.step.start_bundle()  # the engine tries the bundle once more
    held.set()
    rows = other.plain(other.step.finish_bundle())
    assert (rows[0]["id"], rows[0]["shared_from"]) == ("5", None)
    assert sorted(model.prompts) == ["a", "long", "longer"]


def test_identical_records_share_before_they_are_grouped(model: Any, step: Any, texts: Any) -> None:
    def behave(prompt: str) -> Completion:
        texts = {key: f"echo {text}" for key, text in json.loads(prompt).items()}
        return Completion(json.dumps(texts), "m", "stop", Usage(10, 5))

    model.behave = behave
    rows = step(max_in_flight=1, task=Task(prompt="{text}", records_per_call=2))(texts("a", "a", "b", "c", "b", "d"))
    assert [json.loads(prompt) for prompt in model.prompts] == [{"1": "a", "2": "b"}, {"1": "c", "2": "d"}]
    assert [rows[key]["shared_from"] for key in "012345"] == [None, "0", None, None, "2", None]
    assert [rows[key]["records_in_call"] for key in "012345"] == [2] * 6
    assert [rows[key]["output_text"][-1] for key in "012345"] == list("aabcbd")
    assert sum(row["prompt_tokens"] for row in rows.values()) == 20


def test_a_full_disk_is_nobodys_reason_to_pay_again(
    model: Any, step: Any, texts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()

    def behave(_prompt: str) -> None:
        started.wait(WAIT)

    run = step(max_in_flight=1)

    def refuse(self: Any, entry: Entry) -> None:
        raise OSError(28, "no space")

    model.behave = behave
    monkeypatch.setattr("transforms.journal.JournalFile.append", refuse)
    run.step.start_bundle()
    for record in texts("a", "a"):
        list(run.step.process(record))
    started.set()
    with pytest.raises(OSError, match="no space"):
        list(run.step.finish_bundle())
    assert len(model.prompts) == 1


def prompts() -> Prompts:
    return Prompts(
        Task(prompt="{text}", parameters_from={"seed": "seed"}), Input(path="x"), Model(provider="openai", name="m")
    )


def test_a_request_is_its_texts_and_its_parameters() -> None:
    shared = SharedAnswers(prompts())
    key = shared.key({"text": "a", "seed": 1})
    assert key is not None
    assert key == shared.key({"text": "a", "seed": 1, "id": "other"})
    assert len({key, shared.key({"text": "a", "seed": 2}), shared.key({"text": "a "}), shared.key({"text": "á"})}) == 4
    assert shared.key({"text": "a", "seed": "no number"}) is None


@pytest.mark.parametrize("bound", [{"most": 3}, {"most_bytes": 3 * 1500}])
def test_the_least_recently_asked_for_is_forgotten(bound: dict[str, int]) -> None:
    shared = SharedAnswers(prompts(), **bound)
    job: Any = SimpleNamespace(window=SimpleNamespace(open=True))

    def ask(text: str) -> bool:
        """Whether it had to be asked."""
        key = text.encode()
        if shared.claim(key, [job]) is not False:
            return False
        shared.settle(key, Entry(b"", OK, {"id": text, "output_text": "x" * 1000}), stopped=False)
        return True

    assert [ask(text) for text in ("a", "b", "c", "a", "d", "a", "b", "c")] == [
        True, True, True, False, True, False, True, True,
    ]  # fmt: skip


def test_a_failure_for_now_is_not_remembered() -> None:
    shared = SharedAnswers(prompts())
    job: Any = SimpleNamespace(window=SimpleNamespace(open=True))
    assert shared.claim(b"k", [job]) is False
    settled = shared.settle(b"k", Entry(b"", DEAD_LETTER, {"id": "a", "retryable": True}), stopped=False)
    assert (settled.original, settled.next) == (None, None)
    assert shared.claim(b"k", [job]) is False


def test_nobody_stopped_it(step: Any, model: Any, texts: Any) -> None:
    run = step()
    run(texts("a", "a"))
    assert stop.reason(run.spec.journal) is None

"""The calling step, with a model in memory."""

import errno
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from transforms import stop, workers
from transforms.call import Call, CallModel
from transforms.call_spec import CallSpec
from transforms.journal import DEAD_LETTER, HEADER_FILE, OK, JournalFile, read
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, RowError, TransientError
from transforms.records import Record
from transforms.settings import Limits, Model, Price, Task
from transforms.tally import TALLY, total

WAIT = 30  # seconds: for what comes at once, unless something is broken
SPAN = "000000-00000000000"


def journal_ids(spec: CallSpec) -> list[str]:
    paths = Path(spec.journal).glob("*.jsonl")
    return sorted(entry.row["id"] for path in paths for entry in read(str(path)) if entry is not None)


@pytest.fixture
def run(pipeline: Callable[[], Any]) -> Callable[..., None]:
    """Calls for records, and checks which ids come out, why others are dead letters, and how many are left undone."""

    def run(
        spec: CallSpec,
        records: list[Record],
        *,
        ok: list[str],
        dead: dict[str, str] | None = None,
        unprocessed: int = 0,
        check: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
        check_dead: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    ) -> None:
        def check_ok(rows: list[dict[str, Any]]) -> None:
            assert sorted(row["id"] for row in rows) == sorted(ok)
            check(rows)

        def check_failed(rows: list[dict[str, Any]]) -> None:
            assert sorted((row["id"], row["reason"]) for row in rows) == sorted((dead or {}).items())
            check_dead(rows)

        with pipeline() as p:
            called = p | beam.Create(records, reshuffle=False) | Call(spec)
            assert_that(called[OK], check_ok, label="ok")
            assert_that(called[DEAD_LETTER], check_failed, label="dead")
            tally = called[TALLY] | beam.CombineGlobally(total)
            assert_that(tally, equal_to([{"unprocessed": unprocessed}]), label="tally")

    return run


@pytest.fixture
def numbered(make: Any) -> Callable[[int], list[Record]]:
    """Makes so many records, with the ids "0", "1", ..."""
    return lambda count: [make.record(str(number), number) for number in range(count)]


class Bundles:
    """One DoFn instance, driven by hand."""

    def __init__(self, spec: CallSpec) -> None:
        self.step = CallModel(spec)
        self.step.setup()

    def __call__(self, records: list[Record]) -> Iterator[Any]:
        """The elements of one bundle, as they come: rows, rows under a tag, the tally."""
        self.step.start_bundle()
        for record in records:
            yield from self.step.process(record)
        for item in self.step.finish_bundle():
            yield item.value if hasattr(item, "windows") else item

    def rows(self, records: list[Record]) -> list[dict[str, Any]]:
        return [item for item in self(records) if isinstance(item, dict)]

    def close(self) -> None:
        self.step.teardown()


@pytest.fixture
def bundles() -> Iterator[Callable[[CallSpec], Bundles]]:
    made: list[Bundles] = []

    def make_bundles(spec: CallSpec) -> Bundles:
        made.append(Bundles(spec))
        return made[-1]

    yield make_bundles
    for each in made:
        each.close()


class TestRows:
    def test_a_result_row(self, model: Any, call_spec: Any, run: Any, make: Any) -> None:
        schema = {"type": "object", "properties": {"label": {"type": "string"}, "extra": {}}}
        spec = call_spec(
            task=Task(prompt="About {text}", system="Be brief", schema=schema),
            model=Model(provider="openai", name="m", price=Price(input=2, output=10)),
            carried={"note": pa.string()},
        )
        usage = Usage(1000, 100, None)
        text = '{"label": "good", "extra": [1]}'
        model.behave = lambda _prompt: Completion(text, "m-2026", "stop", usage)

        def check(rows: list[dict[str, Any]]) -> None:
            (row,) = rows
            assert (row["label"], row["extra"], row["note"], row["output_text"]) == ("good", "[1]", {"n": 1}, text)
            assert (row["model"], row["finish_reason"], row["attempts"]) == ("m-2026", "stop", 1)
            assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (1000, 100, None)
            assert row["cost_usd"] == pytest.approx(0.003)
            assert (row["run_id"], row["task_hash"]) == spec.stamp
            assert row["latency_ms"] >= 0
            assert row["finished_at"].startswith("20")
            assert row["finished_at"].endswith("Z")

        run(spec, [make.record("a", text="it", note={"n": 1})], ok=["a"], check=check)
        assert model.prompts == ["About it"]
        assert model.closed == 1

    def test_unknown_price_and_usage_are_null(self, model: Any, call_spec: Any, run: Any, make: Any) -> None:
        model.behave = lambda _prompt: Completion("A", None, None, Usage())

        def check(rows: list[dict[str, Any]]) -> None:
            assert [rows[0][key] for key in ("prompt_tokens", "completion_tokens", "cost_usd")] == [None, None, None]

        run(call_spec(), [make.record("a")], ok=["a"], check=check)

    def test_a_billed_failure_keeps_its_answer_and_its_cost(
        self, model: Any, call_spec: Any, run: Any, make: Any
    ) -> None:
        spec = call_spec(model=Model(provider="openai", name="m", price=Price(input=2, output=10)))
        model.behave = lambda _prompt: Completion("half an ans", "m", "length", Usage(1000, 100, None))

        def check(rows: list[dict[str, Any]]) -> None:
            (row,) = rows
            assert (row["output_text"], row["prompt_tokens"], row["completion_tokens"]) == ("half an ans", 1000, 100)
            assert row["cost_usd"] == pytest.approx(0.003)
            assert (row["retryable"], row["attempts"], row["http_status"]) == (False, 1, 200)
            assert (row["input"], row["source"]) == ({"id": "a"}, {"file": "in.jsonl", "position": 7})
            assert (row["run_id"], row["task_hash"]) == spec.stamp

        run(spec, [make.record("a", 7)], ok=[], dead={"a": "truncated"}, check_dead=check)

    def test_the_kinds_of_failures(self, model: Any, call_spec: Any, run: Any, numbered: Any) -> None:
        errors = {
            "0": RowError("content_filter", "no", http_status=400),
            "1": TransientError("timeout", "too slow"),
            "2": TransientError("upstream_error", "busy", http_status=503),
        }

        def behave(prompt: str) -> None:
            if prompt in errors:
                raise errors[prompt]

        def check(rows: list[dict[str, Any]]) -> None:
            found = {row["id"]: (row["retryable"], row["http_status"], row["attempts"]) for row in rows}
            assert found == {"0": (False, 400, 1), "1": (True, None, 1), "2": (True, 503, 1)}

        model.behave = behave
        dead = {"0": "content_filter", "1": "timeout", "2": "upstream_error"}
        run(call_spec(), numbered(5), ok=["3", "4"], dead=dead, check_dead=check)


class TestIsolation:
    def test_one_row_whose_client_breaks_is_one_dead_letter(
        self, model: Any, call_spec: Any, run: Any, numbered: Any
    ) -> None:
        """Case 45."""

        def behave(prompt: str) -> None:
            if prompt == "3":
                raise ZeroDivisionError("by accident")

        def check(rows: list[dict[str, Any]]) -> None:
            assert "ZeroDivisionError: by accident" in rows[0]["message"]
            assert (rows[0]["attempts"], rows[0]["retryable"]) == (1, False)

        model.behave = behave
        ok = [str(number) for number in range(10) if number != 3]
        run(call_spec(), numbered(10), ok=ok, dead={"3": "bad_response"}, check_dead=check)
        assert sorted(model.prompts) == [str(number) for number in range(10)]

    def test_answers_belong_to_their_rows(self, model: Any, call_spec: Any, run: Any, numbered: Any) -> None:
        """Case 38: each group of four is answered in an order that is turned round, and some fail."""
        turn, ready = threading.Barrier(4), [threading.Event() for _ in range(40)]

        def behave(prompt: str) -> None:
            number = int(prompt)
            turn.wait(WAIT)
            if number % 4 != 3:  # after the next one of the group
                assert ready[number + 1].wait(WAIT)
            ready[number].set()
            if number % 5 == 0:
                raise RowError("refusal", f"no to {prompt}")

        def check(rows: list[dict[str, Any]]) -> None:
            assert all(row["output_text"] == f"echo {row['id']}" for row in rows)

        def check_dead(rows: list[dict[str, Any]]) -> None:
            assert all(row["message"] == f"no to {row['id']}" == f"no to {row['input']['id']}" for row in rows)

        model.behave = behave
        ok = [str(number) for number in range(40) if number % 5]
        dead = {str(number): "refusal" for number in range(0, 40, 5)}
        run(call_spec(), numbered(40), ok=ok, dead=dead, check=check, check_dead=check_dead)


class TestWindow:
    def test_the_window_is_full_and_never_over_its_size(
        self, model: Any, call_spec: Any, run: Any, numbered: Any
    ) -> None:
        together = threading.Barrier(4)  # lets nobody go before four are under way
        model.behave = lambda _prompt: together.wait(WAIT) and None
        run(call_spec(max_in_flight=4), numbered(24), ok=[str(number) for number in range(24)])
        assert model.most == 4

    def test_nobody_waits_for_a_slow_neighbour(self, model: Any, call_spec: Any, run: Any, numbered: Any) -> None:
        last = threading.Event()

        def behave(prompt: str) -> None:
            if prompt == "39":
                last.set()
            assert prompt != "0" or last.wait(WAIT)

        model.behave = behave
        run(call_spec(max_in_flight=2), numbered(40), ok=[str(number) for number in range(40)])

    def test_bundles_of_one_process_share_the_window(
        self, model: Any, call_spec: Any, bundles: Callable[[CallSpec], Bundles], numbered: Any, make: Any
    ) -> None:
        together = threading.Barrier(3)
        model.behave = lambda _prompt: together.wait(WAIT) and None
        spec = call_spec(max_in_flight=3)
        found: dict[int, list[dict[str, Any]]] = {}

        def work(number: int) -> None:
            records = [make.record(f"{number}-{at}", span=f"00000{number}-00000000000") for at in range(12)]
            found[number] = each[number].rows(records)

        each = [bundles(spec) for _ in range(4)]
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert model.most == 3
        for number, rows in found.items():
            assert sorted(row["id"] for row in rows if "id" in row) == sorted(f"{number}-{at}" for at in range(12))

    def test_many_spans_in_a_bundle(
        self, model: Any, call_spec: Any, bundles: Callable[[CallSpec], Bundles], make: Any
    ) -> None:
        spec = call_spec()
        records = [make.record(f"{span}-{at}", at, f"00000{span}-00000000000") for span in range(5) for at in range(6)]
        rows = bundles(spec).rows(records)
        assert sorted(row["id"] for row in rows) == sorted(record.id for record in records)
        by_span = {path.name[:18]: {e.row["id"][0] for e in read(str(path)) if e} for path in journal_files(spec)}
        assert by_span == {f"00000{span}-00000000000": {str(span)} for span in range(5)}


def journal_files(spec: CallSpec) -> list[Path]:
    return sorted(Path(spec.journal).glob("*.jsonl"))


class TestStops:
    @pytest.mark.parametrize("reason", ["auth", "quota_exhausted", "config_rejected"])
    def test_what_is_the_accounts_fault_leaves_rows_undone(
        self, model: Any, call_spec: Any, run: Any, numbered: Any, reason: Any
    ) -> None:
        def behave(prompt: str) -> None:
            if prompt == "2":
                raise AccountError(reason, "pay first", http_status=429)

        model.behave = behave
        spec = call_spec(max_in_flight=1)
        run(spec, numbered(10), ok=["0", "1"], unprocessed=8)
        assert model.prompts == ["0", "1", "2"]
        assert json.loads(Path(spec.journal, "stop.json").read_text()) == {"kind": reason, "message": "pay first"}
        assert stop.reason(spec.journal) == {"kind": reason, "message": "pay first"}
        assert journal_ids(spec) == ["0", "1"]

    def test_what_is_under_way_is_kept(self, model: Any, call_spec: Any, run: Any, numbered: Any) -> None:
        together = threading.Barrier(4)
        stopped = threading.Event()

        def behave(prompt: str) -> None:
            together.wait(WAIT)
            if prompt == "0":
                stopped.set()
                raise AccountError("auth", "no such key", http_status=401)
            assert stopped.wait(WAIT)
            assert spec_stopped.wait(WAIT)

        # The three others go on only when the stop is on disk.
        spec = call_spec()
        spec_stopped = FileEvent(Path(spec.journal, "stop.json"))
        model.behave = behave
        run(spec, numbered(20), ok=["1", "2", "3"], unprocessed=17)
        assert len(model.prompts) == 4

    def test_another_process_can_stop_it(
        self, model: Any, call_spec: Any, run: Any, numbered: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stop, "POLL_SECONDS", -1.0)
        spec = call_spec()
        Path(spec.journal, "stop.json").write_text('{"kind": "interrupted", "message": "SIGINT"}')
        run(spec, numbered(5), ok=[], unprocessed=5)
        assert model.prompts == []

    def test_a_run_that_is_published_calls_nobody(self, model: Any, call_spec: Any, run: Any, numbered: Any) -> None:
        spec = call_spec()
        Path(spec.journal, HEADER_FILE).unlink()
        run(spec, numbered(5), ok=[], unprocessed=5)
        assert model.prompts == []
        assert journal_files(spec) == []

    def test_waiting_for_a_retry_ends_with_the_run(self, model: Any, call_spec: Any, run: Any, numbered: Any) -> None:
        together = threading.Barrier(2)  # or the pause would keep the second from being called at all

        def behave(prompt: str) -> None:
            together.wait(WAIT)
            if prompt == "0":
                raise TransientError("rate_limited", "later", http_status=429, retry_after=3600)
            raise AccountError("auth", "no such key")

        model.behave = behave
        limits = Limits(max_attempts=5, max_retry_after_seconds=3600)
        run(call_spec(max_in_flight=2, limits=limits), numbered(2), ok=[], unprocessed=2)


class FileEvent:
    """Waits for a file to be there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def wait(self, seconds: float) -> bool:
        tick = threading.Event()
        for _ in range(int(seconds * 100)):
            if self._path.exists():
                return True
            tick.wait(0.01)
        return False


class TestJournal:
    def test_every_outcome_is_on_disk_before_it_is_emitted(
        self, model: Any, call_spec: Any, bundles: Callable[[CallSpec], Bundles], numbered: Any
    ) -> None:
        def behave(prompt: str) -> None:
            if int(prompt) % 3 == 0:
                raise RowError("refusal", "no")

        model.behave = behave
        spec = call_spec()
        seen = 0
        for item in bundles(spec)(numbered(30)):
            row = getattr(item, "value", item)
            row = getattr(row, "value", row)
            if "id" in row:
                seen += 1
                assert row["id"] in journal_ids(spec)
        assert seen == 30
        assert journal_ids(spec) == sorted(str(number) for number in range(30))

    def test_what_the_journal_holds_is_not_called_again(
        self, model: Any, call_spec: Any, run: Any, make: Any, numbered: Any
    ) -> None:
        spec = call_spec()
        rows = [make.result("0", output_text="from before"), make.failure("1", "refusal", message="from before")]
        make.journal(Path(spec.journal, f"{SPAN}-000001.jsonl"), rows, tail=b'{"digest":"torn')
        make.journal(Path(spec.journal, "000001-00000000000-000001.jsonl"), [make.result("2")])

        def check(found: list[dict[str, Any]]) -> None:
            assert {row["id"]: row["output_text"] for row in found} == {
                "0": "from before",
                "2": "echo 2",  # answered in another span: that is another record
                "3": "echo 3",
            }

        def check_dead(found: list[dict[str, Any]]) -> None:
            assert found == rows[1:]

        dead = {"1": "refusal"}
        run(spec, numbered(4), ok=["0", "2", "3"], dead=dead, check=check, check_dead=check_dead)
        assert sorted(model.prompts) == ["2", "3"]

    def test_a_repeated_bundle_gives_all_rows_again_and_calls_for_none(
        self, model: Any, call_spec: Any, bundles: Callable[[CallSpec], Bundles], numbered: Any
    ) -> None:
        spec = call_spec()
        first, other = bundles(spec), bundles(spec)
        rows = sorted(first.rows(numbered(20)), key=lambda row: row["id"])
        for instance in (first, other, bundles(spec)):
            again = sorted(instance.rows(numbered(20)), key=lambda row: row["id"])
            assert again == rows
        assert len(model.prompts) == 20
        assert len(journal_files(spec)) == 1

    @pytest.mark.parametrize("same_instance", [True, False])
    def test_a_bundle_that_breaks_after_five_rows(
        self,
        model: Any,
        call_spec: Any,
        bundles: Callable[[CallSpec], Bundles],
        numbered: Any,
        monkeypatch: pytest.MonkeyPatch,
        same_instance: bool,
    ) -> None:
        """Case 45: what was journalled is neither paid again nor doubled."""
        spec = call_spec(max_in_flight=1)
        append, written = JournalFile.append, []

        def full_after_five(self: JournalFile, entry: Any) -> None:
            if len(written) == 5:
                raise OSError(errno.EIO, "Input/output error", "journal")
            append(self, entry)
            written.append(entry)

        instance = bundles(spec)
        with monkeypatch.context() as patch:
            patch.setattr(JournalFile, "append", full_after_five)
            with pytest.raises(OSError, match="Input/output error"):
                instance.rows(numbered(10))
            if not same_instance:
                instance.close()  # as an engine does with one that broke; its calls under way end first
                instance.close = lambda: None  # type: ignore[method-assign]
        again = instance if same_instance else bundles(spec)
        assert sorted(row["id"] for row in again.rows(numbered(10))) == [str(number) for number in range(10)]
        assert [model.prompts.count(str(number)) for number in range(5)] == [1] * 5
        assert journal_ids(spec) == [str(number) for number in range(10)]

    def test_an_answer_that_cannot_be_kept_ends_the_run(
        self, model: Any, call_spec: Any, run: Any, numbered: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: JournalFile, entry: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", "journal/x.jsonl")

        monkeypatch.setattr(JournalFile, "append", full)
        with pytest.raises(Exception, match=r"No space left on device.*journal/x\.jsonl"):
            run(call_spec(max_in_flight=2), numbered(100), ok=[])
        assert len(model.prompts) < 100


def test_a_client_that_cannot_be_made_ends_the_run(
    call_spec: Any, run: Any, numbered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Exception, match="OPENAI_API_KEY is not set"):
        run(call_spec(), numbered(1), ok=[])
    assert workers._pools == {}


def test_what_a_worker_lacks_is_said_with_its_host(
    call_spec: Callable[..., CallSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher has the key in its environment; the worker, elsewhere, has not."""
    monkeypatch.delenv("PAIDONCE_NO_KEY", raising=False)
    spec = call_spec(model=Model(provider="openai", name="m", api_key_env="PAIDONCE_NO_KEY"))
    with pytest.raises(ValueError, match=f"PAIDONCE_NO_KEY is not set .*{re.escape(socket.gethostname())}"):
        CallModel(spec).setup()

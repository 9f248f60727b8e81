"""The journal on a store: what comes together, when it is saved, and what happens where it cannot be."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from transforms import budget, files, journal, rolled_journal
from transforms.call import Call
from transforms.call_spec import CallSpec
from transforms.digests import digest
from transforms.journal import HEADER_FILE, OK
from transforms.layout import Layout
from transforms.recover import interrupted_runs, recover, write_header
from transforms.rolled_journal import MOST_SPANS, RolledJournal, RollRule
from transforms.s3 import S3Store
from transforms.shards import ShardFormat
from transforms.span_index import SpanIndex
from transforms.watch import JournalWatch

NEVER = 3600.0
SPAN, OTHER = "000000-00000000000", "000001-00000000000"


@pytest.fixture
def folder(s3: Any) -> str:
    return f"{s3.root}/out/journal/run"


@pytest.fixture
def opened(folder: str) -> Any:
    """Opens journals, and closes them at the end."""
    made: list[RolledJournal] = []

    def open_journal(rows: int = 1000, seconds: float = NEVER, on_failure: Any = None) -> RolledJournal:
        made.append(RolledJournal(folder, RollRule(rows, seconds), on_failure))
        return made[-1]

    yield open_journal
    for each in made:
        each.close()


def ids(s3: Any) -> list[str]:
    return sorted(entry.row["id"] for info in saved(s3) for entry in journal.read(info.path) if entry)


def saved(s3: Any) -> list[files.FileInfo]:
    return journal.journal_files(f"{s3.root}/out/journal/run")


def wait_until(condition: Callable[[], Any]) -> None:
    ticker = threading.Event()
    for _ in range(3000):
        if condition():
            return
        ticker.wait(0.01)
    pytest.fail("it did not come")


def test_saved_together_by_rows(opened: Any, s3: Any, make: Any) -> None:
    rolled = opened(rows=10)
    for number in range(25):
        rolled.append(SPAN, make.entry(make.result(str(number))))
    wait_until(lambda: len(ids(s3)) >= 20)
    assert len(saved(s3)) <= 2
    rolled.save()
    assert len(ids(s3)) == 25


def test_saved_together_by_seconds(opened: Any, s3: Any, make: Any) -> None:
    rolled = opened(seconds=0.3)
    assert saved(s3) == []
    for number in range(3):
        rolled.append(SPAN, make.entry(make.result(str(number))))
    wait_until(lambda: saved(s3))
    assert ids(s3) == ["0", "1", "2"]
    assert len(saved(s3)) == 1


def test_one_object_for_several_spans_that_each_find_theirs(opened: Any, s3: Any, folder: str, make: Any) -> None:
    rolled = opened()
    rows = {SPAN: make.result("a"), OTHER: make.result("b")}
    for span, row in rows.items():
        rolled.append(span, make.entry(row))
    rolled.save()
    rolled.append(SPAN, make.entry(make.failure("c")))
    rolled.save()
    assert len(saved(s3)) == 2
    index = SpanIndex(folder)
    index.refresh()
    for span, row in rows.items():
        index.load(span)
        found = index.find(span, digest(row["id"]))
        assert found is not None
        assert found.row == row
    before = len(s3.requests("GET .*jsonl"))
    assert index.find(SPAN, digest("c")).row["id"] == "c"  # type: ignore[union-attr]
    assert index.find(SPAN, digest("a")).row["id"] == "a"  # type: ignore[union-attr]
    assert index.find(SPAN, digest("x")) is None
    assert len(s3.requests("GET .*jsonl")) <= before + 1  # not one for each row


def test_many_small_spans_make_few_objects(opened: Any, s3: Any, make: Any) -> None:
    rolled = opened()
    for number in range(MOST_SPANS * 3):
        rolled.append(f"{number:06d}-00000000000", make.entry(make.result(str(number))))
    rolled.save()
    assert len(ids(s3)) == MOST_SPANS * 3
    assert 3 <= len(saved(s3)) <= 8
    assert all(len(info.path) < 1000 for info in saved(s3))


def test_many_threads_lose_nothing(opened: Any, s3: Any, make: Any) -> None:
    rolled = opened(rows=7, seconds=0.01)

    def work(name: int) -> None:
        for number in range(50):
            rolled.append(f"{name:06d}-00000000000", make.entry(make.result(f"{name}-{number}")))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rolled.save()
    assert len(ids(s3)) == len(set(ids(s3))) == 400


def test_only_what_a_span_has_unsaved_is_waited_for(opened: Any, s3: Any, make: Any) -> None:
    rolled = opened()
    rolled.append(SPAN, make.entry(make.result("a")))
    assert not rolled.save(OTHER)
    assert saved(s3) == []
    assert rolled.save(SPAN)
    assert not rolled.save(SPAN)
    assert not rolled.save()
    assert ids(s3) == ["a"]


def test_closing_saves_the_rest(opened: Any, s3: Any, make: Any) -> None:
    rolled = opened()
    rolled.append(SPAN, make.entry(make.result("a")))
    rolled.close()
    assert ids(s3) == ["a"]


def test_for_a_process_that_ends_at_once(opened: Any, s3: Any, make: Any) -> None:
    opened().append(SPAN, make.entry(make.result("a")))
    rolled_journal.save_all()
    assert ids(s3) == ["a"]


class Refusing:
    """A store that refuses so many writes, each after it has done what it was asked, as where the answer is lost."""

    def __init__(self, patch: pytest.MonkeyPatch, times: int) -> None:
        self.left = times
        self.refused = threading.Event()
        put = S3Store.put

        def refuse(store: S3Store, path: str, data: bytes) -> None:
            put(store, path, data)
            if self.left:
                self.left -= 1
                self.refused.set()
                raise OSError(errno.EIO, "SlowDown", path)

        patch.setattr(S3Store, "put", refuse)


def test_a_refused_save_is_tried_again_and_never_there_twice(
    opened: Any, s3: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Refusing(monkeypatch, 2)
    rolled = opened()
    rolled.append(SPAN, make.entry(make.result("a")))
    assert rolled.save()
    assert refusing.left == 0
    assert ids(s3) == ["a"]


def test_a_store_that_refuses_for_too_long_breaks_the_run(
    opened: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolled_journal, "RETRY_SECONDS", 0.5)
    Refusing(monkeypatch, 10**6)
    told: list[OSError] = []
    rolled = opened(on_failure=told.append)
    rolled.append(SPAN, make.entry(make.result("a")))
    for action in (rolled.save, lambda: rolled.append(SPAN, make.entry(make.result("b")))):
        with pytest.raises(OSError, match=r"SlowDown.*s3://"):
            action()
    wait_until(lambda: len(told) == 1)


def test_who_appends_waits_for_a_store_that_hangs(
    opened: Any, s3: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more is paid for than could be kept."""
    monkeypatch.setattr(rolled_journal, "GRACE_SECONDS", 0.2)
    goes_on, hangs, put = threading.Event(), threading.Event(), S3Store.put

    def hang(store: S3Store, path: str, data: bytes) -> None:
        hangs.set()
        goes_on.wait(30)
        put(store, path, data)

    monkeypatch.setattr(S3Store, "put", hang)
    rolled = opened(rows=10, seconds=0.1)
    rolled.append(SPAN, make.entry(make.result("a")))
    assert hangs.wait(30)
    wait_until(rolled._is_late)
    done: list[int] = []

    def work() -> None:
        rolled.append(SPAN, make.entry(make.result("b")))
        done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.3)
    assert done == []
    goes_on.set()
    thread.join(30)
    assert done == [1]
    rolled.save()
    assert ids(s3) == ["a", "b"]


def test_progress_costs_and_recovery_read_it(opened: Any, s3: Any, folder: str, make: Any) -> None:
    layout = Layout(f"{s3.root}/out")
    header = {"run_id": "run", "started_at": "s", "config": {}, "task_hash": "h", "task": {}}
    write_header(layout, header, ShardFormat("jsonl", 2))
    rolled = opened()
    for part in (["a", "b"], ["c"]):
        for each in part:
            rolled.append(SPAN, make.entry(make.result(each)))
        rolled.save()
    rolled.append(OTHER, make.entry(make.failure("d", cost_usd=0.5)))
    rolled.save()
    rolled.append(OTHER, make.entry(make.result("unsaved")))

    watch = JournalWatch(layout.root, "run")
    assert (watch.update().ok, watch.update().failed) == (3, 1)
    assert budget.journal_cost_usd(folder) == 1.25

    assert interrupted_runs(layout) == ["run"]
    found = recover(layout, "run")
    assert (found.ok, found.failed, found.damaged) == (3, 1, 0)
    rows = [row for path in layout.shards(layout.results) for row in journal_lines(path)]
    assert len(rows) == 3
    assert s3.keys("out/journal") == s3.keys("out/staging") == []


def journal_lines(path: str) -> list[bytes]:
    with files.open_read(path) as stream:
        return stream.read().splitlines()


class TestInTheGraph:
    """The calling step with its journal on a store."""

    @pytest.fixture
    def spec(self, call_spec: Callable[..., CallSpec], folder: str) -> CallSpec:
        files.write_json(files.join(folder, HEADER_FILE), {})
        return call_spec(journal=folder, roll=RollRule(1000, NEVER))

    def test_a_bundle_ends_after_its_rows_are_saved(
        self, spec: CallSpec, s3: Any, model: Any, pipeline: Any, make: Any
    ) -> None:
        records = [make.record(str(number), span=f"{number // 3:06d}-00000000000") for number in range(9)]

        root = s3.root

        def check(row: Any) -> Any:
            found = journal.journal_files(f"{root}/out/journal/run")
            assert row["id"] in [entry.row["id"] for info in found for entry in journal.read(info.path) if entry]
            return row["id"]

        with pipeline() as p:
            called = p | beam.Create(records) | Call(spec)
            seen = called[OK] | beam.Reshuffle() | beam.Map(check)
            assert_that(seen, equal_to([str(number) for number in range(9)]))
        assert len(saved(s3)) == 1

    def test_what_it_holds_is_not_called_again(
        self, spec: CallSpec, s3: Any, model: Any, pipeline: Any, make: Any
    ) -> None:
        records = [make.record(str(number)) for number in range(5)]
        for _ in range(2):
            with pipeline() as p:
                called = p | beam.Create(records) | Call(spec)
                assert_that(called[OK] | beam.Map(lambda row: row["id"]), equal_to(["0", "1", "2", "3", "4"]))
        assert len(model.prompts) == 5

    def test_what_a_broken_bundle_left_unsaved_is_not_called_again(
        self, spec: CallSpec, s3: Any, model: Any, make: Any
    ) -> None:
        """The same process repeats it: the answers are in memory still."""
        from transforms.call import CallModel

        broken, again = CallModel(spec), CallModel(spec)
        broken.setup()
        again.setup()
        broken.start_bundle()
        for _row in broken.process(make.record("0")):
            pass
        while broken._window.out:
            list(broken._take(broken._wait()))
        assert saved(s3) == []

        again.start_bundle()
        rows = list(again.process(make.record("0")))
        rows += list(again.finish_bundle())
        assert [row["id"] for row in rows if isinstance(row, dict)] == ["0"]
        assert len(model.prompts) == 1
        for each in (broken, again):
            each.teardown()

    def test_what_another_bundle_of_the_process_has_answered_since(
        self, spec: CallSpec, s3: Any, model: Any, drive: Any, make: Any
    ) -> None:
        """It is saved and read once, and not for each record."""
        records = [make.record(str(number), number) for number in range(30)]
        late, first = drive(spec), drive(spec)
        late.step.start_bundle()
        items = [item for record in records[:5] for item in late.step.process(record)]
        rows = first(records)
        before = len(s3.requests("GET .*"))
        items += [item for record in records[5:] for item in late.step.process(record)]
        items += late.step.finish_bundle()
        assert {row["id"]: row for row in late.plain(items)[:-1]} == rows
        assert len(model.prompts) == 30
        assert len(s3.requests("GET .*")) <= before + 6

    def test_a_pool_that_ends_and_the_next_have_one_journal(
        self, spec: CallSpec, s3: Any, model: Any, drive: Any, make: Any
    ) -> None:
        first = drive(spec)
        first.step.start_bundle()
        items = list(first.step.process(make.record("0")))
        while first.step._window.out:
            items += first.step._take(first.step._wait())
        assert saved(s3) == []
        first.step.teardown()
        first.step.teardown = lambda: None
        assert ids(s3) == ["0"]
        assert list(drive(spec)([make.record("0")])) == ["0"]
        assert len(model.prompts) == 1

    def test_a_store_that_refuses_breaks_the_run(
        self, spec: CallSpec, model: Any, pipeline: Any, make: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rolled_journal, "RETRY_SECONDS", 0.3)
        Refusing(monkeypatch, 10**6)
        p = pipeline()
        _ = p | beam.Create([make.record("0")]) | Call(spec)
        with pytest.raises(Exception, match="SlowDown"):
            p.run()


def test_a_local_journal_is_not_rolled(tmp_path: Path, make: Any) -> None:
    from transforms.span_journal import SpanJournal, rolled

    assert rolled(str(tmp_path), RollRule()) is None
    file = SpanJournal(str(tmp_path), SPAN, None, SpanIndex(str(tmp_path)))
    file.append(make.entry(make.result("a")))
    assert len(journal.journal_files(str(tmp_path))) == 1  # at once
    file.close()

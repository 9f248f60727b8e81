"""Which ids of earlier output are done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from transforms.digests import digest
from transforms.done_digests import Done, DoneDigests, DoneKey
from transforms.given import Given
from transforms.resume import (
    RECOVERED,
    DoneIds,
    DropDone,
    Prior,
    Retry,
    done_failure,
    done_ids,
    read_jsonl,
    result_ids,
)
from transforms.rows import UNCALLED
from transforms.scratch import Part, Scratch
from transforms.tally import TALLY, total

ODD_IDS = ["a", "caf\u00e9", "cafe\u0301", "k\0", "k", " pad ", "one\u2028two", "x" * 5000]


class TestResultIds:
    @pytest.mark.parametrize("ending", ["parquet", "jsonl"])
    def test_ids_come_back_as_they_went_in(self, tmp_path: Path, make: Any, ending: str) -> None:
        rows = [{"id": identifier, "output_text": "x"} for identifier in ODD_IDS]
        path = tmp_path / f"r.{ending}"
        (make.parquet if ending == "parquet" else make.jsonl)(path, rows)
        assert list(result_ids(str(path))) == ODD_IDS

    def test_lines_end_at_lf_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "r.jsonl"
        path.write_bytes('{"id":"a","t":"one\u2028\u2029\u0085two"}\n{"id":"b"}\n'.encode())
        assert list(result_ids(str(path))) == ["a", "b"]

    @pytest.mark.parametrize("line", [b'{"id":', b'["a"]', b"null", b'{"id":' + b"[" * 100_000])
    def test_a_damaged_line_is_named(self, tmp_path: Path, line: bytes) -> None:
        path = tmp_path / "r.jsonl"
        path.write_bytes(b'{"id":"a"}\n' + line + b"\n")
        with pytest.raises(ValueError, match=r"r\.jsonl, line 2: "):
            list(read_jsonl(str(path)))


class TestRetryModes:
    @pytest.mark.parametrize(
        ("retry", "retryable", "done"),
        [
            ("retryable", True, False),
            ("retryable", False, True),
            ("all", True, False),
            ("all", False, False),
            ("none", True, True),
            ("none", False, True),
        ],
    )
    def test_failures_of_calls(self, make: Any, retry: Retry, retryable: bool, done: bool) -> None:
        assert done_failure(make.failure("a", "bad_response", retryable=retryable), retry) is done

    @pytest.mark.parametrize("retry", ["retryable", "all", "none"])
    @pytest.mark.parametrize("reason", sorted(UNCALLED))
    def test_failures_before_a_call_are_found_anew(self, make: Any, retry: Retry, reason: str) -> None:
        assert done_failure(make.failure("a", reason), retry) is False

    @pytest.mark.parametrize("retry", ["retryable", "all", "none"])
    def test_a_reason_that_is_named_is_tried_again_whatever_the_mode(self, make: Any, retry: Retry) -> None:
        assert done_failure(make.failure("a", "refusal"), retry, ("truncated", "refusal")) is False
        assert done_failure(make.failure("a", "timeout"), "none", ("refusal",)) is True
        assert done_failure(make.failure("a", "truncated"), "retryable", ("refusal",)) is True

    def test_a_failure_without_id_is_never_done(self, make: Any) -> None:
        assert done_failure(make.failure(None, "refusal"), "none") is False


@pytest.fixture
def prior(tmp_path: Path, make: Any) -> list[Prior]:
    failures = [
        make.failure("later", "timeout"),
        make.failure("never", "refusal", run_id="run-1"),
        make.failure("never-2", "refusal", run_id="run-2"),
        make.failure("empty", "empty_input"),
        make.failure(None, "bad_id"),
    ]
    return [
        Prior(str(make.parquet(tmp_path / "p.parquet", [{"id": "a"}, {"id": "b"}])), False),
        Prior(str(make.jsonl(tmp_path / "j.jsonl", [{"id": "c"}, {"id": "a"}])), False),
        Prior(str(make.jsonl(tmp_path / "f.jsonl", failures)), True),
    ]


DONE_BY_MODE: dict[Retry, set[str]] = {
    "retryable": {"a", "b", "c", "never", "never-2"},
    "all": {"a", "b", "c"},
    "none": {"a", "b", "c", "later", "never", "never-2"},
}


@pytest.mark.parametrize("retry", ["retryable", "all", "none"])
def test_done_ids(prior: list[Prior], retry: Retry) -> None:
    assert {identifier for item in prior for identifier in done_ids(item, retry)} == DONE_BY_MODE[retry]


def test_failures_of_some_runs_only(prior: list[Prior]) -> None:
    assert list(done_ids(prior[2]._replace(runs=frozenset({"run-2", "run-3"})), "retryable")) == ["never-2"]


@pytest.fixture
def place(tmp_path: Path) -> Scratch:
    return Scratch(str(tmp_path / "scratch"), of_run=False)


def test_the_digests_without_those_of_a_reason(prior: list[Prior], place: Scratch, pipeline: Callable[[], Any]) -> None:
    def check(parts: list[Part]) -> None:
        found = DoneDigests(DoneKey(place).held(), parts)
        assert [name for name in sorted(DONE_BY_MODE["none"]) if digest(name) in found] == ["a", "b", "c", "later"]

    with pipeline() as p:
        found = p | Given([(item, False) for item in prior]) | DoneIds("none", ("refusal",), place)
        assert_that(found.done, check)


@pytest.mark.parametrize("retry", ["retryable", "all", "none"])
def test_the_digests_of_all_done_ids(
    prior: list[Prior], retry: Retry, place: Scratch, pipeline: Callable[[], Any]
) -> None:
    def check(parts: list[Part]) -> None:
        found = DoneDigests(DoneKey(place).held(), parts)
        assert {name for name in DONE_BY_MODE["none"] if digest(name) in found} == DONE_BY_MODE[retry]

    with pipeline() as p:
        found = p | Given([(item, False) for item in prior]) | DoneIds(retry, (), place)
        assert_that(found.done, check)
        assert_that(found[RECOVERED], equal_to([]), label="recovered")


def test_nothing_prior(place: Scratch, pipeline: Callable[[], Any]) -> None:
    with pipeline() as p:
        found = p | Given([]) | DoneIds("retryable", (), place)
        assert_that(found.done, equal_to([]))
        assert_that(found[RECOVERED], equal_to([]), label="recovered")


def test_what_this_launch_published_is_kept_apart(
    prior: list[Prior], place: Scratch, pipeline: Callable[[], Any]
) -> None:
    def holds(*names: str) -> Callable[[list[Part]], None]:
        def check(parts: list[Part]) -> None:
            found = DoneDigests(DoneKey(place).held(), parts)
            assert {name for name in ("a", "b", "c") if digest(name) in found} == set(names)

        return check

    with pipeline() as p:
        found = p | Given([(prior[0], False), (prior[1], True)]) | DoneIds("retryable", (), place)
        assert_that(found.done, holds("a", "b"))
        assert_that(found[RECOVERED], holds("a", "c"), label="recovered")


def test_done_records_are_counted_as_recovered_or_skipped(
    tmp_path: Path, place: Scratch, pipeline: Callable[[], Any], make: Any
) -> None:
    records = [make.record(identifier) for identifier in [*ODD_IDS, "old", "just recovered", "older"]]
    with pipeline() as p:
        old = p | "Old" >> beam.Create(make.done(tmp_path / "scratch", "old", "older", "just recovered", "k"))
        new = p | "New" >> beam.Create(make.done(tmp_path / "scratch", "just recovered"))
        found = p | beam.Create(records) | DropDone(Done.of(old, place), Done.of(new, place))
        left = found.records | beam.Map(lambda record: record.id)
        assert_that(left, equal_to([identifier for identifier in ODD_IDS if identifier != "k"]))
        tally = found[TALLY] | beam.CombineGlobally(total)
        assert_that(tally, equal_to([{"skipped": 3, "recovered": 1}]), label="tally")

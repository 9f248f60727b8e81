"""What earlier runs left in the tables, and the commit of a run that writes there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms import publish_table as publishing
from transforms import table_ids
from transforms.layout import Layout
from transforms.publish_table import publish_table
from transforms.recover import recover, write_header
from transforms.resume import done_ids
from transforms.table import Tables, TableSpec, table_spec
from transforms.table_ids import prior_ranges, prior_rows
from transforms.write import ShardFormat
from transforms.write_table import TableWriter

OLD, RUN = "20260101T000000-abcdef", "20260102T000000-bbbbbb"
HEADER = {"run_id": RUN, "started_at": "2026-01-02T00:00:00.000Z", "config": {}, "task_hash": "h", "task": {}}


@pytest.fixture
def spec(new_database: Callable[[], str], make: Any) -> TableSpec:
    spec = table_spec(f"{new_database()}#t", make.schema())
    tables = Tables(spec, write=True)
    tables.create()
    tables.close()
    return spec


def write(spec: TableSpec, kind: str, *rows: dict[str, Any]) -> None:
    writer = TableWriter(spec, kind)
    for row in rows:
        writer.write(row)
    writer.close()
    writer.disconnect()


def ids(spec: TableSpec, *, is_failures: bool) -> list[str]:
    return sorted(
        row["id"] for prior in prior_ranges(spec, "") if prior.is_failures == is_failures for row in prior_rows(prior)
    )


class TestPrior:
    @pytest.mark.parametrize("rows", [0, 1, 3, 6, 7])
    def test_ranges_hold_every_row_once(
        self, spec: TableSpec, make: Any, monkeypatch: pytest.MonkeyPatch, rows: int
    ) -> None:
        monkeypatch.setattr(table_ids, "RANGE_ROWS", 3)
        named = ["a", "A", "b", "\u00e9", "e\u0301", "Z", "\U0001f600"][:rows]
        write(spec, "ok", *map(make.result, named))
        write(spec, "failed", *(make.failure(f"f{name}") for name in named))
        ranges = prior_ranges(spec, RUN)
        assert len(ranges) == 2 * (rows // 3 + 1)
        assert ids(spec, is_failures=False) == sorted(named)
        assert ids(spec, is_failures=True) == sorted(f"f{name}" for name in named)

    def test_rows_that_the_run_itself_writes_are_not_done(self, spec: TableSpec, make: Any) -> None:
        write(spec, "ok", make.result("a"), make.result("b", run_id=RUN), make.result("c", run_id=None))
        write(spec, "failed", make.failure("d", "refusal"), make.failure("e", "refusal", run_id=RUN))
        found = sorted(id for prior in prior_ranges(spec, RUN) for id in done_ids(prior, "retryable"))
        assert found == ["a", "c", "d"]
        just = [id for prior in prior_ranges(spec, "other", frozenset({RUN})) for id in done_ids(prior, "none")]
        assert sorted(just) == ["b", "e"]

    @pytest.mark.parametrize(("retry", "done"), [("retryable", ["b"]), ("all", []), ("none", ["a", "b"])])
    def test_which_failures_are_done(self, spec: TableSpec, make: Any, retry: Any, done: list[str]) -> None:
        write(spec, "failed", make.failure("a"), make.failure("b", "refusal"), make.failure("c", "empty_input"))
        write(spec, "failed", make.failure(None, "bad_id"))
        assert sorted(id for prior in prior_ranges(spec, RUN) for id in done_ids(prior, retry)) == done


class TestPublish:
    def test_failures_that_each_run_finds_anew_are_those_of_this_run(
        self, spec: TableSpec, make: Any, tmp_path: Path
    ) -> None:
        layout, account = Layout(str(tmp_path)), dict[str, Any]()
        old = [make.failure("a", "empty_input"), make.failure("b"), make.failure("x", "duplicate_id")]
        write(spec, "failed", *old, make.failure("c", "empty_input", run_id=RUN), make.failure("d", run_id=RUN))
        publish_table(layout, RUN, spec, account)
        assert ids(spec, is_failures=True) == ["b", "c", "d"]
        assert account["carried_failures"] == 1

    def test_a_journal_is_delivered_however_often_it_is_cut_short(
        self, spec: TableSpec, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        layout = Layout(str(tmp_path))
        write_header(layout, HEADER, ShardFormat("parquet", 100, spec.schema))
        rows = [make.result("a", run_id=RUN), make.failure("b", run_id=RUN), make.result("c", run_id=RUN)]
        make.journal(Path(layout.journal(RUN)) / "x.jsonl", rows)
        write(spec, "failed", make.failure("a"))
        write(spec, "ok", rows[2])  # it had come so far itself
        for step in ("_settle", "files.write_json", "files.remove_folder"):
            with monkeypatch.context() as patch:
                patch.setattr(f"{publishing.__name__}.{step}", lambda *_arguments: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    recover(layout, RUN, spec)
            assert Path(layout.journal(RUN)).exists()
            assert ids(spec, is_failures=False) == ["a", "c"]
        assert recover(layout, RUN, spec).account is None  # only its removal was left
        assert not Path(layout.journal(RUN)).exists()
        assert ids(spec, is_failures=False) == ["a", "c"]
        assert ids(spec, is_failures=True) == ["b"]
        account = json.loads(Path(layout.account(RUN)).read_text())
        assert (account["ok"], account["failed"], account["status"]) == (2, 1, "failed")

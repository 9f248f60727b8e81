"""What an interrupted run left behind."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from transforms.journal import encode
from transforms.layout import Layout
from transforms.recover import finish_commits, interrupted_runs, read_header, recover, shard_format, write_header
from transforms.write import ShardFormat

RUN = "20260102T000000-bbbbbb"
HEADER = {
    "run_id": RUN,
    "started_at": "2026-01-02T00:00:00.000Z",
    "config": {},
    "task_hash": "h",
    "task": {"task.prompt": "p"},
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "out"))


@pytest.fixture
def journal(layout: Layout) -> Path:
    return Path(layout.journal(RUN))


def open_run(layout: Layout, make: Any, name: str = "jsonl", rows_per_shard: int = 100) -> None:
    write_header(layout, HEADER, ShardFormat(name, rows_per_shard, None if name == "jsonl" else make.schema()))


def published(make: Any, folder: str) -> list[dict[str, Any]]:
    return [row for path in sorted(Path(folder).glob("*")) for row in make.rows(path)]


def ids(make: Any, folder: str) -> list[str]:
    return sorted(row["id"] for row in published(make, folder))


class TestHeader:
    def test_the_format_comes_back(self, layout: Layout) -> None:
        schema = pa.schema([("id", pa.string()), ("t", pa.timestamp("ms", tz="UTC")), ("l", pa.list_(pa.int64()))])
        write_header(layout, HEADER, ShardFormat("parquet", 7, schema))
        header = read_header(layout, RUN)
        assert {key: header[key] for key in HEADER} == HEADER
        found = shard_format(header["shards"])
        assert (found.name, found.rows_per_shard) == ("parquet", 7)
        assert found.schema.equals(schema)

    def test_jsonl_has_no_schema(self, layout: Layout) -> None:
        write_header(layout, HEADER, ShardFormat("jsonl", 7))
        assert shard_format(read_header(layout, RUN)["shards"]) == ShardFormat("jsonl", 7, None)

    @pytest.mark.parametrize("text", ["[]", "{", ""])
    def test_what_is_no_header(self, layout: Layout, text: str) -> None:
        Path(layout.journal(RUN)).mkdir(parents=True)
        Path(layout.header(RUN)).write_text(text)
        with pytest.raises(ValueError, match=r"."):
            read_header(layout, RUN)


class TestRecover:
    @pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
    def test_rows_are_published_and_the_journal_goes(self, layout: Layout, journal: Path, make: Any, name: str) -> None:
        open_run(layout, make, name, rows_per_shard=2)
        make.journal(journal / "000000-00000000000-a.jsonl", [make.result("a"), make.failure("b"), make.result("c")])
        make.journal(journal / "000001-00000000000-b.jsonl", [make.result("d")])
        found = recover(layout, RUN)
        assert (found.run_id, found.ok, found.failed, found.damaged) == (RUN, 3, 1, 0)
        assert ids(make, layout.results) == ["a", "c", "d"]
        assert ids(make, layout.failures) == ["b"]
        assert [Path(path).name for path in layout.shards(layout.results)] == [
            f"{RUN}-00000-of-00002.{name}",
            f"{RUN}-00001-of-00002.{name}",
        ]
        assert not journal.exists()
        assert interrupted_runs(layout) == []
        if name == "parquet":
            times = {row["finished_at"] for row in published(make, layout.results)}
            assert times == {datetime(2026, 1, 31, 8, 0, 0, 123000, timezone.utc)}

    def test_its_account_adds_up(self, layout: Layout, journal: Path, make: Any) -> None:
        open_run(layout, make)
        make.journal(
            journal / "x.jsonl", [make.result("a"), make.failure("b", attempts=3), make.result("c", cost_usd=None)]
        )
        (journal / "plan.json").write_text(json.dumps({"rows": 10, "todo": 7}))
        found = recover(layout, RUN)
        account = json.loads(Path(layout.account(RUN)).read_text())
        assert found.account is not None
        assert found.account["status"] == account["status"] == "failed"
        assert "cut short" in account["stop_reason"]
        counts = [account[key] for key in ("total", "skipped", "recovered", "ok", "failed", "unprocessed")]
        assert counts == [10, 3, 0, 2, 1, 4]
        assert (account["calls"], account["cost_usd"], account["cost_unknown_rows"]) == (5, 0.25, 2)
        assert account["failures_by_reason"] == {"timeout": 1}
        assert (account["run_id"], account["task"]) == (RUN, HEADER["task"])

    def test_without_a_plan_what_is_there_is_all(self, layout: Layout, journal: Path, make: Any) -> None:
        open_run(layout, make)
        make.journal(journal / "x.jsonl", [make.result("a"), make.failure("b")])
        account = recover(layout, RUN).account
        assert account is not None
        counts = [account[key] for key in ("total", "skipped", "recovered", "ok", "failed", "unprocessed")]
        assert counts == [2, 0, 0, 1, 1, 0]

    def test_a_run_that_was_stopped_says_why(self, layout: Layout, journal: Path, make: Any) -> None:
        open_run(layout, make)
        make.journal(journal / "x.jsonl", [make.result("a")])
        (journal / "plan.json").write_text(json.dumps({"rows": 2, "todo": 2}))
        (journal / "stop.json").write_text(json.dumps({"kind": "auth", "message": "no such key"}))
        account = recover(layout, RUN).account
        assert account is not None
        assert (account["status"], account["stop_reason"]) == ("stopped", "auth: no such key")

    def test_an_id_is_published_once(self, layout: Layout, journal: Path, make: Any) -> None:
        open_run(layout, make)
        make.journal(journal / "a.jsonl", [make.result("a", output_text="first"), make.failure("f", "timeout")])
        make.journal(journal / "b.jsonl", [make.result("a", output_text="second"), make.failure("f", "refusal")])
        found = recover(layout, RUN)
        assert (found.ok, found.failed) == (1, 1)
        assert [row["output_text"] for row in published(make, layout.results)] == ["first"]
        assert [row["reason"] for row in published(make, layout.failures)] == ["timeout"]

    @pytest.mark.parametrize("order", ["ab", "ba"])
    def test_an_answer_goes_before_a_failure(self, layout: Layout, journal: Path, make: Any, order: str) -> None:
        open_run(layout, make)
        make.journal(journal / f"{order[0]}.jsonl", [make.failure("x"), make.failure("y")])
        make.journal(journal / f"{order[1]}.jsonl", [make.result("x")])
        recover(layout, RUN)
        assert ids(make, layout.results) == ["x"]
        assert ids(make, layout.failures) == ["y"]

    def test_an_answer_that_cannot_be_read_does_not_hide_a_failure(
        self, layout: Layout, journal: Path, make: Any
    ) -> None:
        open_run(layout, make)
        torn = encode(make.entry(make.result("x", deep={"k": 1}, cost_usd={"k": 1})))
        torn = torn[: torn.rfind(b'{"k":1}') + 7]
        assert torn.endswith(b"}")
        make.journal(journal / "a.jsonl", [make.failure("x", "refusal")])
        make.journal(journal / "b.jsonl", [], tail=torn)
        found = recover(layout, RUN)
        assert (found.ok, found.failed, found.damaged) == (0, 1, 1)
        assert ids(make, layout.failures) == ["x"]

    def test_damaged_lines_are_counted_and_cost_nothing_else(self, layout: Layout, journal: Path, make: Any) -> None:
        open_run(layout, make)
        torn = encode(make.entry(make.result("lost")))[:60]
        make.journal(journal / "a.jsonl", [make.result("a")], tail=torn + encode(make.entry(make.result("glued"))))
        make.journal(journal / "b.jsonl", [make.result("b")], tail=b"\0" * 99)
        make.journal(journal / "c.jsonl", [make.result("c")], tail=encode(make.entry(make.result("d")))[:-1])
        make.journal(journal / "e.jsonl", [make.result("e")], tail=torn)
        found = recover(layout, RUN)
        assert (found.ok, found.damaged) == (5, 2)
        assert ids(make, layout.results) == ["a", "b", "c", "d", "e"]

    def test_earlier_failures_stay_until_they_succeed(self, layout: Layout, journal: Path, make: Any) -> None:
        prior = [make.failure("again"), make.failure("stays", "refusal"), make.failure("gone", "empty_input")]
        make.jsonl(Path(layout.failures) / "old.jsonl", prior)
        open_run(layout, make)
        make.journal(journal / "x.jsonl", [make.result("again"), make.failure("new")])
        recover(layout, RUN)
        assert ids(make, layout.failures) == ["new", "stays"]
        assert len(layout.shards(layout.failures)) == 1

    def test_nothing_in_the_journal(self, layout: Layout, journal: Path, make: Any) -> None:
        make.jsonl(Path(layout.failures) / "old.jsonl", [make.failure("f")])
        open_run(layout, make)
        found = recover(layout, RUN)
        assert (found.ok, found.failed, found.account) == (0, 0, None)
        assert not journal.exists()
        assert [Path(path).name for path in layout.shards(layout.failures)] == ["old.jsonl"]
        assert layout.accounts() == []

    def test_a_run_with_an_account_is_published_already(self, layout: Layout, journal: Path, make: Any) -> None:
        open_run(layout, make)
        make.journal(journal / "x.jsonl", [make.result("a")])
        make.jsonl(Path(layout.account(RUN)), [{}])
        assert recover(layout, RUN).account is None
        assert not journal.exists()
        assert layout.shards(layout.results) == []

    @pytest.mark.parametrize("header", [None, "{", "[]"])
    def test_rows_without_a_header_are_named_and_kept(
        self, layout: Layout, journal: Path, make: Any, header: str | None
    ) -> None:
        path = make.journal(journal / "x.jsonl", [make.result("a")])
        if header is not None:
            Path(layout.header(RUN)).write_text(header)
        with pytest.raises(ValueError, match=r"run\.json: cannot be read") as caught:
            recover(layout, RUN)
        assert layout.header(RUN) in str(caught.value)
        assert path.exists()


def test_what_was_staged_without_a_commit_is_cleared(layout: Layout, make: Any) -> None:
    make.jsonl(Path(layout.staging(RUN)) / "x.jsonl", [make.result("a")])
    make.jsonl(Path(layout.staging(RUN)) / "commit.json.part", [])
    assert finish_commits(layout) == []
    assert not Path(layout.stages).exists()
    assert layout.shards(layout.results) == []


def test_runs_come_oldest_first(layout: Layout) -> None:
    for name in ("b", "a", "c"):
        Path(layout.journal(name)).mkdir(parents=True)
    assert interrupted_runs(layout) == ["a", "b", "c"]

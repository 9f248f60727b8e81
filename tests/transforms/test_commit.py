"""Publishing, and which earlier failures stay. What happens when it is cut short is in test_crashes."""

import json
from pathlib import Path
from typing import Any

import pytest

from transforms.commit import carried, is_planned, plan_commit, publish
from transforms.layout import Layout
from transforms.shards import Staged

RUN = "20260102T000000-bbbbbb"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "out"))


def stage(make: Any, layout: Layout, name: str, rows: list[dict[str, Any]]) -> Staged:
    path = make.jsonl(Path(layout.staging(RUN)) / name, rows)
    return Staged(str(path), len(rows))


def content(make: Any, folder: str) -> list[tuple[str, list[str]]]:
    """Each file of a folder with the ids in it."""
    return [(path.name, [row["id"] for row in make.rows(path)]) for path in sorted(Path(folder).glob("*"))]


class TestCarried:
    def rows(self, make: Any, tmp_path: Path, *rows: dict[str, Any]) -> list[str]:
        return [str(make.jsonl(tmp_path / f"{number}.jsonl", [row])) for number, row in enumerate(rows)]

    def test_untouched_rows_stay_as_they_are(self, make: Any, tmp_path: Path) -> None:
        rows = [make.failure("a"), make.failure("b", "refusal", message="caf\u00e9\u2028")]
        assert list(carried(self.rows(make, tmp_path, *rows), [])) == rows

    def test_ids_with_a_new_outcome_leave(self, make: Any, tmp_path: Path) -> None:
        prior = self.rows(make, tmp_path, *(make.failure(id) for id in ("a", "b", "k", "k\0")))
        assert [row["id"] for row in carried(prior, iter(["b", "other", "k"]))] == ["a", "k\0"]

    def test_what_was_found_before_a_call_is_dropped(self, make: Any, tmp_path: Path) -> None:
        rows = [make.failure("a", "duplicate_id"), make.failure("b", "empty_input"), make.failure(None, "bad_id")]
        assert list(carried(self.rows(make, tmp_path, *rows), [])) == []
        kept = make.failure("a", "refusal")
        assert list(carried(self.rows(make, tmp_path, *rows, kept), [])) == [kept]

    def test_an_id_that_stands_there_twice_is_carried_once(self, make: Any, tmp_path: Path) -> None:
        rows = [make.failure("a", message="first"), make.failure("a", message="second")]
        assert list(carried(self.rows(make, tmp_path, *rows), [])) == rows[:1]

    def test_nothing(self) -> None:
        assert list(carried([], ["a"])) == []


class TestPublish:
    def test_files_are_named_by_run_and_number(self, make: Any, layout: Layout) -> None:
        results = [
            stage(make, layout, name, [make.result(id) for id in ids])
            for name, ids in (("x.jsonl", "a"), ("y.jsonl", "bcd"))
        ]
        failures = [stage(make, layout, "f.jsonl", [make.failure("e")]), stage(make, layout, "g.jsonl", [])]
        make.journal(Path(layout.journal(RUN)) / "j.jsonl", [make.result("a")])
        publish(layout, RUN, results, failures[:1], [], {"status": "complete"})
        assert content(make, layout.results) == [
            (f"{RUN}-00000-of-00002.jsonl", ["b", "c", "d"]),
            (f"{RUN}-00001-of-00002.jsonl", ["a"]),
        ]
        assert content(make, layout.failures) == [(f"{RUN}-00000-of-00001.jsonl", ["e"])]
        account = json.loads(Path(layout.account(RUN)).read_text())
        assert account == {"status": "complete", "carried_failures": 0}
        assert not Path(layout.journal(RUN)).exists()
        assert not Path(layout.staging(RUN)).exists()
        assert not is_planned(layout, RUN)

    def test_failures_are_replaced_with_those_that_stay_in_one_file(self, make: Any, layout: Layout) -> None:
        prior = make.jsonl(Path(layout.failures) / "old.jsonl", [make.failure(id) for id in "abc"])
        results = [stage(make, layout, "r.jsonl", [make.result("a")])]
        failures = [stage(make, layout, "f.jsonl", [make.failure("b", "refusal"), make.failure(None, "bad_id")])]
        account: dict[str, Any] = {}
        publish(layout, RUN, results, failures, [str(prior)], account)
        assert content(make, layout.failures) == [(f"{RUN}-00000-of-00001.jsonl", ["b", None, "c"])]
        assert account["carried_failures"] == 1

    def test_a_later_record_with_the_same_id_does_not_free_the_first_from_its_failure(
        self, make: Any, layout: Layout
    ) -> None:
        # `a` was refused for good. Its duplicate is found anew by every run; were the refusal dropped for it, the
        # next run would pay for `a` again.
        refused = make.failure("a", "refusal")
        prior = make.jsonl(Path(layout.failures) / "old.jsonl", [refused, make.failure("a", "duplicate_id")])
        failures = [stage(make, layout, "f.jsonl", [make.failure("a", "duplicate_id", run_id=RUN)])]
        publish(layout, RUN, [], failures, [str(prior)], {})
        (path,) = Path(layout.failures).glob("*")
        assert sorted((row["reason"], row["run_id"]) for row in make.rows(path)) == [
            ("duplicate_id", RUN),
            ("refusal", refused["run_id"]),
        ]

    def test_a_row_that_is_set_aside_now_leaves_its_earlier_failure(self, make: Any, layout: Layout) -> None:
        prior = make.jsonl(Path(layout.failures) / "old.jsonl", [make.failure("a", "timeout")])
        failures = [stage(make, layout, "f.jsonl", [make.failure("a", "oversized_input")])]
        publish(layout, RUN, [], failures, [str(prior)], {})
        (path,) = Path(layout.failures).glob("*")
        assert [row["reason"] for row in make.rows(path)] == ["oversized_input"]

    def test_nothing_new_changes_no_result(self, make: Any, layout: Layout) -> None:
        path = make.jsonl(Path(layout.results) / "old.jsonl", [make.result("a")])
        before = path.stat()
        publish(layout, RUN, [], [], [], {"status": "complete"})
        assert content(make, layout.results) == [("old.jsonl", ["a"])]
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
        assert Path(layout.account(RUN)).exists()

    def test_doing_it_twice_is_doing_it_once(self, make: Any, layout: Layout) -> None:
        prior = make.jsonl(Path(layout.failures) / "old.jsonl", [make.failure("f")])
        results = [stage(make, layout, "r.jsonl", [make.result("a")])]
        publish(layout, RUN, results, [], [str(prior)], {"n": 1})
        # The engine does its last step again, with files that it has written again.
        again = [stage(make, layout, "again.jsonl", [make.result("a")])]
        publish(layout, RUN, again, [], [str(prior)], {"n": 2})
        assert content(make, layout.results) == [(f"{RUN}-00000-of-00001.jsonl", ["a"])]
        assert content(make, layout.failures) == [(f"{RUN}-00000-of-00001.jsonl", ["f"])]
        assert json.loads(Path(layout.account(RUN)).read_text())["n"] == 1

    def test_shards_of_three_runs(self, make: Any, layout: Layout) -> None:
        """Case 42: 50 rows in 5 files, then none, then 1: 51 rows, each once, of three generations none twice."""
        first, second, third = "r1", "r2", "r3"
        staged = [
            Staged(
                str(
                    make.jsonl(
                        Path(layout.staging(first)) / f"{part}.jsonl",
                        [make.result(f"{part}-{number}") for number in range(10)],
                    )
                ),
                10,
            )
            for part in range(5)
        ]
        publish(layout, first, staged, [], [], {})
        before = content(make, layout.results)
        publish(layout, second, [], [], [], {})
        assert content(make, layout.results) == before
        path = make.jsonl(Path(layout.staging(third)) / "x.jsonl", [make.result("new")])
        publish(layout, third, [Staged(str(path), 1)], [], [], {})
        ids = [id for _name, ids in content(make, layout.results) for id in ids]
        assert len(ids) == len(set(ids)) == 51
        assert len(layout.shards(layout.results)) == 6

    def test_unfinished_names_are_no_shards(self, layout: Layout) -> None:
        Path(layout.results).mkdir(parents=True)
        for name in ("a.parquet", "b.jsonl.part"):
            (Path(layout.results) / name).touch()
        assert [Path(path).name for path in layout.shards(layout.results)] == ["a.parquet"]
        assert layout.shards(layout.failures) == []


def test_a_commit_without_an_account_leaves_the_journal(make: Any, layout: Layout) -> None:
    old = make.jsonl(Path(layout.results) / "old.jsonl", [make.result("a")])
    journal = make.journal(Path(layout.journal(RUN)) / "j.jsonl", [make.result("a")])
    plan_commit(layout, RUN, [(str(old), f"{layout.replaced(RUN)}/results/old.jsonl")], [], None)
    assert is_planned(layout, RUN)
    assert old.exists()
    assert journal.exists()

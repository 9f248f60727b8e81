"""What an output holds, without a change to it; and what earlier rows teach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transforms import files
from transforms.commit import plan_commit
from transforms.digests import digest
from transforms.journal import HEADER_FILE
from transforms.layout import Layout
from transforms.learned import learned, of_run
from transforms.published import Published
from transforms.resume import Prior, done_ids
from transforms.standing import Standing, standing

RUN, LATER = "20260101T000000-abcdef", "20260102T000000-abcdef"
HASH = "0123456789abcdef"


def test_nothing(tmp_path: Path) -> None:
    assert standing(Layout(str(tmp_path / "none"))) == Standing(Published([], []), [], 0.0)
    assert not (tmp_path / "none").exists()


def test_results_failures_journals_and_dollars(tmp_path: Path, make: Any) -> None:
    layout = Layout(str(tmp_path))
    result = make.jsonl(tmp_path / "results" / f"{RUN}-00000-of-00001.jsonl", [make.result("a")])
    failure = make.jsonl(tmp_path / "failures" / f"{RUN}-00000-of-00001.jsonl", [make.failure("f")])
    files.write_json(layout.account(RUN), {"cost_usd": 2.0})
    journal = make.journal(tmp_path / "journal" / LATER / "s-1.jsonl", [make.result("b"), make.result("c")], b'{"torn')
    published = make.journal(tmp_path / "journal" / RUN / "s-1.jsonl", [make.result("a")])
    (tmp_path / "journal" / LATER / HEADER_FILE).write_text("{}")
    found = standing(layout)
    assert found == Standing(Published([str(result)], [str(failure)]), [str(journal)], 2.5)
    assert published.exists()


def test_a_commit_that_was_cut_short_counts_as_carried_out(tmp_path: Path, make: Any) -> None:
    layout = Layout(str(tmp_path))
    old = make.jsonl(tmp_path / "failures" / f"{RUN}-00000-of-00001.jsonl", [make.failure("f")])
    kept = make.jsonl(tmp_path / "results" / f"{RUN}-00000-of-00001.jsonl", [make.result("a")])
    staged = make.jsonl(tmp_path / "staging" / LATER / "x.jsonl", [make.result("b")])
    moved = make.jsonl(tmp_path / "failures" / f"{LATER}-00000-of-00001.jsonl", [make.failure("f")])
    make.journal(tmp_path / "journal" / LATER / "s-1.jsonl", [make.result("b")])
    moves = [
        (str(staged), f"{layout.results}/{LATER}-00000-of-00001.jsonl"),
        (f"{layout.staging(LATER)}/gone.jsonl", str(moved)),
    ]
    plan_commit(layout, LATER, moves, [str(old)], {"cost_usd": 0.5})
    before = sorted(tmp_path.rglob("*"))
    assert standing(layout) == Standing(Published([str(kept), str(staged)], [str(moved)]), [], 0.5)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_set_aside_to_be_done_again_is_there_no_more(tmp_path: Path, make: Any) -> None:
    layout = Layout(str(tmp_path))
    old = make.jsonl(tmp_path / "results" / f"{RUN}-00000-of-00001.jsonl", [make.result("a")])
    plan_commit(layout, LATER, [(str(old), f"{layout.replaced(LATER)}/results/{old.name}")], [], None)
    assert standing(layout).published.result_files == []


def test_what_is_done_in_a_journal(tmp_path: Path, make: Any) -> None:
    rows = [make.result("a"), make.failure("t", "timeout"), make.failure("f", "content_filter")]
    path = make.journal(tmp_path / "s-1.jsonl", rows, b'{"digest":"')
    prior = Prior(str(path), False, is_journal=True)
    assert list(done_ids(prior, "retryable")) == ["a", "f"]
    assert list(done_ids(prior, "all")) == ["a"]
    assert list(done_ids(prior, "none")) == ["a", "t", "f"]


@pytest.fixture
def output(tmp_path: Path, make: Any) -> Standing:
    rows = [make.result("a"), make.result("other", task_hash="x"), make.result("both", prompt_tokens=7, run_id=LATER)]
    results = make.jsonl(tmp_path / f"{LATER}-r.jsonl", rows)
    failed = [
        make.failure("both"),
        make.failure("f", "invalid_json", output_text="no", prompt_tokens=3, completion_tokens=4),
        make.failure("t", "timeout"),
        make.failure("u", "invalid_json", output_text="no"),
        make.failure("e", "empty_input", attempts=0),
        make.failure(None, "bad_record"),
    ]
    failures = make.jsonl(tmp_path / f"{LATER}-f.jsonl", failed)
    journal = make.journal(tmp_path / "j.jsonl", [make.result("j"), make.result("a", prompt_tokens=99)], b"torn")
    return Standing(Published([str(results)], [str(failures)]), [str(journal)], 0.0)


def test_rows_of_the_task_teach_once_each(output: Standing) -> None:
    found = {item.digest: item.observation for item in learned(output, HASH)}
    assert set(found) == {digest(identifier) for identifier in ("a", "both", "f", "t", "u", "j")}
    assert list(found) == sorted(found)
    tokens = {name: found[digest(name)][2:4] for name in ("a", "both", "f", "t", "u")}
    assert tokens == {"a": (20, 5), "both": (7, 5), "f": (3, 4), "t": (0, 0), "u": (None, None)}
    assert [found[digest(name)].ok for name in ("a", "both", "f")] == [True, True, False]
    assert learned(output, "unknown") == []


def test_rows_of_one_run(output: Standing) -> None:
    assert [item.digest for item in of_run(output.published, LATER)] == [digest("both")]


def test_many_rows_teach_as_an_even_sample(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.learned._MOST", 10)
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(make.result(str(n))) + "\n" for n in range(100)))
    found = learned(Standing(Published([str(path)]), [], 0.0), HASH)
    assert [item.digest for item in found] == sorted(digest(str(n)) for n in range(100))[:10]

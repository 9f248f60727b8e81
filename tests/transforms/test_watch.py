"""Progress, read from the journal while it grows."""

import json
from pathlib import Path
from typing import Any

import pytest

from transforms.journal import encode
from transforms.watch import JournalWatch, Progress

RUN = "20260101T000000-abcdef"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "journal" / RUN
    folder.mkdir(parents=True)
    return folder


def test_before_anything_is_there(tmp_path: Path) -> None:
    assert JournalWatch(str(tmp_path), RUN).update() == Progress()


def test_the_plan_says_how_much_there_is(tmp_path: Path, folder: Path) -> None:
    watch = JournalWatch(str(tmp_path), RUN)
    assert watch.update().todo is None
    (folder / "plan.json").write_text(json.dumps({"rows": 10, "todo": 7}))
    progress = watch.update()
    assert (progress.rows, progress.todo, progress.done) == (10, 7, 0)


def test_counts_what_was_added_once(tmp_path: Path, folder: Path, make: Any) -> None:
    watch = JournalWatch(str(tmp_path), RUN)
    first = folder / "000000-00000000000-a.jsonl"
    make.journal(first, [make.result("a"), make.failure("b", attempts=3)])
    (folder / "run.json").write_text("{}")
    for _again in range(3):
        progress = watch.update()
        assert (progress.ok, progress.failed, progress.done) == (1, 1, 2)
    with first.open("ab") as stream:
        stream.write(encode(make.entry(make.result("c"))))
    make.journal(folder / "000001-00000000000-b.jsonl", [make.result("d", prompt_tokens=None, cost_usd=None)])
    progress = watch.update()
    assert (progress.ok, progress.failed, progress.done) == (3, 1, 4)
    assert progress.tokens == 20 + 5 + 20 + 5 + 5
    assert progress.cost_usd == 0.5
    assert progress.tally["calls"] == 6


def test_a_torn_line_is_counted_when_it_is_complete(tmp_path: Path, folder: Path, make: Any) -> None:
    watch = JournalWatch(str(tmp_path), RUN)
    line = encode(make.entry(make.result("b")))
    path = make.journal(folder / "x.jsonl", [make.result("a")], tail=line[:-1])
    assert watch.update().ok == 1
    with path.open("ab") as stream:
        stream.write(line[-1:])
    assert watch.update().ok == 2
    assert watch.update().ok == 2


def test_damaged_lines_are_passed_over(tmp_path: Path, folder: Path, make: Any) -> None:
    path = make.journal(folder / "x.jsonl", [make.result("a")], tail=b"\0\0\n{torn\n")
    with path.open("ab") as stream:
        stream.write(encode(make.entry(make.result("b"))))
    watch = JournalWatch(str(tmp_path), RUN)
    assert watch.update().ok == 2


def test_unknown_cost_is_not_nothing(tmp_path: Path, folder: Path, make: Any) -> None:
    make.journal(folder / "x.jsonl", [make.result("a", cost_usd=None)])
    assert JournalWatch(str(tmp_path), RUN).update().cost_usd is None

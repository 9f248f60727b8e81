"""The index of a run's journal: what is there is found, at any time, and read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transforms import span_index
from transforms.digests import digest
from transforms.journal import DEAD_LETTER, OK, Entry, JournalFile, encode
from transforms.span_index import SpanIndex, scan

SPAN = "000000-00000000000"


def entry(index: SpanIndex, id: str, span: str = SPAN) -> Entry | None:
    index.load(span)
    return index.find(span, digest(id))


def test_finds_outcomes_of_their_span_alone(tmp_path: Path, make: Any) -> None:
    rows = [make.result("a"), make.failure("b"), make.result("c")]
    make.journal(tmp_path / f"{SPAN}-000001.jsonl", rows)
    make.journal(tmp_path / "000001-00000000000-000001.jsonl", [make.result("d")])
    index = SpanIndex(str(tmp_path))
    assert entry(index, "a") == Entry(digest("a"), OK, rows[0])
    assert entry(index, "b") == Entry(digest("b"), DEAD_LETTER, rows[1])
    assert entry(index, "d") is None
    assert entry(index, "d", "000001-00000000000") is not None
    assert entry(index, "a", "000002-00000000000") is None


def test_many_rows_in_many_files(tmp_path: Path, make: Any) -> None:
    rows = [make.result(str(number), output_text="x" * (number % 7)) for number in range(500)]
    for part in range(5):
        make.journal(tmp_path / f"{SPAN}-00000{part + 1}.jsonl", rows[part::5])
    index = SpanIndex(str(tmp_path))
    index.load(SPAN)
    assert [index.find(SPAN, digest(row["id"])) for row in rows] == [make.entry(row) for row in rows]


@pytest.mark.parametrize("block", [1, 7, 100, 1000])
def test_lines_across_blocks(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(span_index, "_BLOCK_BYTES", block)
    lines = [encode(make.entry(make.result(id))) for id in "abc"]
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines[0] + b"\n\0\n" + lines[1] + lines[2][:-1])
    found = scan(str(path), 0)
    end = len(lines[0] + lines[1]) + 3
    assert (found.digests, found.end) == (digest("a") + digest("b"), end)
    assert list(found.offsets) == [0, len(lines[0]) + 3]
    with path.open("ab") as stream:
        stream.write(b"\n")
    more = scan(str(path), end)
    assert (more.digests, list(more.offsets), more.end) == (digest("c"), [end], path.stat().st_size)


def test_a_long_line(tmp_path: Path, make: Any) -> None:
    rows = [make.result(id, output_text=id * 20_000) for id in "abc"]
    make.journal(tmp_path / f"{SPAN}-000001.jsonl", rows)
    index = SpanIndex(str(tmp_path))
    assert [entry(index, id) for id in "abc"] == [make.entry(row) for row in rows]


def test_each_load_sees_what_is_new_and_reads_nothing_twice(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    original = scan
    monkeypatch.setattr(span_index, "scan", lambda path, start: (starts.append(start), original(path, start))[1])
    index = SpanIndex(str(tmp_path))
    assert entry(index, "a") is None
    path = make.journal(tmp_path / f"{SPAN}-000001.jsonl", [make.result("a")])
    assert entry(index, "a") is not None
    size = path.stat().st_size
    line = encode(make.entry(make.result("b")))
    with path.open("ab") as stream:
        stream.write(line[:50])
    assert entry(index, "b") is None
    with path.open("ab") as stream:
        stream.write(line[50:])
    make.journal(tmp_path / f"{SPAN}-000002.jsonl", [make.result("c")])
    assert [entry(index, id) is not None for id in "abc"] == [True, True, True]
    assert starts == [0, size, size, 0]


def test_what_others_write_is_seen_line_by_line(tmp_path: Path, make: Any) -> None:
    index, others = SpanIndex(str(tmp_path)), [JournalFile(str(tmp_path), SPAN) for _ in range(3)]
    for number in range(300):
        others[number % 3].append(make.entry(make.result(str(number))))
        assert entry(index, str(number)) is not None
    for other in others:
        other.close()
    assert all(index.find(SPAN, digest(str(number))) for number in range(300))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{SPAN}-00000{number}.jsonl" for number in (1, 2, 3)]
    assert len(index._segments[SPAN]) < 10


def test_a_file_of_its_own_is_left_out(tmp_path: Path, make: Any) -> None:
    own, other = JournalFile(str(tmp_path), SPAN), JournalFile(str(tmp_path), SPAN)
    assert own.path is None
    own.append(make.entry(make.result("a")))
    other.append(make.entry(make.result("b")))
    index = SpanIndex(str(tmp_path))
    index.load(SPAN, own.path)
    assert [index.find(SPAN, digest(id)) is not None for id in "ab"] == [False, True]
    own.close()
    assert own.path is None  # whoever comes next reads it
    other.close()
    assert entry(index, "a") is not None


def test_a_folder_that_is_gone_has_nothing(tmp_path: Path, make: Any) -> None:
    path = make.journal(tmp_path / "run" / f"{SPAN}-000001.jsonl", [make.result("a")])
    index = SpanIndex(str(path.parent))
    assert entry(index, "a") is not None
    path.unlink()
    path.parent.rmdir()
    index.load(SPAN)
    assert entry(SpanIndex(str(path.parent)), "a") is None


def test_no_folder_is_listed(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of spans that would be most of a small bundle's time."""
    make.journal(tmp_path / f"{SPAN}-000001.jsonl", [make.result("a")])

    def refused(folder: str) -> Any:
        raise AssertionError(folder)

    monkeypatch.setattr(span_index.files, "listing", refused)
    index = SpanIndex(str(tmp_path))
    index.refresh()
    assert entry(index, "a") is not None


def test_other_files_are_none_of_its_business(tmp_path: Path) -> None:
    for name in ("run.json", "plan.json", "stop.json", "plan.json.part"):
        (tmp_path / name).write_text("{}")
    assert entry(SpanIndex(str(tmp_path)), "a") is None

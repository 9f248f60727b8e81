"""Input as it really comes: what cannot be called is set aside and found anew by each run, the rest is unharmed."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

UNSAFE = ["../../etc/x", "a/b c:d", "two\nlines", " pad ", "pad", "=cmd()", "\u202eabc", "k\0", "k", "x" * 5000, "42"]
ENDS = ["one\u2028two", "one\u2029two", "one\x85two", "one\x1ctwo", "one\r\ntwo"]


def line(**row: Any) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def test_lines_that_are_set_aside(workspace: Any, own_server: Any, runner: list[str]) -> None:
    lines = [
        line(id="a", text="first"),
        line(id="a", text="first"),  # the same record again: no failure
        line(id="a", text="another"),
        line(id="empty", text="  \t"),
        line(id="long", text="x" * 9000),
        b'{"id": "torn", "te\n',
        b"[1, 2]\n",
        line(id=1.5, text="a float"),
        line(id=None, text="null"),
        line(id="", text="empty id"),
        line(text="no id"),
        b'{"id": "latin", "text": "caf\xe9"}\n',
        b'{"id": "b", "text": "NaN is no text", "n": NaN}\r\n',
        b"\n",
        line(id=7, text="an integer"),
        line(id="last", text="without a line end").rstrip(),
    ]
    expected = {
        "bad_encoding": 1,
        "bad_id": 4,
        "bad_record": 2,
        "duplicate_id": 1,
        "empty_input": 1,
        "oversized_input": 1,
    }
    workspace.write_input([])
    (workspace.input / "part-0.jsonl").write_bytes(b"".join(lines))
    workspace.configure(own_server.url, task={"prompt": "{text}"}, input={"max_chars": 8000})

    first = workspace.run(*runner)

    assert first.code == 0, first.err
    assert first.counts == {"total": 15, "skipped": 1, "recovered": 0, "ok": 4, "failed": 10, "unprocessed": 0}
    assert workspace.account()["failures_by_reason"] == expected
    assert workspace.ids() == ["7", "a", "b", "last"]
    assert own_server.calls == 4
    failures = workspace.failures()
    assert {row["reason"]: row["id"] for row in failures if row["id"]} == {
        "duplicate_id": "a",
        "empty_input": "empty",
        "oversized_input": "long",
    }
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    assert {row["source"]["position"] for row in failures} == {starts[n] for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)}
    assert all(row["attempts"] == 0 and row["retryable"] is False for row in failures)

    for retry in ([], ["--retry=all"]):
        again = workspace.run(*retry)
        assert again.code == 0, again.err
        assert again.counts == {"total": 15, "skipped": 5, "recovered": 0, "ok": 0, "failed": 10, "unprocessed": 0}
        assert own_server.calls == 4
        assert named(workspace.failures()) == named(failures)


def named(failures: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return sorted((row["reason"], str(row["id"]), row["message"], str(row["source"])) for row in failures)


def test_ids_and_line_ends_that_others_stumble_over(workspace: Any, own_server: Any) -> None:
    """Ids are never used as anything but ids, and what is no LF ends no line."""
    rows = [{"id": name, "text": f"text of row {number}"} for number, name in enumerate(UNSAFE)]
    rows += [{"id": f"end {number}", "text": text} for number, text in enumerate(ENDS)]
    rows += [{"id": "caf\u00e9", "text": "composed"}, {"id": "cafe\u0301", "text": "decomposed"}]
    workspace.write_input(rows)
    own_server.script = lambda row, _number: (
        own_server.error(400, "filtered", "content_filter") if row in ("two\nlines", "end 0") else own_server.answer()
    )
    workspace.configure(own_server.url, input={"carry": ["text"]})
    outside = {path for path in workspace.folder.rglob("*") if workspace.output not in path.parents}

    ran = workspace.run()

    assert (ran.code, ran.counts["ok"], ran.counts["failed"]) == (0, len(rows) - 2, 2), ran.err
    found = {row["id"]: row["text"] for row in workspace.results()}
    found |= {row["id"]: row["input"]["text"] for row in workspace.failures()}
    assert found == {row["id"]: row["text"] for row in rows}
    assert len(workspace.failures()) == 2
    assert all(b"\xe2\x80\xa8" not in file.read_bytes() for file in workspace.output.glob("failures/*"))
    new = {path for path in workspace.folder.rglob("*") if workspace.output not in path.parents} - outside
    assert {path.name for path in new} == {"out", "run-0", "stdout", "stderr"}
    assert workspace.run().counts["skipped"] == len(rows)
    assert own_server.calls == len(rows)


def test_rows_without_an_id_column(workspace: Any, own_server: Any) -> None:
    rows = [{"text": f"text {number}"} for number in range(20)]
    workspace.write_input([*rows, rows[0]])
    workspace.configure(own_server.url, task={"prompt": "{text}"}, input={"id": None})
    first = workspace.run()
    assert (first.code, first.counts["ok"], first.counts["skipped"]) == (0, 20, 1), first.err
    workspace.write_input(rows[::-1], files=3)
    assert workspace.run().counts["skipped"] == 20
    assert own_server.calls == 20


def test_a_packed_file_that_is_cut(workspace: Any, own_server: Any) -> None:
    """The rows before the cut are done, the file is named, and the end is not called good."""
    rows = workspace.rows(400)
    for row in rows:  # text that packs badly, so that the cut is far from the end
        row["text"] = " ".join(format(hash_of(f"{row['id']} {n}"), "x") for n in range(20))
    workspace.write_input([])
    whole = gzip.compress(b"".join(line(**row) for row in rows))
    packed = workspace.input / "packed.jsonl.gz"
    packed.write_bytes(whole[: len(whole) // 2])
    (workspace.input / "plain.jsonl").write_bytes(b"".join(line(**row) for row in workspace.rows(5, start=1000)))
    readable = zlib.decompressobj(wbits=31).decompress(packed.read_bytes()).count(b"\n")
    assert 100 < readable < 300
    workspace.configure(own_server.url)

    ran = workspace.run()

    assert ran.code == 1, ran.err
    assert str(packed) in ran.err
    assert workspace.ids() == [row["id"] for row in (*rows[:readable], *workspace.rows(5, start=1000))]
    [failure] = workspace.failures()
    assert (failure["reason"], Path(failure["source"]["file"])) == ("bad_record", packed)
    calls = own_server.calls
    assert (workspace.run().code, own_server.calls) == (1, calls)

    packed.write_bytes(whole)
    healed = workspace.run()

    assert healed.code == 0, healed.err
    assert own_server.calls == 405
    assert workspace.failures() == []
    assert len(workspace.ids()) == 405


def test_packed_files_whatever_their_names_say(workspace: Any, own_server: Any) -> None:
    workspace.write_input([])
    lines = [line(**row) for row in workspace.rows(6)]
    two_members = gzip.compress(b"".join(lines[:2])) + gzip.compress(b"".join(lines[2:4]))
    (workspace.input / "members.jsonl.gz").write_bytes(two_members)
    (workspace.input / "plain.jsonl.gz").write_bytes(lines[4])
    (workspace.input / "packed.jsonl").write_bytes(gzip.compress(lines[5]))
    workspace.configure(own_server.url)
    ran = workspace.run()
    assert (ran.code, ran.counts["ok"]) == (0, 6), ran.err


def hash_of(text: str) -> int:
    return zlib.crc32(text.encode()) * 2654435761

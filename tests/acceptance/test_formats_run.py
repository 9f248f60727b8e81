"""Any file in: whole runs on each format, and what is said before the first call where that cannot work."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "inputs"


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=";")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-16")


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, row_group_size=7)
    return buffer.getvalue()


def as_requests(rows: list[dict[str, Any]]) -> bytes:
    return as_jsonl(
        [
            {
                "custom_id": row["id"],
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": "another", "messages": [{"role": "user", "content": f"{row['id']}|{row['text']}"}]},
            }
            for row in rows
        ]
    )


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.csv", as_csv),
        ("a.csv.zst", lambda rows: zstandard.compress(as_csv(rows))),
        ("a", as_parquet),
        ("a.gz", lambda rows: gzip.compress(as_jsonl(rows))),
    ],
)
def test_a_run_and_its_resume(
    workspace: Any,
    own_server: Any,
    runner: list[str],
    name: str,
    make: Callable[[list[dict[str, Any]]], bytes],
) -> None:
    rows = workspace.rows(30)
    workspace.write_input([])
    (workspace.input / name).write_bytes(make(rows))
    workspace.configure(own_server.url, input={"path": str(workspace.input), "carry": ["text"]})

    first = workspace.run(*runner)

    assert (first.code, first.counts["ok"]) == (0, 30), first.err
    assert {row["id"]: row["text"] for row in workspace.results()} == {row["id"]: row["text"] for row in rows}
    assert workspace.run().counts["skipped"] == 30
    (workspace.input / name).unlink()  # the same rows, in another format, other files, another order
    (workspace.input / "b").write_bytes(as_parquet(rows[:10]))
    (workspace.input / "a.tsv").write_bytes(as_csv(rows[10:]).decode("utf-16").replace(";", "\t").encode())
    again = workspace.run()
    assert (again.code, again.counts["skipped"]) == (0, 30), again.err
    assert own_server.calls == 30


def test_batch_requests_pass_as_the_prompt(workspace: Any, own_server: Any) -> None:
    rows = workspace.rows(5)
    workspace.write_input([])
    (workspace.input / "requests.jsonl").write_bytes(as_requests(rows))
    workspace.configure(own_server.url, task={"prompt": "{text}"})
    ran = workspace.run()
    assert (ran.code, ran.counts["ok"]) == (0, 5), ran.err
    assert set(own_server.requests) == set(workspace.ids()) == {row["id"] for row in rows}
    assert ran.err.count("set model otherwise") == 1


def test_lines_and_files(workspace: Any, own_server: Any) -> None:
    workspace.write_input([])
    (workspace.input / "a.txt").write_bytes(b"one|\n\ntwo|\r\none|\n")
    workspace.configure(own_server.url, task={"prompt": "{text}"})
    ran = workspace.run()
    assert (ran.code, ran.counts["ok"], ran.counts["skipped"]) == (0, 2, 1), ran.err
    assert set(own_server.requests) == {"one", "two"}
    files = workspace.run("--set", "input.format=file", "--output", str(workspace.folder / "files"))
    assert (files.code, files.counts["ok"]) == (0, 1), files.err


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_carried_columns_of_parquet_keep_their_types(workspace: Any, own_server: Any, form: str) -> None:
    """Case 14: nested fields in the prompt, types in the results."""
    if not CASES.is_dir():
        pytest.skip(f"the collected inputs are not there: {CASES}")
    workspace.write_input([])
    (workspace.input / "in").write_bytes((CASES / "14_nested_types.parquet").read_bytes())
    carried = ["ts", "day", "price", "raw", "tags", "meta", "attrs", "cat"]
    workspace.configure(
        own_server.url,
        task={"prompt": "{id}|{meta.deep.z} {attrs.u} {tags}"},
        input={"carry": carried},
        output={"format": form},
    )
    ran = workspace.run()
    assert (ran.code, ran.counts["ok"]) == (0, 2), ran.err
    [shard] = workspace.output.glob("results/*")
    if form == "jsonl":
        rows = [json.loads(line) for line in shard.read_bytes().split(b"\n") if line]
        first = next(row for row in rows if row["id"] == "a")
        expected: list[Any] = ["2021-05-04T22:44:02.776767", "2020-02-29", "12.3400", "/wA=", ["p", None]]
        assert [first[name] for name in carried] == [*expected, {"k": 1, "deep": {"z": [1.5, None]}}, {"u": 1}, "red"]
        return
    table = pq.read_table(shard)
    kinds = [table.schema.field(name).type for name in carried]
    assert kinds[:4] == [pa.timestamp("ns"), pa.date32(), pa.decimal128(12, 4), pa.binary()]
    assert [pa.types.is_list(kinds[4]), pa.types.is_struct(kinds[5]), pa.types.is_map(kinds[6])] == [True] * 3
    first = next(row for row in table.select(["id", *carried]).to_pylist() if row["id"] == "a")
    assert datetime.fromisoformat(str(first["ts"])) == datetime(2021, 5, 4, 22, 44, 2, 776767)
    assert (first["day"], first["price"], first["raw"]) == (date(2020, 2, 29), Decimal("12.3400"), b"\xff\0")
    assert (first["meta"], first["attrs"]) == ({"k": 1, "deep": {"z": [1.5, None]}}, [("u", 1)])
    again = workspace.run()  # the types of the run before are read again
    assert (again.code, again.counts["skipped"]) == (0, 2), again.err


def test_a_quote_that_is_never_closed_fails_the_run(workspace: Any, own_server: Any) -> None:
    workspace.write_input([])
    path = workspace.input / "a.csv"
    path.write_bytes(b'id,text\na,1\nb,2\nc,"never\nd,4\ne,5\n')
    workspace.configure(own_server.url)
    ran = workspace.run()
    assert ran.code == 1, ran.err
    assert str(path) in ran.err
    assert workspace.ids() == ["a", "b"]
    [failure] = workspace.failures()
    assert "never closed" in failure["message"]
    path.write_bytes(path.read_bytes().replace(b'"', b""))
    healed = workspace.run()
    assert (healed.code, healed.counts["ok"], workspace.failures()) == (0, 3, []), healed.err
    assert own_server.calls == 5


BAD = {
    "a JSON array": ("a.json", b'[{"id": "a", "text": "x"}]', ["JSON array", "jq"]),
    "a cut Parquet file": ("a.parquet", as_parquet([{"id": "a", "text": "x"}])[:-9], ["damaged or cut"]),
    "an empty Parquet file": ("a.parquet", b"", ["no Parquet file"]),
    "a CSV without the id": ("a.csv", b"key,text\n1,x\n", ["'id'", "key, text"]),
    "a CSV without the text": ("a.csv", b"id,body\n1,x\n", ["{text}", "id, body"]),
    "a Parquet file without the text": ("a", as_parquet([{"id": "a", "body": "x"}]), ["{text}", "id, body"]),
    "JSONL without the id": ("a.jsonl", b'{"key": 1, "text": "x"}\n' * 3, ["'id'", "key, text"]),
    "JSONL without the text": ("a.jsonl", b'{"id": 1, "body": "x"}\n' * 3, ["'text'", "id, body"]),
    "columns of one name": ("a.csv", b"id,text,text\n1,x,y\n", ["2 columns", "'text'"]),
    "an unknown ending": ("a.md", b"# Title", ["input.format"]),
    "lines without the id": ("a.txt", b"x\n", ["{id}", "text"]),
}


@pytest.mark.parametrize(("name", "content", "named"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_named_before_the_first_call(
    workspace: Any, own_server: Any, name: str, content: bytes, named: list[str]
) -> None:
    workspace.write_input(workspace.rows(5))  # a file that is fine, beside it
    (workspace.input / name).write_bytes(content)
    workspace.configure(own_server.url)
    ran = workspace.run()
    assert ran.code == 2, ran.err
    [line] = ran.err.splitlines()
    assert all(part in line for part in [str(workspace.input / name), *named]), line
    assert own_server.calls == 0
    assert not workspace.output.exists()

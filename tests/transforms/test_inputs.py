"""Which files are read, and what each of them is found to be."""

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transforms.formats.detect import format_of
from transforms.formats.spans import InputError, InputFile, Reading
from transforms.inputs import Surveyed, find_inputs, survey
from transforms.read import read_records, split

REQUEST = b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": []}}\n'


class TestFindInputs:
    def test_each_file_once_in_the_order_of_paths(self, tmp_path: Path) -> None:
        for name, size in (("b.jsonl", 2), ("a.jsonl", 1), ("c.txt", 3)):
            (tmp_path / name).write_bytes(b"x" * size)
        found = find_inputs([f"{tmp_path}/b.jsonl", f"{tmp_path}/*.jsonl"])
        assert found == [InputFile(f"{tmp_path}/a.jsonl", 0, 1), InputFile(f"{tmp_path}/b.jsonl", 1, 2)]

    def test_a_pattern_without_files_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").touch()
        (tmp_path / "empty" / "_temporary").mkdir(parents=True)
        (tmp_path / "empty" / "_temporary" / "a.jsonl").touch()
        for pattern in (f"{tmp_path}/nothing*", f"{tmp_path}/empty", f"{tmp_path}/nothing/"):
            with pytest.raises(InputError, match=rf"no file matches '{pattern.replace('*', '[*]')}'"):
                find_inputs([f"{tmp_path}/a.jsonl", pattern])
        with pytest.raises(InputError, match="names no file"):
            find_inputs([])

    @pytest.mark.parametrize("end", ["", "/"])
    def test_a_folder_is_all_that_is_in_it_and_below(self, tmp_path: Path, end: str) -> None:
        names = ["b.csv", "a/c.jsonl", "a/b/d", "_SUCCESS", ".hidden", "_tmp/x.jsonl", ".git/y", "a/[e]"]
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        found = [Path(item.path).relative_to(tmp_path).as_posix() for item in find_inputs([f"{tmp_path}{end}"])]
        assert found == ["a/[e]", "a/b/d", "a/c.jsonl", "b.csv"]

    @pytest.mark.parametrize("end", ["", "/", "/**"])
    def test_on_a_store_too(self, s3: Any, end: str) -> None:
        for name in ("b.csv", "a/c.jsonl", "a/b/d"):
            s3.put(f"in/{name}", b"x" * len(name))
        if end != "/**":
            for name in ("_SUCCESS", ".hidden", "_tmp/x.jsonl", ".git/y", "folder/"):
                s3.put(f"in/{name}", b"")
        s3.put("input/other.jsonl", b"")
        found = find_inputs([f"{s3.root}/in{end}"])
        assert [(item.path.removeprefix(f"{s3.root}/in/"), item.size) for item in found] == [
            ("a/b/d", 5),
            ("a/c.jsonl", 9),
            ("b.csv", 5),
        ]
        with pytest.raises(InputError, match="no file matches 's3://"):
            find_inputs([f"{s3.root}/nothing"])


def detected(folder: Path, name: str, content: bytes, stated: str = "auto") -> str:
    path = folder / name
    path.write_bytes(content)
    return format_of(str(path), stated, "utf-8")


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.txt", b'{"id": "a"}\n', "jsonl"),
        ("a", b'\xef\xbb\xbf\n  {"id": "a"}', "jsonl"),
        ("a.csv", gzip.compress(b'{"id": "a"}\n'), "jsonl"),
        ("a", '{"id": "a"}\n'.encode("utf-16"), "jsonl"),
        ("a", b'not json\n{"id": "a"}\n', "jsonl"),
        ("a", b'[1, 2]\n{"id": "a"}\n', "jsonl"),
        ("a", b'[{"x": 1}]\n{"id": "a"}\n', "jsonl"),
        ("a.jsonl", b'{"id": "torn', "jsonl"),
        ("a.ndjson", b"x", "jsonl"),
        ("a.jsonl", REQUEST, "openai_batch"),
        ("a.csv", b"id,text\n", "csv"),
        ("A.CSV.GZ", b"id,text\n", "csv"),
        ("a.csv", bz2.compress(b"id,text\n"), "csv"),
        ("a.tsv", b"id\ttext\n", "tsv"),
        ("a.txt", b"[{not json", "text"),
        ("a.txt.zst", b"plain", "text"),
        ("a", b"", "jsonl"),
        ("a.csv", b"", "csv"),
    ],
)
def test_content_first_and_then_the_name(tmp_path: Path, name: str, content: bytes, found: str) -> None:
    assert detected(tmp_path, name, content) == found


@pytest.mark.parametrize("name", ["a", "a.csv", "a.jsonl", "a.parquet"])
def test_parquet_is_told_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / name)
    assert format_of(str(tmp_path / name), "auto", "utf-8") == "parquet"


@pytest.mark.parametrize("stated", ["text", "file", "csv", "tsv", "jsonl", "openai_batch"])
def test_what_is_set_is_what_it_is(tmp_path: Path, stated: str) -> None:
    assert detected(tmp_path, "a.md", b'{"id": "a"}\n', stated) == stated


@pytest.mark.parametrize(
    ("name", "content", "stated", "said"),
    [
        ("a.md", b"# Title", "auto", "a.md: neither content nor name .* set input.format"),
        ("noname", b"x,y\n", "auto", "set input.format"),
        (
            "a.json",
            b'[{"id": "a"}, {"id": "b"}]',
            "auto",
            r"a.json: is a JSON array, .*jq -c '\.\[\]' a.json > a.jsonl",
        ),
        ("a.json", b'[\n  {"id": "a"},\n  {"id": "b"}\n]\n', "auto", "JSON array"),
        ("a.json", b'\n[{"id": "a"},\n{"id": "b"}]\n', "jsonl", "JSON array"),
        ("a", gzip.compress(b'[{"id": "' + b"x" * 100_000 + b'"}]'), "auto", "JSON array"),
        ("a.json", b'{\n  "id": "a"\n}\n', "auto", r"one JSON object over several lines.*jq -c '\.'"),
        ("a.xlsx", b"PK\x03\x04....", "auto", "ZIP"),
        ("a.csv", b"PK\x03\x04....", "csv", "ZIP"),
        ("a.jsonl.xz", b"\xfd7zXZ\x00....", "auto", "xz"),
        ("a.orc", b"ORC....", "auto", "ORC"),
        ("a.avro", b"Obj\x01....", "auto", "Avro"),
        ("a.parquet", b"PAR0....", "auto", "a.parquet: is no Parquet file"),
        ("a", b"id,text", "parquet", "is no Parquet file"),
        ("a", b"PAR1....", "csv", "is a Parquet file, and input.format is csv"),
        ("a", gzip.compress(b"PAR1...."), "auto", "unpack it"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, stated: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        detected(tmp_path, name, content, stated)


class TestSurvey:
    def survey(self, folder: Path, **files: bytes) -> list[Surveyed]:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return list(survey(find_inputs([str(folder)]), Reading()))

    def test_each_file_has_its_format_and_columns(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"id": [1], "ts": pa.array([1], pa.timestamp("us"))}), tmp_path / "c")
        found = self.survey(tmp_path, a=b'{"id": 1}\n{"id": 2, "x": 3}\n[]\n', b=REQUEST, d=b"")
        assert [(each.item.format, each.columns) for each in found] == [
            ("jsonl", ("id", "x")),
            ("openai_batch", ("custom_id", "system", "text")),
            ("parquet", ("id", "ts")),
            ("jsonl", ()),
        ]
        assert [each.types for each in found] == [None, None, {"id": pa.int64(), "ts": pa.timestamp("us")}, None]

    def test_what_requests_ask_for(self, tmp_path: Path) -> None:
        value = json.loads(REQUEST)
        value["body"] = {"model": "m", "temperature": 1, "messages": []}
        (found,) = self.survey(tmp_path, a=json.dumps(value).encode())
        assert found.parameters == {"model": "m", "temperature": 1}

    @pytest.mark.parametrize(
        ("reading", "ids"),
        [
            (Reading(), ["hash", "FILE", "r"]),
            (Reading(id_column=None), ["hash", "hash", "hash"]),
            (Reading(id_column="text"), ["x", "x", "x"]),
            (Reading(id_column="path"), ["bad_id", "FILE", "bad_id"]),
        ],
    )
    def test_ids_where_no_column_is_named_id(self, tmp_path: Path, reading: Reading, ids: list[str]) -> None:
        value = json.loads(REQUEST)
        value["custom_id"], value["body"] = "r", {"messages": [{"role": "user", "content": "x"}]}
        (tmp_path / "x").write_bytes(b"x")
        (tmp_path / "r").write_text(json.dumps(value))
        found: list[Any] = []
        for name, kind in (("x", "text"), ("x", "file"), ("r", "openai_batch")):
            item = InputFile(f"{tmp_path}/{name}", 0, 1, kind)
            for span in split(item, 100, reading):
                for record in read_records(span, reading):
                    id = getattr(record, "id", None) or record.reason  # type: ignore[union-attr]
                    found.append("FILE" if id == item.path else "hash" if len(id) == 32 else id)
        assert found == ids

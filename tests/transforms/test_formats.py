"""What a standard writer wrote is read back, record by record, whatever the texts and however it is cut in spans."""

import base64
import bz2
import csv
import gzip
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transforms.formats.arrow_values import plain_values, typed_value, value_type
from transforms.formats.delimited import DELIMITERS
from transforms.formats.spans import InputError, InputFile, Reading
from transforms.inputs import find_inputs, survey
from transforms.read import BadRecord, order_of, read_records, split
from transforms.records import Record, canonical_json
from transforms.rows import type_name, type_of
from transforms.screen import misfit

NASTY = st.sampled_from(
    [
        "a",
        '"',
        '""',
        ",",
        ";",
        "\t",
        "|",
        "\n",
        "\r",
        "\r\n",
        "\0",
        "\u2028",
        "\x85",
        "\ufeff",
        "é",
        "😀",
        " ",
        "'",
        "\\",
    ]
)
TEXTS = st.lists(NASTY, max_size=8).map("".join) | st.text(max_size=8)
ROWS = st.lists(st.tuples(TEXTS.filter(bool), TEXTS), max_size=12)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstd": zstandard.compress,
}


def surveyed(folder: Path | str, reading: Reading) -> list[InputFile]:
    return [each.item for each in survey(find_inputs([str(folder)]), reading)]


def read_all(folder: Path | str, reading: Reading | None = None, length: int = 1 << 20) -> list[Record | BadRecord]:
    """All that is in a folder, in order, read in spans of `length`; each span's key is its own and they sort."""
    reading = reading or Reading()
    found: list[Record | BadRecord] = []
    keys = []
    for item in surveyed(folder, reading):
        for span in split(item, length, reading):
            keys.append(span.key)
            found += read_records(span, reading)
    assert keys == sorted(set(keys))
    orders = [order_of(record) for record in found if isinstance(record, Record)]
    assert orders == sorted(set(orders))
    for record in found:
        canonical_json(record.fields).encode()  # fit for a journal
    return found


def pairs(found: Sequence[Record | BadRecord]) -> list[tuple[str, Any]]:
    assert all(isinstance(record, Record) for record in found), found
    return [(record.id, record.fields["text"]) for record in found if isinstance(record, Record)]


def write(name: str, content: bytes, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path


def one(folder: Path, name: str, content: bytes, reading: Reading | None = None) -> list[Record | BadRecord]:
    """What is read of one file."""
    write(name, content, folder / "in")
    return read_all(folder / "in", reading)


def shown(found: Sequence[Record | BadRecord]) -> list[Any]:
    """Ids of records, and reasons and positions of what is none."""
    return [item.id if isinstance(item, Record) else (item.reason, item.position, item.cut) for item in found]


# Round trips


@given(ROWS, st.sampled_from(sorted(PACKERS)), st.integers(1, 200), st.booleans())
@settings(deadline=None)
def test_jsonl(rows: list[tuple[str, str]], packer: str, length: int, ascii_only: bool) -> None:
    lines = [json.dumps({"id": name, "text": text}, ensure_ascii=ascii_only) for name, text in rows]
    with tempfile.TemporaryDirectory() as folder:
        write("in", PACKERS[packer]("".join(line + "\n" for line in lines).encode()), Path(folder))
        assert pairs(read_all(folder, length=length)) == rows


@given(
    ROWS,
    st.sampled_from(sorted(PACKERS)),
    st.sampled_from(DELIMITERS),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@settings(deadline=None)
@example([("a", 'x"\r\n\0,y')], "plain", ";", "\r", "utf-16", csv.QUOTE_ALL)
def test_csv(rows: list[tuple[str, str]], packer: str, delimiter: str, end: str, encoding: str, quoting: Any) -> None:
    text = io.StringIO(newline="")
    if any(mark in value for row in rows for value in row for mark in "\r\n"):
        quoting = csv.QUOTE_ALL  # Python's writer sees only its own line end
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([("id", "text"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        write("in.csv", PACKERS[packer](text.getvalue().encode(encoding)), Path(folder))
        assert pairs(read_all(folder)) == rows


@given(ROWS, st.integers(1, 5), st.integers(1, 400))
@settings(deadline=None)
def test_parquet(rows: list[tuple[str, str]], group: int, length: int) -> None:
    table = pa.table(
        {"id": pa.array([row[0] for row in rows], pa.string()), "text": pa.array([row[1] for row in rows], pa.string())}
    )
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, Path(folder, "in"), row_group_size=group)
        found = read_all(folder, length=length)
        assert pairs(found) == rows
        assert [record.position for record in found] == list(range(len(rows)))


@given(st.lists(TEXTS.map(lambda text: text.replace("\n", "").rstrip("\r")), max_size=12), st.integers(1, 60))
@settings(deadline=None)
@example(["a", "a"], 1)
def test_text(lines: list[str], length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write("in.txt", "".join(line + "\n" for line in lines).encode(), Path(folder))
        found = read_all(folder, Reading(format="text"), length)
    expected = [line.removeprefix("\ufeff") if at == 0 else line for at, line in enumerate(lines)]
    assert [record.fields for record in found] == [
        {"text": line} for line in expected if line and not line.encode().isspace()
    ]


@given(TEXTS, st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.sampled_from(sorted(PACKERS)))
@settings(deadline=None)
def test_file(text: str, encoding: str, packer: str) -> None:
    text = text.lstrip("\ufeff")  # a mark at the start is no text
    with tempfile.TemporaryDirectory() as folder:
        path = write("a b.md", PACKERS[packer](text.encode(encoding)), Path(folder))
        (record,) = read_all(folder, Reading(format="file"))
        assert record.fields == {"path": str(path), "text": text}
        assert record.id == str(path)  # type: ignore[union-attr]


@given(ROWS, st.booleans(), st.integers(1, 300))
@settings(deadline=None)
def test_openai_batch(rows: list[tuple[str, str]], with_system: bool, length: int) -> None:
    def request(name: str, text: str) -> bytes:
        messages = [{"role": "system", "content": "be kind"}] * with_system + [{"role": "user", "content": text}]
        value = {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {"messages": messages}}
        return json.dumps(value).encode() + b"\n"

    with tempfile.TemporaryDirectory() as folder:
        write("in", b"".join(request(*row) for row in rows), Path(folder))
        found = read_all(folder, length=length)
    assert pairs(found) == rows
    assert all(record.fields["system"] == ("be kind" if with_system else "") for record in found)


def test_how_a_file_is_cut_changes_no_id(tmp_path: Path) -> None:
    rows = [{"text": f"line {n}", "n": n} for n in range(50)]
    ids = set()
    for length in (7, 100, 10_000):
        for name, form in (("a.jsonl", "jsonl"), ("a.parquet", "parquet")):
            folder = tmp_path / f"{form}-{length}"
            folder.mkdir()
            if form == "jsonl":
                (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            else:
                pq.write_table(pa.Table.from_pylist(rows), folder / name, row_group_size=3)
            found = read_all(folder, Reading(id_column=None), length)
            ids.add(tuple(record.id for record in found if isinstance(record, Record)))
    assert len(ids) == 1
    assert len(set(ids.pop())) == 50


# CSV


class TestDelimited:
    def test_values_are_the_text_of_the_file(self, tmp_path: Path) -> None:
        (record,) = one(tmp_path, "a.csv", b"id,text,n,empty,flag\n007, x ,1.50,,TRUE\n")
        assert record.fields == {"id": "007", "text": " x ", "n": "1.50", "empty": "", "flag": "TRUE"}
        assert isinstance(record, Record)
        assert record.id == "007"

    def test_positions_are_bytes(self, tmp_path: Path) -> None:
        content = 'id,text\r\né,1\r\n\r\nb,"2\r\n3"\r\nc,4'.encode()
        found = one(tmp_path, "a.csv", content)
        assert [content[record.position : record.position + 1] for record in found] == [b"\xc3", b"b", b"c"]
        assert one(tmp_path, "a.csv", b"\xef\xbb\xbf" + content)[0].position == found[0].position + 3
        wide = one(tmp_path, "a.csv", b"\xff\xfe" + content.decode().encode("utf-16-le"))
        assert [record.position for record in wide] == [2 + 2 * len(b"id,text\r\n"), 2 + 2 * 16, 2 + 2 * 26]

    @pytest.mark.parametrize(
        ("header", "row", "fields"),
        [
            ("id;a,b", "1;2", {"id": "1", "a,b": "2"}),  # as often: the comma comes first, but see below
            ("id;x;a,b", "1;2;3", {"id": "1", "x": "2", "a,b": "3"}),
            ('"a,b,c";id', "x;1", {"a,b,c": "x", "id": "1"}),
            ("id\ttext", "1\tx,y", {"id": "1", "text": "x,y"}),
            ("id|text", "1|x", {"id": "1", "text": "x"}),
            ("id", "1", {"id": "1"}),
            ("sep=#\r\nid#text", "1#x", {"id": "1", "text": "x"}),
            ("\r\n\nid;text", "1;x", {"id": "1", "text": "x"}),
        ][1:],
    )
    def test_the_delimiter_is_found_in_the_header(
        self, tmp_path: Path, header: str, row: str, fields: dict[str, str]
    ) -> None:
        assert [record.fields for record in one(tmp_path, "a.csv", f"{header}\n{row}\n".encode())] == [fields]

    def test_a_delimiter_that_is_set(self, tmp_path: Path) -> None:
        (record,) = one(tmp_path, "a.csv", b"id~a,b\n1~2\n", Reading(delimiter="~"))
        assert record.fields == {"id": "1", "a,b": "2"}

    def test_tsv_is_split_at_tabs_alone(self, tmp_path: Path) -> None:
        (record,) = one(tmp_path, "a.tsv", b"id\ta,b,c\n1\t2,3,4\n")
        assert record.fields == {"id": "1", "a,b,c": "2,3,4"}

    def test_rows_that_are_broken_harm_no_other(self, tmp_path: Path) -> None:
        content = b'id,text\na,1\nb\nc,1,2\nd,caf\xe9\ne,"x"y\nf,"ok"\n,no id\ng,\xed\xa0\xbd\nh,end'
        found = one(tmp_path, "a.csv", content)
        assert shown(found) == [
            "a",
            ("bad_record", 12, False),
            ("bad_record", 14, False),
            ("bad_encoding", 20, False),
            ("bad_record", 27, False),
            "f",
            ("bad_id", 41, False),
            ("bad_encoding", 48, False),
            "h",
        ]
        assert found[1].fields == ["b"]
        assert found[3].fields == "d,caf\ufffd\n"
        assert found[4].fields == 'e,"x"y\n'

    def test_nul_stays(self, tmp_path: Path) -> None:
        assert pairs(one(tmp_path, "a.csv", b'id,text\nk\0,"x\0\ny"\nk,z\n')) == [("k\0", "x\0\ny"), ("k", "z")]

    @pytest.mark.parametrize("tail", ["", "\n", "\nb,2\nc,3\n", "\r\nb,2"])
    def test_a_quote_that_is_never_closed_cuts_the_file(self, tmp_path: Path, tail: str) -> None:
        *found, last = one(tmp_path, "a.csv", f'id,text\na,1\nq,"never{tail}'.encode())
        assert shown([*found, last]) == ["a", ("bad_record", 12, True)]
        assert "never closed" in last.message  # type: ignore[union-attr]

    def test_a_quote_that_is_never_closed_is_not_read_for_ever(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("transforms.formats.delimited.MAX_ROW_CHARS", 1000)
        found = one(tmp_path, "a.csv", b'id,text\na,1\nq,"' + b"x\n" * 5000)
        assert shown(found) == ["a", ("bad_record", 12, True)]

    def test_a_long_field(self, tmp_path: Path) -> None:
        assert pairs(one(tmp_path, "a.csv", b"id,text\na," + b"x" * 500_000 + b"\n")) == [("a", "x" * 500_000)]

    @pytest.mark.parametrize("content", [b"id,text\n", b"id,text", b"", b"\xef\xbb\xbfid,text\r\n"])
    def test_a_header_alone_has_no_rows(self, tmp_path: Path, content: bytes) -> None:
        assert one(tmp_path, "a.csv", content) == []

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"id,text,id\n", "2 columns of the header are named 'id'"),
            (b"id,,text\n", "column 2 of the header has no name"),
            (b"id,text,\n", "column 3 of the header has no name"),
            (b'id,"text\na,b\n', "header cannot be read"),
            (b"id,caf\xe9\n", "see input.encoding"),
        ],
    )
    def test_headers_that_are_none(self, tmp_path: Path, content: bytes, said: str) -> None:
        with pytest.raises(InputError, match=rf"a\.csv: .*{said}"):
            one(tmp_path, "a.csv", content)

    def test_encodings(self, tmp_path: Path) -> None:
        content = "id,text\na,“é€”\n".encode("cp1252")
        assert pairs(one(tmp_path, "a.csv", content, Reading(encoding="cp1252"))) == [("a", "“é€”")]
        assert shown(one(tmp_path, "a.csv", content)) == [("bad_encoding", 8, False)]
        broken = content + b"b,\x81\nc,x\n"  # which cp1252 leaves out
        assert shown(one(tmp_path, "a.csv", broken, Reading(encoding="cp1252"))) == [
            "a",
            ("bad_encoding", len(content), False),
            "c",
        ]

    def test_half_a_pair_in_utf_16(self, tmp_path: Path) -> None:
        content = "\ufeffid,text\na,x\nb,\ud83dy\nc,z\n".encode("utf-16-le", "surrogatepass")
        assert [item if isinstance(item, str) else item[0] for item in shown(one(tmp_path, "a.csv", content))] == [
            "a",
            "bad_encoding",
            "c",
        ]


# Parquet

TYPES = pa.table(
    {
        "id": pa.array(["a", "b"]).dictionary_encode(),
        "ns": pa.array([1620168242776767001, None], pa.timestamp("ns")),
        "zone": pa.array([1620168242776000, -1], pa.timestamp("us", "Europe/Berlin")),
        "day": pa.array([18321, -719162 - 366], pa.date32()),
        "time": pa.array([3723000040, None], pa.time64("us")),
        "for": pa.array([1500, -90_000], pa.duration("ms")),
        "price": pa.array(["12.3400", "-0.0001"]).cast(pa.decimal128(12, 4)),
        "raw": pa.array([b"\xff\0", None]),
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        "f32": pa.array([0.1, float("nan")], pa.float32()),
        "f64": pa.array([float("inf"), 0.1]),
        "u64": pa.array([2**64 - 1, 0], pa.uint64()),
        "list": pa.array([["p", None], []], pa.large_list(pa.large_string())),
        "struct": pa.array([{"k": 1, "deep": {"z": [1.5, float("nan")]}}, None]),
        "map": pa.array([[("u", 1)], None], pa.map_(pa.string(), pa.int64())),
        "pairs": pa.array([[(1, 18321)], [(2, None), (3, 0)]], pa.map_(pa.int32(), pa.date32())),
        "none": pa.nulls(2),
    }
)
PLAIN = [
    {
        "id": "a",
        "ns": "2021-05-04T22:44:02.776767001",
        "zone": "2021-05-04T22:44:02.776Z",
        "day": "2020-02-29",
        "time": "01:02:03.00004",
        "for": "PT1.5S",
        "price": "12.3400",
        "raw": "/wA=",
        "fixed": "YWI=",
        "f32": 0.1,
        "f64": None,
        "u64": 2**64 - 1,
        "list": ["p", None],
        "struct": {"k": 1, "deep": {"z": [1.5, None]}},
        "map": {"u": 1},
        "pairs": [[1, "2020-02-29"]],
        "none": None,
    },
    {
        "id": "b",
        "ns": None,
        "zone": "1969-12-31T23:59:59.999999Z",
        "day": "0000-01-01",
        "time": None,
        "for": "-PT90S",
        "price": "-0.0001",
        "raw": None,
        "fixed": "Y2Q=",
        "f32": None,
        "f64": 0.1,
        "u64": 0,
        "list": [],
        "struct": None,
        "map": None,
        "pairs": [[2, None], [3, "1970-01-01"]],
        "none": None,
    },
]


class TestParquet:
    @pytest.mark.parametrize("group", [1, 2])
    def test_every_type_as_json(self, tmp_path: Path, group: int) -> None:
        pq.write_table(TYPES, tmp_path / "a.parquet", row_group_size=group)
        found = read_all(tmp_path)
        assert [record.fields for record in found] == PLAIN
        assert shown(found) == ["a", "b"]

    @pytest.mark.parametrize(
        ("values", "ids"),
        [
            (pa.array(["a", "é"], pa.large_string()), ["a", "é"]),
            (pa.array([7, -1], pa.int8()), ["7", "-1"]),
            (pa.array([2**64 - 1, 0], pa.uint64()), [str(2**64 - 1), "0"]),
            (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
            (pa.array([7, 8]).dictionary_encode(), ["7", "8"]),
            (pa.array(["a", None]), ["a", "bad_id"]),
            (pa.array(["", "b"]), ["bad_id", "b"]),
            (pa.array([1.0, 2.0]), ["bad_id", "bad_id"]),
            (pa.array([True, False]), ["bad_id", "bad_id"]),
            (pa.array([0, 1], pa.timestamp("s")), ["bad_id", "bad_id"]),
            (pa.array([b"a", b"b"]), ["bad_id", "bad_id"]),
            (pa.array(["1", "2"]).cast(pa.decimal128(5)), ["bad_id", "bad_id"]),
            (pa.array([["a"], ["b"]]), ["bad_id", "bad_id"]),
        ],
    )
    def test_ids_are_text_or_integers(self, tmp_path: Path, values: pa.Array, ids: list[str]) -> None:
        pq.write_table(pa.table({"id": values}), tmp_path / "a.parquet")
        assert [item if isinstance(item, str) else item[0] for item in shown(read_all(tmp_path))] == ids

    def test_text_that_is_not_utf8_costs_its_row_alone(self, tmp_path: Path) -> None:
        raw = pa.array([b"fine", b"cut \xed\xa0\xbd emoji", b"caf\xe9", b"fine too"])
        table = pa.table({"id": ["a", "b", "c", "d"], "text": pa.Array.from_buffers(pa.string(), 4, raw.buffers())})
        pq.write_table(table, tmp_path / "a.parquet")
        found = read_all(tmp_path)
        assert shown(found) == ["a", "b", ("bad_encoding", 2, False), "d"]
        assert found[1].fields["text"].startswith("cut \ufffd")
        assert found[2].fields["id"] == "c"

    def test_no_rows(self, tmp_path: Path) -> None:
        pq.write_table(TYPES.slice(0, 0), tmp_path / "a.parquet")
        assert read_all(tmp_path) == []

    @pytest.mark.parametrize("keep", [0, 2, 4, 20, -1, -8])
    def test_a_cut_file_is_named(self, tmp_path: Path, keep: int) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(TYPES, path)
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(InputError, match=r"a\.parquet: "):
            read_all(tmp_path)

    def test_damage_in_the_middle_cuts_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        table = pa.table({"id": [str(n) for n in range(3000)], "text": [f"text {n * n}" for n in range(3000)]})
        pq.write_table(table, path, row_group_size=1000, compression="zstd")
        content = bytearray(path.read_bytes())
        start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
        content[start : start + 400] = bytes(400)
        path.write_bytes(content)
        found = read_all(tmp_path, length=1)
        assert [item.position for item in found if isinstance(item, BadRecord) and item.cut] == [1000]
        assert sum(isinstance(item, Record) for item in found) == 2000  # the row groups beside it

    def test_values_go_back_to_the_type_they_are_carried_with(self) -> None:
        for name in TYPES.schema.names:
            column = TYPES[name].combine_chunks()
            kind = type_of(json.loads(json.dumps(type_name(value_type(column.type)))))
            values = [row[name] for row in PLAIN]
            restored = pa.array([typed_value(value, kind) for value in values], kind)
            assert plain_values(restored) == values
            assert [misfit(name, value, kind) for value in values] == [None, None]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ns", "no"),
            ("ns", 3),
            ("zone", ["x"]),
            ("day", "2020-02-30"),
            ("day", 3),
            ("time", "25:00:00"),
            ("for", "90 s"),
            ("price", "no"),
            ("price", "123456789.5"),
            ("raw", "no base64"),
            ("list", 3),
            ("struct", "x"),
            ("pairs", [[1, "no"]]),
            ("u64", -1),
            ("u64", 1.5),
        ],
    )
    def test_values_that_do_not_fit_are_told(self, name: str, value: Any) -> None:
        assert misfit(name, value, value_type(TYPES.schema.field(name).type)) is not None


# Batch requests


def request(**changes: Any) -> bytes:
    value = {
        "custom_id": "r1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [{"role": "user", "content": "hello"}]},
    }
    return json.dumps({**value, **changes}).encode() + b"\n"


def messages(*given: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in given]}


class TestOpenAIBatch:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"url": "/v1/embeddings"}, "/v1/embeddings"),
            ({"body": messages(("user", "a"), ("assistant", "b"), ("user", "c"))}, "user, assistant, user"),
            ({"body": messages(("assistant", "a"))}, "assistant"),
            ({"body": messages(("user", "a"), ("user", "b"))}, "user, user"),
            ({"body": messages()}, "nobody"),
            ({"body": {"model": "m"}}, "no messages"),
            ({"body": messages(("user", [{"type": "image_url", "image_url": {"url": "x"}}]))}, "images"),
            ({"body": messages(("user", None))}, "only text"),
        ],
    )
    def test_what_is_more_than_a_text(self, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
        first, bad, last = one(tmp_path, "a", request(custom_id="a") + request(**changes) + request(custom_id="b"))
        assert isinstance(bad, BadRecord)
        assert (bad.reason, shown([first, last])) == ("bad_record", ["a", "b"])
        assert said in bad.message

    def test_parts_of_text_are_joined_and_developer_is_system(self, tmp_path: Path) -> None:
        parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        (record,) = one(tmp_path, "a", request(body=messages(("developer", "be kind"), ("user", parts))))
        assert record.fields == {"custom_id": "r1", "system": "be kind", "text": "one\ntwo"}

    @pytest.mark.parametrize("custom_id", ["", None, 1.5])
    def test_bad_ids(self, tmp_path: Path, custom_id: Any) -> None:
        assert [item[0] for item in shown(one(tmp_path, "a", request(custom_id=custom_id)))] == ["bad_id"]

    def test_a_lone_surrogate_in_the_id(self, tmp_path: Path) -> None:
        assert shown(one(tmp_path, "a", request(custom_id="x\ud83d"))) == [("bad_id", 0, False)]


def test_files_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.formats.whole_file.MAX_CHARS", 10)
    for name, content in (("a", b"fine"), ("b", b"caf\xe9"), ("c", b"x" * 11), ("d", gzip.compress(b"fine")[:-9])):
        write(name, content, tmp_path / "in")
    found = read_all(tmp_path / "in", Reading(format="file"))
    assert shown(found) == [
        f"{tmp_path}/in/a",
        ("bad_encoding", 0, False),
        ("bad_record", 0, False),
        ("bad_record", 0, True),
    ]
    assert found[1].fields == {"path": f"{tmp_path}/in/b", "text": "caf\ufffd"}


# Packing


@pytest.mark.parametrize("name", ["gzip", "bzip2", "zstd"])
class TestPacked:
    LINES = tuple(b'{"id": "%d", "text": "%s"}\n' % (n, base64.b16encode(b"%d" % n**9)) for n in range(3000))

    def test_parts_one_after_another(self, tmp_path: Path, name: str) -> None:
        pack = PACKERS[name]
        content = pack(b"".join(self.LINES[:5]) + b'{"id"') + pack(b': "x"}\n') + pack(b"") + pack(b'{"id": "last"}')
        assert shown(one(tmp_path, "a.txt", content)) == ["0", "1", "2", "3", "4", "x", "last"]

    @pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
    def test_a_cut_file_gives_what_comes_before(self, tmp_path: Path, name: str, share: float) -> None:
        pack = PACKERS[name]
        parts = [pack(b"".join(self.LINES[at : at + 100])) for at in range(0, 3000, 100)]
        whole = b"".join(parts)
        kept = whole[: int(len(whole) * share)]
        parts_kept = sum(sum(map(len, parts[: at + 1])) <= len(kept) for at in range(len(parts)))
        *found, last = one(tmp_path, "a.jsonl", kept)
        assert isinstance(last, BadRecord)
        assert last.cut
        ids = shown(found)
        assert ids == [str(n) for n in range(len(ids))]
        assert len(ids) >= 100 * parts_kept

    def test_damage_is_never_silent(self, tmp_path: Path, name: str) -> None:
        content = bytearray(PACKERS[name](b"".join(self.LINES)))
        content[len(content) // 2] ^= 0xFF
        if name == "zstd":  # which has no checksum unless it is asked for
            content = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"".join(self.LINES)))
            content[-2] ^= 0xFF
        assert shown(one(tmp_path, "a", content))[-1][2] is True
        rubbish = PACKERS[name](self.LINES[0]) + b"rubbish"
        assert [item[2] for item in shown(one(tmp_path, "a", rubbish)) if isinstance(item, tuple)] == [True]

    def test_other_formats_inside(self, tmp_path: Path, name: str) -> None:
        assert pairs(one(tmp_path, "a.csv", PACKERS[name](b"id;text\n1;x\n"))) == [("1", "x")]

"""Files -> spans -> lines -> records."""

import gzip
import json
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import example, given
from hypothesis import strategies as st

from transforms.formats.lines import Line, read_lines
from transforms.formats.spans import Cut, InputFile, Reading, Span
from transforms.inputs import find_inputs
from transforms.read import (
    DEAD_LETTER,
    MAX_SPAN_BYTES,
    MIN_FAR_SPAN_BYTES,
    MIN_SPAN_BYTES,
    SPANS,
    BadRecord,
    Read,
    Spans,
    first_fields,
    order_of,
    read_records,
    span_bytes,
    split,
)
from transforms.records import Record
from transforms.tally import TALLY, total

READING = Reading()


def whole(path: Path) -> Span:
    return Span(str(path), 0, 0, None)


def lines(path: Path, content: bytes) -> list[tuple[int, bytes]]:
    path.write_bytes(content)
    return [tuple(item) for item in read_lines(whole(path))]


def records(path: Path, id_column: str | None = "id") -> list[Record]:
    found = list(read_records(whole(path), Reading(id_column)))
    assert all(isinstance(item, Record) for item in found), found
    return found  # type: ignore[return-value]


class TestLines:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "in.jsonl"

    @pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x1c", "\x0b", "\x0c", "\r"])
    def test_lf_alone_ends_a_line(self, path: Path, mark: str) -> None:
        text = f"one{mark}two".encode()
        assert lines(path, text + b"\nthree\n") == [(0, text), (len(text) + 1, b"three")]

    def test_one_cr_before_lf_is_dropped(self, path: Path) -> None:
        assert lines(path, b"a\r\nb\r\r\nc\r") == [(0, b"a"), (3, b"b\r"), (7, b"c")]

    def test_the_last_line_needs_no_end(self, path: Path) -> None:
        assert lines(path, b"a\nb") == [(0, b"a"), (2, b"b")]

    def test_blank_lines_are_left_out_and_count_for_positions(self, path: Path) -> None:
        assert lines(path, b"\n\r\n  \t\na\n\nb\n\n") == [(7, b"a"), (10, b"b")]

    def test_a_byte_order_mark_is_dropped_at_the_beginning_only(self, path: Path) -> None:
        bom = b"\xef\xbb\xbf"
        assert lines(path, bom + b"a\n" + bom + b"b\n") == [(0, b"a"), (5, bom + b"b")]
        assert lines(path, bom + b"\na\n") == [(4, b"a")]
        assert lines(path, bom) == []

    def test_nul_bytes_stay(self, path: Path) -> None:
        assert lines(path, b"a\0b\n\0\n") == [(0, b"a\0b"), (4, b"\0")]

    def test_an_empty_file_has_no_span_and_no_line(self, path: Path) -> None:
        assert lines(path, b"") == []
        assert list(split(InputFile(str(path), 0, 0), 10, READING)) == []


class TestGzip:
    @pytest.fixture
    def rows(self) -> bytes:
        return b"".join(b'{"id": "%d", "t": "%x"}\n' % (n, zlib.crc32(b"%d" % n)) for n in range(500))

    @pytest.mark.parametrize("name", ["in.jsonl.gz", "in.jsonl", "in"])
    def test_told_by_content_not_by_name(self, tmp_path: Path, rows: bytes, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(rows)
        plain = [tuple(item) for item in read_lines(whole(path))]
        path.write_bytes(gzip.compress(rows))
        packed = [tuple(item) for item in read_lines(whole(path))]
        assert packed == plain
        assert len(packed) == 500

    def test_every_member_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "in.gz"
        # The second member goes on in the middle of a line.
        assert lines(path, gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n") + b"\0" * 100) == [
            (0, b"a"),
            (2, b"bc"),
            (5, b"d"),
        ]

    def test_a_byte_order_mark_inside(self, tmp_path: Path) -> None:
        assert lines(tmp_path / "in.gz", gzip.compress(b"\xef\xbb\xbfa\n")) == [(0, b"a")]

    def test_a_packed_file_is_one_span(self, tmp_path: Path, rows: bytes) -> None:
        path = tmp_path / "in"
        path.write_bytes(gzip.compress(rows))
        assert list(split(InputFile(str(path), 3, path.stat().st_size), 10, READING)) == [Span(str(path), 3, 0, None)]

    @pytest.mark.parametrize("cut", [3, 15, 400, 1000, -9, -1])
    def test_a_cut_file_gives_its_whole_lines_and_a_cut(self, tmp_path: Path, rows: bytes, cut: int) -> None:
        path = tmp_path / "in.gz"
        packed = gzip.compress(rows)[:cut]
        path.write_bytes(packed)
        readable = zlib.decompressobj(31).decompress(packed)
        kept = readable[: readable.rfind(b"\n") + 1]
        *found, last = read_lines(whole(path))
        assert [item.text for item in found if isinstance(item, Line)] == kept.splitlines()
        assert isinstance(last, Cut)
        assert last.position == len(kept)
        assert "cannot be read from here on" in last.message

    @pytest.mark.parametrize("damage", ["flip", "checksum", "rubbish behind"])
    def test_damage_is_never_silent(self, tmp_path: Path, rows: bytes, damage: str) -> None:
        packed = bytearray(gzip.compress(rows))
        if damage == "flip":
            packed[len(packed) // 2] ^= 0xFF
        elif damage == "checksum":
            packed[-6] ^= 0xFF
        else:
            packed += b"rubbish"
        path = tmp_path / "in.gz"
        path.write_bytes(packed)
        found = list(read_lines(whole(path)))
        assert isinstance(found[-1], Cut)
        assert not any(isinstance(item, Cut) for item in found[:-1])


PIECES = st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\0", b" ", "\u2028".encode(), b"\r"])


@given(st.lists(PIECES, max_size=30).map(b"".join), st.integers(1, 40))
@example(b"\n\n\na\n", 1)
@example(b"\xef\xbb\xbfa\nb", 2)
def test_spans_hold_each_line_once_at_its_position(content: bytes, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.jsonl")
        path.write_bytes(content)
        spans = list(split(InputFile(str(path), 0, len(content)), length, READING))
        found = [item for span in spans for item in read_lines(span)]
        assert found == list(read_lines(whole(path)))
    position, expected = 0, []
    for piece in content.split(b"\n"):
        text = piece.removeprefix(b"\xef\xbb\xbf") if position == 0 else piece
        text = text.removesuffix(b"\r")
        if text.strip():
            expected.append(Line(position, text))
        position += len(piece) + 1
    assert found == expected
    assert [span.key for span in spans] == sorted(span.key for span in spans)
    assert len({span.key for span in spans}) == len(spans)


class TestSpans:
    def test_order_goes_by_file_and_then_by_position(self) -> None:
        spans = [Span("a", 0, 0, None), Span("b", 1, 0, None), Span("c", 2, 0, None)]
        records = [Record("i", {}, span.path, at, span.key) for span in spans for at in (0, 1, 2**44 - 1)]
        orders = [order_of(record) for record in records]
        assert orders == sorted(set(orders))

    @pytest.mark.parametrize(
        ("size", "length"),
        [
            (0, MIN_SPAN_BYTES),
            (10**6, MIN_SPAN_BYTES),
            (SPANS * 10**6, 10**6),
            (10**15, MAX_SPAN_BYTES),
        ],
    )
    def test_length_goes_by_the_size_of_all_input(self, size: int, length: int) -> None:
        assert span_bytes([InputFile("a", 0, size // 2), InputFile("b", 1, size - size // 2)]) == length

    def test_on_a_store_they_are_longer(self) -> None:
        assert span_bytes([InputFile("s3://bucket/a", 0, 10**6)]) == MIN_FAR_SPAN_BYTES

    def test_a_small_input_has_work_for_many_workers(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.jsonl"
        rows = (json.dumps({"id": f"row-{n}", "text": f"Day {n} and I still love it."}) + "\n" for n in range(20_000))
        path.write_text("".join(rows))
        item = InputFile(str(path), 0, path.stat().st_size)
        spans = list(split(item, span_bytes([item]), READING))
        assert len(spans) >= 64


class TestRecords:
    def test_records_know_where_they_stand(self, tmp_path: Path) -> None:
        path = tmp_path / "in.jsonl"
        path.write_bytes(b'{"id": 1}\n\nnot json\n{"id": "b"}\n')
        first, bad, second = read_records(Span(str(path), 7, 0, None), READING)
        assert first == Record("1", {"id": 1}, str(path), 0, "000007-00000000000")
        assert isinstance(bad, BadRecord)
        assert (bad.reason, bad.position, bad.fields, bad.cut) == ("bad_record", 11, "not json", False)
        assert second == Record("b", {"id": "b"}, str(path), 20, "000007-00000000000")
        assert second.source == {"file": str(path), "position": 20}

    def test_first_fields_go_over_files_and_leave_out_what_is_no_object(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b'{"id": 1}\n[1]\n{"no": "id"}\n')
        (tmp_path / "b").write_bytes(b'{"id": 2}\n{"id": 3}\n')
        inputs = find_inputs([f"{tmp_path}/*"])
        assert first_fields(inputs, READING, 3) == [{"id": 1}, {"no": "id"}, {"id": 2}]
        assert len(first_fields(inputs, READING, 100)) == 4


class TestPipeline:
    def run(self, pipeline: Callable[[], Any], make: Any, folder: Path, checks: dict[str, Any]) -> None:
        with pipeline() as p:
            spans = p | beam.Create(find_inputs([f"{folder}/*"])) | Spans(16, READING)
            read = spans | Read(READING, make.stamp)
            for name, matcher in checks.items():
                values = read[name]
                if name == TALLY:
                    values = values | beam.CombineGlobally(total)
                assert_that(values, matcher, label=name)

    def test_good_and_bad_lines_over_files_and_spans(
        self, tmp_path: Path, pipeline: Callable[[], Any], make: Any
    ) -> None:
        (tmp_path / "a.jsonl").write_bytes(b"".join(b'{"id": "a%d"}\n' % n for n in range(20)))
        (tmp_path / "b.jsonl").write_bytes(b'{"id": "b"}\nnot json\n{"id": "caf\xe9"}\n{"id": 1.5}\n"cut \\ud83d"\n')

        def dead(rows: list[dict[str, Any]]) -> None:
            found = sorted((row["source"]["position"], row["reason"], row["input"]) for row in rows)
            assert found == [
                (12, "bad_record", "not json"),
                (21, "bad_encoding", '{"id": "caf\ufffd"}'),
                (36, "bad_id", {"id": 1.5}),
                (48, "bad_record", "cut \ufffd"),
            ], found
            assert all(row["id"] is None and row["attempts"] == 0 and not row["retryable"] for row in rows)
            assert {row["source"]["file"] for row in rows} == {f"{tmp_path}/b.jsonl"}
            assert {(row["run_id"], row["task_hash"]) for row in rows} == {make.stamp}

        def good(found: list[Record]) -> None:
            assert sorted(record.id for record in found) == sorted(["b", *(f"a{n}" for n in range(20))])

        self.run(
            pipeline,
            make,
            tmp_path,
            {"records": good, DEAD_LETTER: dead, TALLY: equal_to([{"total": 25, "unreadable": []}])},
        )

    def test_a_cut_file_is_counted_as_unreadable(self, tmp_path: Path, pipeline: Callable[[], Any], make: Any) -> None:
        rows = b"".join(b'{"id": "%x"}\n' % zlib.crc32(b"%d" % n) for n in range(1000))
        (tmp_path / "a.jsonl").write_bytes(b'{"id": "a"}\n')
        (tmp_path / "cut.jsonl").write_bytes(gzip.compress(rows)[:-100])

        def dead(found: list[dict[str, Any]]) -> None:
            (row,) = found
            assert row["reason"] == "bad_record"
            assert row["source"]["file"] == f"{tmp_path}/cut.jsonl"

        def tally(found: list[Any]) -> None:
            (counts,) = found
            assert counts["total"] > 900
            (message,) = counts["unreadable"]
            assert message.startswith(f"{tmp_path}/cut.jsonl: ")

        self.run(pipeline, make, tmp_path, {DEAD_LETTER: dead, TALLY: tally})

    def test_values_that_coders_find_hard(self, tmp_path: Path, pipeline: Callable[[], Any], make: Any) -> None:
        fields = {"id": "a\0", "big": 10**100, "none": None, "deep": [[[{"k": [1.5, True, "\U0001f600\u2028"]}]]]}
        too_deep = f'{{"id": "n", "x": {"[" * 600}{"]" * 600}}}'
        (tmp_path / "a.jsonl").write_text(f"{json.dumps(fields)}\n{too_deep}\n")

        def good(found: list[Record]) -> None:
            (record,) = found
            assert (record.id, record.fields) == ("a\0", fields)

        def dead(found: list[dict[str, Any]]) -> None:
            assert [row["reason"] for row in found] == ["bad_record"]

        self.run(pipeline, make, tmp_path, {"records": good, DEAD_LETTER: dead})

"""CSV, written and read again: by us exactly, by others as far as they can."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.csv_file import CsvWriter, csv_ids, join_csv, read_csv

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text("'=+-@\t\r\n\",\0ax\u2028\uff1d")
CELLS = st.none() | TEXTS


def write(path: Path, rows: list[dict[str, Any]], columns: list[str], *, escape: bool) -> bytes:
    writer = CsvWriter(str(path), columns, escape=escape)
    for row in rows:
        writer.write(row)
    writer.close()
    return path.read_bytes()


def read(path: Path) -> list[list[str | None]]:
    with path.open("rb") as stream:
        return list(read_csv(stream).rows)


@given(rows=st.lists(st.tuples(TEXTS, CELLS, CELLS)), escape=st.booleans())
def test_what_is_written_is_read(rows: list[tuple[str | None, ...]], escape: bool) -> None:
    columns = ["id", "a,b", 'c"\r\nd']
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        content = write(path, [dict(zip(columns, row, strict=True)) for row in rows], columns, escape=escape)
        assert read(path) == [list(row) for row in rows]
        assert list(csv_ids(str(path))) == [row[0] for row in rows]
        joined = Path(folder, "y.csv")
        with joined.open("wb") as target:
            join_csv(target, [str(path), str(path)], columns, escape=escape)
        assert read(joined) == [list(row) for row in rows] * 2
    # A reader that knows RFC 4180 only sees the same cells, null as empty text, and the apostrophes.
    plain = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert plain[0] == columns
    if not escape:
        assert plain[1:] == [[cell or "" for cell in row] for row in rows]
    for row in plain[1:] if escape else []:
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in row)


def test_each_kind_of_value(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "null": None,
        "empty": "",
        "space": " x ",
        "number": -0.5,
        "integer": -(2**63),
        "boolean": True,
        "list": ["x", None, 'q"'],
        "object": {"k": "\u00e9"},
        "time": "2026-01-31T08:00:00.123Z",
        "minus": "-1",
        "apostrophe": "'tis",
        "both": "'=1",
    }
    content = write(tmp_path / "x.csv", [row], list(row), escape=True)
    assert content.decode().split("\r\n")[1] == (
        'a,,"", x ,-0.5,-9223372036854775808,true,"[""x"",null,""q\\""""]","{""k"":""\u00e9""}",'
        "2026-01-31T08:00:00.123Z,'-1,'tis,''=1"
    )


def test_whether_ids_are_escaped_is_in_the_file(tmp_path: Path) -> None:
    rows = [{"id": "=1"}, {"id": "'=1"}, {"id": "+49 30"}, {"id": "'"}]
    for escape in (True, False):
        content = write(tmp_path / f"{escape}.csv", rows, ["id", "x"], escape=escape)
        assert content.startswith(b'"id",x\r\n' if escape else b"id,x\r\n")
        assert list(csv_ids(str(tmp_path / f"{escape}.csv"))) == [row["id"] for row in rows]


@pytest.mark.parametrize("content", [b"", b'id,x\r\n"a', b'id,x\r\na"b,\r\n', b"id,x\r\na,b"])
def test_what_is_no_such_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"CSV|quotes"):
        read(tmp_path / "x.csv")


def test_strict(tmp_path: Path) -> None:
    writer = CsvWriter(str(tmp_path / "x.csv"), ["id"], escape=True)
    with pytest.raises(ValueError, match="not JSON compliant"):
        writer.write({"id": float("nan")})
    writer.close()

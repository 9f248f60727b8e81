"""Which format a file has: by its content where that is decisive, else by its name's ending."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from transforms.formats.lines import encoding_of, first_bytes
from transforms.formats.openai_batch import is_request
from transforms.formats.spans import InputError
from transforms.unpack import open_plain

_HEAD_BYTES = 64 * 1024
_LINES = 20  # of the head, in which a JSON object is looked for
_ENDINGS = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "parquet": "parquet",
    "pq": "parquet",
    "txt": "text",
    "text": "text",
}
_PACKINGS = {"gz", "gzip", "bz2", "zst", "zstd"}
_BINARY = {  # what content says before anything else, and what to do about it
    b"PK\x03\x04": "a ZIP archive, as .xlsx files are too: unpack it, or save it as CSV",
    b"\xfd7zXZ\x00": "packed by xz: pack it with gzip, bzip2 or zstd instead",
    b"ORC": "an ORC file: convert it to Parquet",
    b"Obj\x01": "an Avro file: convert it to Parquet or JSONL",
    b"%PDF-": "a PDF: extract its text",
    b"PARE": "an encrypted Parquet file",
}
_PARQUET = b"PAR1"
_ARRAY = re.compile(r"\[\s*(\{.*)?")


class _Head(NamedTuple):
    raw: bytes  # the file's first bytes, unpacked
    text: str  # the same without a byte order mark
    packed: bool


def format_of(path: str, stated: str, encoding: str) -> str:
    """The format of a file. `stated` is what the settings say, or auto; what its content cannot be is an error then.

    Raises InputError for one that cannot be read in any format, or where nothing tells which; OSError."""
    if stated in ("text", "file"):
        return stated
    head = _head(path, encoding)
    for magic, problem in _BINARY.items():
        if head.raw.startswith(magic):
            raise InputError(f"{path}: is {problem}")
    found = _by_content(path, head, stated)
    if found is None:
        found = _by_name(path) if stated == "auto" else stated
    if found is None and not head.raw.strip():
        return "jsonl"  # nothing in it
    if found is None:
        raise InputError(f"{path}: neither content nor name say what its format is: set input.format")
    if found == "parquet" and not head.raw.startswith(_PARQUET):
        raise InputError(f"{path}: is no Parquet file, it does not begin with {_PARQUET.decode()}")
    return found


def _by_content(path: str, head: _Head, stated: str) -> str | None:
    if head.raw.startswith(_PARQUET):
        if head.packed:
            raise InputError(f"{path}: is a Parquet file inside a packed one: unpack it")
        if stated not in ("auto", "parquet"):
            raise InputError(f"{path}: is a Parquet file, and input.format is {stated}")
        return "parquet"
    if stated in ("csv", "tsv", "parquet"):
        return stated
    first = _first_object(head.text)
    if _by_name(path) in (None, "jsonl"):
        _refuse_one_value(path, head.text, first)
    if first is None or stated != "auto":
        return None if stated == "auto" else stated
    return "openai_batch" if is_request(first) else "jsonl"


def _by_name(path: str) -> str | None:
    endings = path.rsplit("/", 1)[-1].lower().split(".")[1:]
    while endings and endings[-1] in _PACKINGS:
        endings.pop()
    return _ENDINGS.get(endings[-1]) if endings else None


def _head(path: str, encoding: str) -> _Head:
    stream, packed = open_plain(path)
    with stream:
        raw = first_bytes(stream, _HEAD_BYTES)
    found = encoding_of(raw, encoding)
    return _Head(raw, raw[found.mark :].decode(found.name, "replace"), packed)


def _first_object(text: str) -> dict[str, Any] | None:
    """The first JSON object that is a line of its own."""
    for line in text.split("\n", _LINES)[:_LINES]:
        if line.lstrip().startswith("{") and isinstance(value := _json(line), dict):
            return value
    return None


def _refuse_one_value(path: str, text: str, first: dict[str, Any] | None) -> None:
    """Raises InputError where a file holds one JSON value over all of its lines."""
    line = text.lstrip().split("\n", 1)[0].rstrip()
    if _ARRAY.fullmatch(line) and (first is None or _json(line) is None):
        raise InputError(f"{path}: is a JSON array, not an object in each line; {_convert(path, '.[]')}")
    if line == "{" and first is None:
        raise InputError(f"{path}: is one JSON object over several lines, not one in each; {_convert(path, '.')}")


def _convert(path: str, what: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return f"to convert it: jq -c '{what}' {name} > {name.removesuffix('.json')}.jsonl"


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None

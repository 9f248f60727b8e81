"""What public bug reports were about: each file of shared/cases/inputs gives what its case in cases/README.md says."""

import base64
import gzip
import json
import re
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.fingerprint import changes, task_fingerprint
from transforms import journal
from transforms.digests import digest
from transforms.formats.arrow_values import typed_value
from transforms.formats.spans import Reading
from transforms.inputs import find_inputs, survey
from transforms.llm.prompts import Template
from transforms.read import BadRecord, first_fields, read_records, split
from transforms.records import Record, canonical_json
from transforms.resume import Prior, done_ids
from transforms.settings import Input, Model, Output, Settings, Task

Found = list[Record | BadRecord]


def read(path: Path, length: int = 16) -> Found:
    """All of a file, as a run reads it, in spans of `length`."""
    (surveyed,) = survey(find_inputs([str(path)]), Reading())
    return [item for span in split(surveyed.item, length, Reading()) for item in read_records(span, Reading())]


def records(path: Path) -> list[Record]:
    found = read(path)
    for item in found:
        canonical_json(item.fields).encode()
    assert all(isinstance(item, Record) for item in found), found
    return found  # type: ignore[return-value]


def ids(path: Path) -> list[str]:
    return [record.id for record in records(path)]


def texts(path: Path) -> dict[str, Any]:
    return {record.id: record.fields["text"] for record in records(path)}


def unicode_line_ends(path: Path) -> None:
    assert texts(path) == {
        "ls": "one\u2028two",
        "ps": "one\u2029two",
        "nel": "one\u0085two",
        "escaped-fs": "one\x1ctwo",
        "crlf": "plain",
    }


def normal_forms(path: Path) -> None:
    assert ids(path) == ["caf\u00e9", "cafe\u0301", "CAF\u00c9"]


def nul_in_csv(path: Path) -> None:
    assert texts(path) == {"1": "be\0fore", "2": "ok"}


def nul_in_jsonl(path: Path) -> None:
    assert next(iter(texts(path).items())) == ("a", "before\0after")
    assert ids(path) == ["a", "k\0", "k"]


def lone_surrogates(path: Path) -> None:
    first, second, pair, bad = read(path)
    assert [row.fields["text"] for row in (first, second, pair)] == [
        "cut emoji \ufffd",
        "\ufffd tail",
        "\U0001f600 fine",
    ]
    assert isinstance(bad, BadRecord)
    assert bad.reason == "bad_id"


def not_finite(path: Path) -> None:
    first, bad, third, fourth = read(path)
    assert [row.fields["score"] for row in (first, third, fourth)] == [None, None, None]
    assert isinstance(bad, BadRecord)
    assert bad.reason == "bad_id"


def two_members(path: Path) -> None:
    assert len(ids(path)) == 6


def any_name(path: Path) -> None:
    content = path.read_bytes()
    plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    assert ids(path) == [json.loads(line)["id"] for line in plain.splitlines()] != []


def cut_gzip(path: Path) -> None:
    *found, last = read(path)
    readable = zlib.decompressobj(31).decompress(path.read_bytes())
    assert len(found) == readable.count(b"\n") > 100
    assert all(isinstance(item, Record) for item in found)
    assert isinstance(last, BadRecord)
    assert (last.reason, last.cut) == ("bad_record", True)


def nested_types(path: Path) -> None:
    first, second = records(path)
    assert first.fields == {
        "id": "a",
        "text": "x",
        "ts": "2021-05-04T22:44:02.776767",
        "day": "2020-02-29",
        "price": "12.3400",
        "raw": base64.b64encode(b"\xff\0").decode(),
        "tags": ["p", None],
        "meta": {"k": 1, "deep": {"z": [1.5, None]}},
        "attrs": {"u": 1},
        "cat": "red",
    }
    assert (second.id, second.fields["tags"], second.fields["meta"]) == ("b", [], None)
    assert Template("{meta.deep.z} {attrs.u} {day}").render(first.fields) == "[1.5, null] 1 2020-02-29"
    (surveyed,) = survey(find_inputs([str(path)]), Reading())
    assert surveyed.types is not None
    for name, kind in surveyed.types.items():  # and back again
        pa.array([typed_value(row.fields[name], kind) for row in (first, second)], kind)


def template(path: Path) -> None:
    text = path.read_text()
    made = Template(text)
    assert made.placeholders == ("text",)
    for row in first_fields(find_inputs([str(path.parent / "15_braces.jsonl")]), Reading(), 10):
        assert made.render(row) == text.replace("{text}", row["text"])


def braces(path: Path) -> None:
    assert list(texts(path).values()) == [
        "use {name} and {0} and {text}",
        '{"k": 1}',
        "}{",
        "{{ 7*7 }} {% raw %} ${HOME} %s",
    ]


def unsafe_ids(path: Path) -> None:
    expected = [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
    assert ids(path) == expected
    assert len(set(expected)) == 9


def torn_journal(*whole: str) -> Callable[[Path], None]:
    """As a journal of ours with the same damage: the rows that are done are those whose line is whole."""

    def check(path: Path) -> None:
        lines = [
            re.sub(
                rb'\{"id": "(.)", "status": "ok", "outp',
                lambda found: (
                    b'{"digest":"%s","outcome":"ok","row":{"id":"%s","outp'
                    % (digest(found[1].decode()).hex().encode(), found[1])
                ),
                line.replace(b"}", b"}}"),
            )
            for line in path.read_bytes().split(b"\n")
        ]
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "a.jsonl")
            copy.write_bytes(b"\n".join(lines))
            assert [entry.row["id"] for entry in journal.read(str(copy)) if entry is not None] == list(whole)
            assert {value for _outcome, value in journal.heads(str(copy))} == set(map(digest, whole))

    return check


def other_models(path: Path) -> None:
    """Rows of two models can only be of two tasks, and a run on the output of another task stops before it begins."""
    models = [row.fields["model"] for row in records(path) if "model" in row.fields]
    assert models == ["model-one", "model-two"]
    tasks = [
        task_fingerprint(
            Settings(
                task=Task(prompt="{text}"),
                input=Input(path="a"),
                output=Output(path="out"),
                model=Model(provider="openai", name=name),
            )
        )
        for name in models
    ]
    assert changes(*tasks) == ["model.name: 'model-one' -> 'model-two'"]


def failures_of_before(path: Path) -> None:
    """The rows as our own prior output: what is ok is done, empty answers included; what failed for now is not."""
    rows = [record.fields for record in records(path)]
    ok = [row for row in rows if row["status"] == "ok"]
    failed = [{**row, "reason": "rate_limited", "retryable": True, "run_id": "r"} for row in rows if row not in ok]
    with tempfile.TemporaryDirectory() as folder:
        done = []
        for name, content in (("ok.jsonl", ok), ("failed.jsonl", failed)):
            Path(folder, name).write_text("".join(json.dumps(row) + "\n" for row in content))
            done += done_ids(Prior(f"{folder}/{name}", content is failed), "retryable")
    assert done == ["a", "c", "d"]


CHECKS: dict[str, Callable[[Path], None]] = {
    "01_unicode_line_ends.jsonl": unicode_line_ends,
    "05_nfc_nfd.jsonl": normal_forms,
    "07_nul.csv": nul_in_csv,
    "07_nul.jsonl": nul_in_jsonl,
    "08_lone_surrogate.jsonl": lone_surrogates,
    "09_nan.jsonl": not_finite,
    "12_gzip_without_suffix.jsonl": any_name,
    "12_plain_but_named.jsonl.gz": any_name,
    "12_truncated.jsonl.gz": cut_gzip,
    "12_two_members.jsonl.gz": two_members,
    "14_nested_types.parquet": nested_types,
    "15_braces.jsonl": braces,
    "15_template.txt": template,
    "17_unsafe_ids.jsonl": unsafe_ids,
    "39_complete_without_newline.jsonl": torn_journal("a", "b", "c"),
    "39_torn_in_codepoint.jsonl": torn_journal("a", "b"),
    "39_torn_in_the_middle.jsonl": torn_journal("a", "b", "e"),
    "39_torn_tail.jsonl": torn_journal("a", "b"),
    "39_zero_filled_tail.jsonl": torn_journal("a", "b"),
    "40_prior_results.jsonl": other_models,
    "41_prior_with_failures.jsonl": failures_of_before,
}


@pytest.mark.parametrize("name", CHECKS)
def test_collected_input(cases: Path, name: str) -> None:
    CHECKS[name](cases / name)


def test_every_file_has_its_check(cases: Path) -> None:
    assert {path.name for path in cases.iterdir()} == set(CHECKS)

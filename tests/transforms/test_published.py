"""What an output has published: the same rows from files and from tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms.digests import digest
from transforms.layout import Layout
from transforms.learned import learned, of_run
from transforms.published import Published, Unreadable
from transforms.resume import done_ids
from transforms.rows import result_schema
from transforms.standing import Standing
from transforms.table import Tables, has_tables, table_spec
from transforms.write_table import TableWriter

RUN, LATER = "20260101T000000-abcdef", "20260102T000000-abcdef"
HASH = "0123456789abcdef"


def rows(make: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Results and failures of two runs."""
    results = [make.result("a"), make.result("b", run_id=LATER, prompt_tokens=7)]
    failures = [
        make.failure("t", "timeout", http_status=503, cost_usd=0.5, run_id=LATER),
        make.failure("f", "invalid_json", output_text='a "b"\n', input={"id": "f", "nested": [1, None]}),
        make.failure(None, "bad_record", attempts=0, input="no object", run_id=LATER),
    ]
    return results, failures


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def published(request: pytest.FixtureRequest, tmp_path: Path, make: Any) -> Published:
    results, failures = rows(make)
    if request.param == "files":
        for run_id in (RUN, LATER):
            name = f"{run_id}-00000-of-00001.jsonl"
            make.jsonl(tmp_path / "results" / name, [row for row in results if row["run_id"] == run_id])
        make.jsonl(tmp_path / "failures" / f"{LATER}-00000-of-00001.jsonl", failures)  # one of them is carried
        return Published.of(Layout(str(tmp_path)), {})
    if request.param == "sqlite":
        pytest.importorskip("sqlalchemy")
        url = f"sqlite:///{tmp_path}/db.sqlite"
    else:
        url = request.getfixturevalue("postgresql").new()
    spec = table_spec(f"{url}#t", result_schema({}, {}))
    assert not has_tables(spec)
    assert Published(table=spec).priors() == []
    tables = Tables(spec, write=True)
    tables.create()
    tables.close()
    for kind, written in (("ok", results), ("failed", failures)):
        writer = TableWriter(spec, kind)
        for row in written:
            writer.write(row)
        writer.close()
        writer.disconnect()
    assert has_tables(spec)
    return Published.of(Layout(str(tmp_path)), {"config": {"output": {"table": f"{url}#t"}}})


def found(published: Published) -> list[dict[str, Any]]:
    return sorted(published.failures(), key=lambda row: row["reason"])


def test_failures_are_what_they_were(published: Published, make: Any) -> None:
    _results, failures = rows(make)
    unlike = [
        {key: value for key, value in row.items() if key != "failed_at"}
        for row in sorted(failures, key=lambda row: row["reason"])
    ]
    seen = found(published)
    assert [{key: value for key, value in row.items() if key != "failed_at"} for row in seen] == unlike
    assert all(row["failed_at"].endswith("Z") and len(row["failed_at"]) == 24 for row in seen)


def test_the_rows_of_one_run(published: Published) -> None:
    its = published.of_run(LATER)
    assert [row["id"] for batch in its.results(["id"]) for row in batch.to_pylist()] == ["b"]
    assert [row["reason"] for row in found(its)] == ["bad_record", "timeout"]
    assert {identifier for prior in its.priors() for identifier in done_ids(prior, "none")} == {"b", "t"}


def test_what_is_done(published: Published) -> None:
    assert {identifier for prior in published.priors() for identifier in done_ids(prior, "retryable")} == {
        "a",
        "b",
        "f",
    }


def test_what_is_learned(published: Published) -> None:
    known = {item.digest: item.observation for item in learned(Standing(published, [], 0.0), HASH)}
    assert set(known) == {digest(name) for name in "abtf"}
    assert known[digest("b")].prompt_tokens == 7
    assert {item.digest for item in of_run(published, LATER)} == {digest("b"), digest("t")}


def test_what_cannot_be_read_is_named(tmp_path: Path, make: Any) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(Unreadable, match=r"x\.parquet"):
        list(Published([str(tmp_path / "x.parquet")]).results(["id"]))
    failures = make.jsonl(tmp_path / "f.jsonl", [{"id": "a"}])
    with pytest.raises(Unreadable, match=r"f\.jsonl, line 1: no row of a failure"):
        list(Published(failure_files=[str(failures)]).failures())


def test_a_table_that_is_gone_is_named(new_database: Callable[[], str]) -> None:
    url = new_database()
    spec = table_spec(f"{url}#gone", result_schema({}, {}))
    if url.startswith("sqlite"):
        with pytest.raises(Unreadable, match="unable to open"):
            Published(table=spec).columns()
        other = table_spec(f"{url}#other", result_schema({}, {}))
        tables = Tables(other, write=True)
        tables.create()
        tables.close()
    for read in (
        Published(table=spec).columns,
        lambda: list(Published(table=spec).results(["id"])),
    ):
        with pytest.raises(Unreadable, match="there is no table 'gone'"):
            read()
    with pytest.raises(Unreadable, match="gone_failures"):
        list(Published(table=spec).failures())

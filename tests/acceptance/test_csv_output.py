"""Results as CSV: a whole run, its resume, and a kill between."""

from __future__ import annotations

import csv
import io
from typing import Any

from transforms.csv_file import read_csv

NAMED = ["=1+1", "'=1+1", "+49 30", "-", "@a", "'", "\t", "a,b", 'q"', "l1\nl2", "c\rr", "n\0l", "caf\u00e9"]


def rows(workspace: Any) -> list[dict[str, Any]]:
    found = []
    for path in workspace.output.glob("results/*.csv"):
        with path.open("rb") as stream:
            table = read_csv(stream)
            found += [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    return found


def test_ids_that_look_like_formulas_are_done(workspace: Any, own_server: Any) -> None:
    workspace.write_input([{"id": name, "text": "t", "note": name} for name in NAMED])
    own_server.script = lambda _row, _number: own_server.answer("=HYPERLINK(1)")
    workspace.configure(own_server.url, task={"schema": None}, input={"carry": ["note"]}, output={"format": "csv"})
    assert workspace.run("--limit", "5").code == 0

    ran = workspace.run("--set", "output.escape_formulas=false")

    assert ran.code == 0, ran.err
    assert (ran.counts["skipped"], ran.counts["ok"], own_server.calls) == (5, len(NAMED) - 5, len(NAMED))
    assert workspace.run().counts["skipped"] == len(NAMED)
    assert sorted(row["id"] for row in rows(workspace)) == sorted(NAMED)
    assert {row["output_text"] for row in rows(workspace)} == {"=HYPERLINK(1)"}
    assert all(row["note"] == row["id"] for row in rows(workspace))
    shown = [
        csv.reader(io.StringIO(path.read_bytes().decode(), newline="")) for path in workspace.output.glob("*/*.csv")
    ]
    cells = [row[names.index("output_text")] for names, *content in map(list, shown) for row in content]
    assert sorted(cells) == ["'=HYPERLINK(1)"] * 5 + ["=HYPERLINK(1)"] * (len(NAMED) - 5)


def test_a_kill(workspace: Any, mock: Any) -> None:
    server = mock("-latency", "20")
    workspace.write_input(workspace.rows(300), files=2)
    workspace.configure(server.url, output={"format": "csv", "rows_per_shard": 100})
    started = workspace.start()
    started.until(lambda: server.calls() >= 100, "some calls")
    started.kill()
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert ran.counts["recovered"] > 0
    assert sorted(row["id"] for row in rows(workspace)) == [row["id"] for row in workspace.rows(300)]
    assert server.stats()["paid_twice_calls"] <= 8

"""A database as input, and as input and output at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SECRET = "hunter2hunter2"


def fill(url: str, rows: list[dict[str, Any]]) -> None:
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE reviews (number BIGINT PRIMARY KEY, text TEXT, stars BIGINT)"))
        connection.execute(text("INSERT INTO reviews VALUES (:number, :text, :stars)"), rows)
    engine.dispose()


def ids(url: str) -> list[str]:
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    with engine.connect() as connection:
        found = sorted(connection.execute(text("SELECT id FROM labels")).scalars())
    engine.dispose()
    return found


def test_out_of_a_database_and_into_it(workspace: Any, own_server: Any, new_database: Callable[[], str]) -> None:
    url = new_database()
    fill(url, [{"number": n, "text": f"Day {n}", "stars": n % 5} for n in range(2_500)])
    secret = url.replace("tester@", f"tester:{SECRET}@")
    workspace.configure(
        own_server.url,
        task={"prompt": "{number}|{text}"},
        input={"path": secret, "query": "SELECT * FROM reviews WHERE stars = 1", "id": "number", "carry": ["stars"]},
        output={"table": f"{secret}#labels"},
    )
    ran = workspace.run("--limit", "200")
    assert ran.code == 0, ran.err
    ran = workspace.run()
    assert ran.code == 0, ran.err
    assert (ran.counts["skipped"], ran.counts["ok"], own_server.calls) == (200, 300, 500)
    assert ids(url) == sorted(str(n) for n in range(2_500) if n % 5 == 1)
    for file in workspace.output.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"path": "sqlite:///none.db#t"}, "none.db"),
        ({"path": "sqlite:///none.db"}, "input.query"),
        ({"path": "mysql://h/d#t"}, "postgresql"),
        ({"path": f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/d#t"}, "postgresql://127.0.0.1:1/d"),
        ({"path": "in/*.jsonl", "query": "SELECT 1"}, "query"),
    ],
)
def test_one_line_names_it(workspace: Any, own_server: Any, changes: dict[str, str], named: str) -> None:
    pytest.importorskip("sqlalchemy")
    workspace.configure(own_server.url, input=changes)
    ran = workspace.run()
    assert ran.code == 2
    [line] = ran.err.splitlines()
    assert "input" in line
    assert named in line
    assert SECRET not in line
    assert own_server.calls == 0

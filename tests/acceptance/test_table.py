"""Results in a database: kills, a database that goes away, and what a second run makes of it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

IN_FLIGHT = 8
SECRET = "hunter2hunter2"


def read(url: str, statement: str) -> list[tuple[Any, ...]]:
    from sqlalchemy import create_engine, inspect, text

    engine = create_engine(url)
    try:
        if statement == "tables":
            return [(name,) for name in sorted(inspect(engine).get_table_names())]
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


def ids(url: str, table: str = "labels") -> list[str]:
    return sorted(row[0] for row in read(url, f"SELECT id FROM {table}"))


def prepare(workspace: Any, server: Any, url: str, count: int, **sections: Any) -> None:
    workspace.write_input(workspace.rows(count), files=3)
    output = {"table": f"{url}#labels", **sections.pop("output", {})}
    workspace.configure(server.url, **{"limits": {"max_in_flight": IN_FLIGHT}, **sections}, output=output)


class TestRuns:
    def test_everything_is_in_tables(self, workspace: Any, own_server: Any, new_database: Callable[[], str]) -> None:
        url = new_database()
        own_server.script = lambda row, _number: (
            own_server.error(400, "filtered", "content_filter") if row == "r00003" else own_server.answer()
        )
        prepare(workspace, own_server, url, 20, input={"carry": ["stars"]})
        rows = workspace.rows(20)
        workspace.write_input([*rows, {**rows[0], "text": "other"}])
        (workspace.input / "bad.jsonl").write_text("no json\n", encoding="utf-8")

        ran = workspace.run()

        assert ran.code == 0, ran.err
        assert "#labels" in ran.out
        assert ids(url) == [row["id"] for row in rows if row["id"] != "r00003"]
        assert dict(read(url, "SELECT label, count(*) FROM labels GROUP BY label")) == {"positive": 19}
        assert dict(read(url, "SELECT id, stars FROM labels"))["r00007"] == 2
        reasons = sorted(reason for (reason,) in read(url, "SELECT reason FROM labels_failures"))
        assert reasons == ["bad_record", "content_filter", "duplicate_id"]
        assert not workspace.output.joinpath("results").exists()
        assert not workspace.output.joinpath("failures").exists()
        assert not list(workspace.output.glob("journal/*"))
        assert workspace.account()["failures_by_reason"] == dict.fromkeys(reasons, 1)

        again = workspace.run()
        assert (again.code, again.counts["ok"], own_server.calls) == (0, 0, 20)
        assert sorted(reason for (reason,) in read(url, "SELECT reason FROM labels_failures")) == reasons

    def test_failures_that_may_pass_are_tried_again(
        self, workspace: Any, own_server: Any, new_database: Callable[[], str]
    ) -> None:
        url = new_database()
        own_server.script = lambda row, _number: (
            own_server.error(503)
            if row == "r00003"
            else own_server.answer('{"label": 1}' if row == "r00004" else "")
            if row in ("r00004", "r00005")
            else own_server.answer()
        )
        prepare(workspace, own_server, url, 10, limits={"max_attempts": 1})
        assert workspace.run().counts["failed"] == 3
        own_server.script = lambda _row, _number: own_server.answer()
        own_server.requests.clear()

        ran = workspace.run()
        assert (ran.counts["ok"], ran.counts["skipped"]) == (own_server.requests.total(), 10 - ran.counts["ok"])
        assert "r00003" in own_server.requests
        left = [id for (id,) in read(url, "SELECT id FROM labels_failures")]
        assert sorted([*ids(url), *left]) == [row["id"] for row in workspace.rows(10)]

        assert workspace.run("--retry=all").code == 0
        assert ids(url) == [row["id"] for row in workspace.rows(10)]
        assert read(url, "SELECT * FROM labels_failures") == []

    def test_another_task_keeps_or_renames(
        self, workspace: Any, own_server: Any, new_database: Callable[[], str]
    ) -> None:
        url = new_database()
        prepare(workspace, own_server, url, 10)
        assert workspace.run("--limit", "4").code == 0
        other = {"type": "object", "properties": {"label": {"type": "string"}, "why": {"type": "string"}}}
        own_server.script = lambda _row, _number: own_server.answer('{"label": "x", "why": "y"}')
        before = own_server.calls

        stopped = workspace.run("--set", f"task.schema={json.dumps(other)}")
        assert (stopped.code, own_server.calls) == (2, before)
        kept = workspace.run("--set", f"task.schema={json.dumps(other)}", "--on-change=keep")
        assert (kept.code, own_server.calls) == (2, before)
        assert "'why'" in kept.err

        ran = workspace.run("--set", f"task.schema={json.dumps(other)}", "--on-change=redo")
        assert ran.code == 0, ran.err
        assert ran.counts["ok"] == 10
        [old] = [name for (name,) in read(url, "tables") if name.startswith("labels_replaced_")]
        assert len(ids(url, f'"{old}"')) == 4
        assert len(read(url, "SELECT id FROM labels WHERE why = 'y'")) == 10

    def test_any_id_and_any_text(self, workspace: Any, own_server: Any, new_database: Callable[[], str]) -> None:
        url = new_database()
        own_server.script = lambda _row, _number: own_server.answer("an\0swer")
        prepare(workspace, own_server, url, 1, task={"schema": None})
        named = ["a", "A", "\u00e9", "e\u0301", "a\0b", "x" * 5000, "\U0001f600", "'; --", "%s", " a"]
        workspace.write_input([{"id": name, "text": "t\0"} for name in named])

        ran = workspace.run()

        assert ran.code == 0, ran.err
        refused = {"a\0b", "x" * 5000} if url.startswith("postgresql") else set()
        assert ids(url) == sorted({*named} - refused)
        assert len(read(url, "SELECT * FROM labels_failures WHERE reason = 'bad_id'")) == len(refused)
        assert own_server.calls == len(named) - len(refused)
        assert workspace.run().counts["skipped"] == len(named) - len(refused)


class TestKills:
    def test_three_kills(self, workspace: Any, mock: Any, runner: list[str], new_database: Callable[[], str]) -> None:
        count = int(os.environ.get("TABLE_KILL_ROWS", "3000"))  # 20000 takes minutes
        url, server = new_database(), mock("-latency", "10")
        prepare(workspace, server, url, count, limits={"max_in_flight": 32})
        moments = random.Random(7)
        for _kill in range(3):
            wanted = server.calls() + moments.randint(50, count // 3)
            started = workspace.start(*runner)
            started.until(lambda wanted=wanted: server.calls() >= wanted, "more calls")
            started.kill()
            workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done")

        last = workspace.run(*runner)

        assert last.code == 0, last.err
        assert ids(url) == [row["id"] for row in workspace.rows(count)]
        assert read(url, "SELECT * FROM labels_failures") == []
        assert server.stats()["answered_prompts"] == count
        assert server.stats()["paid_twice_calls"] <= 3 * 32
        assert workspace.account()["recovered"] > 0
        assert not list(workspace.output.glob("journal/*"))

    def test_kill_while_it_publishes(self, workspace: Any, mock: Any, new_database: Callable[[], str]) -> None:
        url, server = new_database(), mock()
        prepare(workspace, server, url, 400)
        started = workspace.start()
        started.until(lambda: server.stats()["answered_prompts"] == 400, "all rows are answered")
        started.kill()
        workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done")
        calls = server.calls()
        owed = 400 - workspace.journal_lines() if list(workspace.output.glob("journal/*")) else 0

        assert workspace.run().code == 0
        assert ids(url) == [row["id"] for row in workspace.rows(400)]
        assert server.calls() == calls + owed


class TestPostgreSQLGoesAway:
    def test_in_mid_run(self, workspace: Any, mock: Any, postgresql: Any) -> None:
        url, server = postgresql.new(), mock("-latency", "20")
        secret = url.replace("tester@", f"tester:{SECRET}@")
        prepare(workspace, server, secret, 3_000)
        started = workspace.start()
        started.until(lambda: server.calls() >= 1_300, "many calls")
        postgresql.stop()
        try:
            ran = started.wait()
            assert ran.code == 1
            lines = [line for line in ran.err.splitlines() if "database" in line]
            assert len(lines) == 1, ran.err
            assert f"postgresql://127.0.0.1:{postgresql.port}" in lines[0]
            assert SECRET not in ran.err + ran.out
            assert "Traceback" not in ran.err
            answered = server.stats()["answered_prompts"]
            assert workspace.journal_lines() >= answered - IN_FLIGHT

            refused = workspace.run()  # it is still gone
            assert refused.code == 2
            assert "output.table: database postgresql://" in refused.err
            assert server.stats()["answered_prompts"] == answered
        finally:
            postgresql.start()

        last = workspace.run()
        assert last.code == 0, last.err
        assert ids(url) == [row["id"] for row in workspace.rows(3_000)]
        assert server.stats()["answered_prompts"] == 3_000
        assert server.stats()["paid_twice_calls"] == 0
        for file in workspace.output.rglob("*"):
            assert not file.is_file() or SECRET.encode() not in file.read_bytes()

    def test_a_short_absence_goes_unnoticed(self, workspace: Any, mock: Any, postgresql: Any) -> None:
        url, server = postgresql.new(), mock("-latency", "20")
        prepare(workspace, server, url, 1_500)
        started = workspace.start()
        started.until(lambda: server.calls() >= 200, "calls")
        postgresql.stop()
        postgresql.start()
        ran = started.wait()
        assert ran.code == 0, ran.err
        assert ids(url) == [row["id"] for row in workspace.rows(1_500)]


class TestWrongUse:
    @pytest.mark.parametrize(
        ("table", "named"),
        [
            ("mysql://h/d#t", "postgresql"),
            ("sqlite:///x.db", "#TABLE"),
            ("sqlite:///x.db#a.b", "dot"),
            ("sqlite://#t", "file"),
            (f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/db#t", "postgresql://127.0.0.1:1/db"),
            (f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/db", "#TABLE"),
            (f"mysql://u:{SECRET}#{SECRET}@127.0.0.1:1/db#t", "postgresql"),
            (f"postgresql+psycopg://127.0.0.1/db?password={SECRET}#t", "password"),
            ("postgresql+psycopg://u:${NO_SUCH_VARIABLE}@127.0.0.1/db#t", "NO_SUCH_VARIABLE"),
            ("sqlite:////nowhere/at/all.db#t", "nowhere"),
        ],
    )
    def test_one_line_names_it(self, workspace: Any, own_server: Any, table: str, named: str) -> None:
        pytest.importorskip("sqlalchemy")
        workspace.write_input(workspace.rows(3))
        workspace.configure(own_server.url, output={"table": table})
        ran = workspace.run()
        assert ran.code == 2
        [line] = ran.err.splitlines()
        assert "table" in line
        assert named in line
        assert SECRET not in line
        assert own_server.calls == 0
        assert not workspace.output.exists()

    def test_files_and_a_table_in_one_output(
        self, workspace: Any, own_server: Any, new_database: Callable[[], str]
    ) -> None:
        workspace.write_input(workspace.rows(3))
        workspace.configure(own_server.url)
        assert workspace.run().code == 0
        ran = workspace.run("--set", f"output.table={new_database()}#labels")
        assert (ran.code, own_server.calls) == (2, 3)
        assert "files" in ran.err

    def test_a_password_from_the_environment(self, workspace: Any, own_server: Any, postgresql: Any) -> None:
        url = postgresql.new()
        named = url.replace("tester@", "tester:${DB_PASSWORD}@")
        prepare(workspace, own_server, named, 3)
        assert workspace.run(environment={"DB_PASSWORD": "p@ss/w#rd"}).code == 0
        assert len(ids(url)) == 3
        assert "${DB_PASSWORD}" in workspace.account()["config"]["output"]["table"]

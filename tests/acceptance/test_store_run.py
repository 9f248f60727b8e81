"""Whole runs whose input and output are on a store: S3, as moto serves it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
COUNT = 500
IN_FLIGHT = 8
SECONDS = 0.5  # of a journal object


class Bucket:
    """The command with its input and output in a bucket."""

    def __init__(self, workspace: Any, s3: Any, runner: list[str]) -> None:
        self.workspace = workspace
        self.s3 = s3
        self.output = f"{s3.root}/team/out"
        self._runner = runner

    def prepare(self, url: str, files: int = 2, **sections: Any) -> None:
        """Writes the input and the configuration."""
        rows = self.workspace.rows(COUNT)
        for number in range(files):
            lines = "".join(json.dumps(row) + "\n" for row in rows[number::files])
            self.s3.put(f"in/part-{number:03d}.jsonl", lines.encode())
        self.s3.put("in/below/other.jsonl", b"not json\n")  # which in/* does not mean
        output = {"path": self.output, "journal_seconds": SECONDS, **sections.pop("output", {})}
        self.workspace.configure(
            url,
            input={"path": f"{self.s3.root}/in/*"},
            output=output,
            **{"limits": {"max_in_flight": IN_FLIGHT}, **sections},
        )

    def start(self, *flags: str) -> Any:
        return self.workspace.start(*self._runner, *flags, environment=self.s3.environment())

    def run(self, *flags: str) -> Any:
        return self.start(*flags).wait()

    def results(self) -> list[dict[str, Any]]:
        shards = [io.BytesIO(self.s3.get(key)) for key in self.s3.keys("team/out/results/")]
        return [row for shard in shards for row in pyarrow.parquet.read_table(shard).to_pylist()]

    def ids(self) -> list[str]:
        return sorted(row["id"] for row in self.results())

    def account(self) -> Any:
        return json.loads(self.s3.get(self.s3.keys("team/out/runs/")[-1]))

    def journal_lines(self) -> int:
        keys = [key for key in self.s3.keys("team/out/journal/") if key.endswith(".jsonl")]
        return sum(self.s3.get(key).count(b"\n") for key in keys)

    def left(self) -> list[str]:
        """What a finished run leaves beside results, failures, accounts and the report."""
        kept = ("team/out/results/", "team/out/failures/", "team/out/runs/", "team/out/report.html")
        return [key for key in self.s3.keys("team/out/") if not key.startswith(kept)]


@pytest.fixture
def bucket(workspace: Any, s3: Any, runner: list[str]) -> Bucket:
    return Bucket(workspace, s3, runner)


def all_ids(workspace: Any) -> list[str]:
    return [row["id"] for row in workspace.rows(COUNT)]


def test_a_whole_run_and_the_same_again(bucket: Bucket, workspace: Any, mock: Callable[..., Any]) -> None:
    server = mock("-latency", "5")
    bucket.prepare(server.url)

    ran = bucket.run()

    assert ran.code == 0, ran.err
    assert bucket.ids() == all_ids(workspace)
    assert server.calls() == COUNT
    assert bucket.left() == []
    before = {key: bucket.s3.get(key) for key in bucket.s3.keys("team/out/results/")}

    again = bucket.run()

    assert again.code == 0, again.err
    assert (again.counts["skipped"], again.counts["ok"]) == (COUNT, 0)
    assert server.calls() == COUNT
    assert {key: bucket.s3.get(key) for key in bucket.s3.keys("team/out/results/")} == before
    assert len(bucket.s3.keys("team/out/runs/")) == 2


def test_kills_cost_the_last_seconds_and_nothing_is_there_twice(
    bucket: Bucket, workspace: Any, mock: Callable[..., Any]
) -> None:
    server = mock("-latency", "40")
    bucket.prepare(server.url)
    for more in (1, 120, 140):
        wanted = server.calls() + more
        started = bucket.start()
        started.until(lambda wanted=wanted: server.calls() >= wanted, f"{more} more calls")
        started.kill()
        workspace.until(lambda: server.stats()["in_flight"] == 0, "the server is done with the calls of the dead run")

    ran = bucket.run()

    assert ran.code == 0, ran.err
    assert bucket.ids() == all_ids(workspace)
    assert bucket.left() == []
    assert bucket.account()["recovered"] > 0
    stats = server.stats()
    # 8 in flight at 40 ms are 200 rows a second, and a save may take as long again as it is waited for.
    per_kill = IN_FLIGHT + 200 * 2 * SECONDS
    assert stats["answered_prompts"] == COUNT
    assert stats["paid_twice_calls"] <= 3 * per_kill


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_in_the_middle(bucket: Bucket, workspace: Any, mock: Callable[..., Any], number: int) -> None:
    server = mock("-latency", "40")
    bucket.prepare(server.url)
    started = bucket.start()
    started.until(lambda: server.calls() >= 60, "60 calls")
    started.send(number)
    ran = started.wait()

    assert ran.code == 130, ran.err
    answered = server.stats()["answered_prompts"]
    account = bucket.account()
    assert (account["status"], account["stop_reason"]) == ("stopped", "interrupted")
    assert account["ok"] == answered == len(bucket.ids()) < COUNT
    assert bucket.left() == []

    rest = bucket.run()

    assert rest.code == 0, rest.err
    assert bucket.ids() == all_ids(workspace)
    assert (server.calls(), server.stats()["paid_twice_calls"]) == (COUNT, 0)


def wrong_use(workspace: Any, s3: Any, *flags: str, **environment: str) -> str:
    """The line of a launch that ends with exit 2."""
    ran = workspace.run(*flags, environment={**s3.environment(), **environment})
    assert ran.code == 2, ran.err
    assert ran.err.count("\n") == 1
    return str(ran.err)


def test_wrong_use_is_found_before_any_call(workspace: Any, s3: Any, own_server: Any, tmp_path: Any) -> None:
    workspace.write_input(workspace.rows(3))
    workspace.configure(own_server.url)
    assert "output.path: s3://no-such-bucket/out cannot be read: " in (
        said := wrong_use(workspace, s3, "--output", "s3://no-such-bucket/out")
    )
    assert "NoSuchBucket" in said
    assert "input.path: no file matches 's3://" in wrong_use(workspace, s3, "--input", f"{s3.root}/in/*")
    assert "NoSuchBucket" in wrong_use(workspace, s3, "--input", "s3://no-such-bucket/in/*")
    assert "output.path: s3://b/a*b must not hold" in wrong_use(workspace, s3, "--output", "s3://b/a*b")
    assert "output.path: ftp:// is not supported" in wrong_use(workspace, s3, "--output", "ftp://host/out")
    assert "output.path: azfs:// needs a further package: pip install 'paidonce[azure]'" in wrong_use(
        workspace, s3, "--output", "azfs://account/container/out"
    )
    assert own_server.calls == 0
    assert s3.keys() == []


def test_without_the_package_for_it(workspace: Any, s3: Any, own_server: Any, tmp_path: Any) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "boto3.py").write_text("raise ImportError\n")
    workspace.write_input(workspace.rows(3))
    workspace.configure(own_server.url)
    path = os.pathsep.join([str(tmp_path / "none"), str(REPOSITORY)])
    for flag in ("--output", "--input"):
        said = wrong_use(workspace, s3, flag, f"{s3.root}/x", PYTHONPATH=path)
        assert "s3:// needs a further package: pip install 'paidonce[s3]'" in said


def test_flags_of_beam_reach_it_and_their_keys_go_nowhere(workspace: Any, s3: Any, own_server: Any) -> None:
    workspace.write_input(workspace.rows(5))
    workspace.configure(own_server.url, output={"path": f"{s3.root}/out"})
    secret = "a-secret-of-its-own"
    flags = [
        f"--s3_endpoint_url={s3.url}",
        "--s3_access_key_id=a-key-of-its-own",
        f"--s3_secret_access_key={secret}",
        "--s3_region_name=us-east-1",
    ]
    ran = workspace.run(*flags, "--verbose")
    assert ran.code == 0, ran.err
    [account] = s3.keys("out/runs/")
    for text in (ran.out, *(s3.get(key).decode("latin-1") for key in s3.keys("out/"))):
        assert secret not in text
    assert json.loads(s3.get(account))["ok"] == 5


def test_a_lock_that_another_run_takes_over(workspace: Any, s3: Any, own_server: Any) -> None:
    """As where it is cut off from the store for a minute: what it has is left to the other run."""
    own_server.pass_first = 10
    own_server.gate.clear()
    workspace.write_input(workspace.rows(30))
    workspace.configure(own_server.url, output={"path": f"{s3.root}/out", "journal_seconds": 0.1})
    started = workspace.start(environment=s3.environment())

    def saved() -> int:
        return sum(s3.get(key).count(b"\n") for key in s3.keys("out/journal/") if key.endswith(".jsonl"))

    started.until(lambda: saved() == 10 and own_server.in_flight == 8, "ten rows are saved")
    other = {"pid": 1, "host": "elsewhere", "since": "now", "token": "t"}
    s3.put("out/.lock", json.dumps(other).encode())
    started.until(lambda: any(key.endswith("stop.json") for key in s3.keys("out/journal/")), "it knows")
    own_server.gate.set()
    ran = started.wait()

    assert ran.code == 1, ran.err
    assert "in use by another run: process 1 on elsewhere, since now, which has taken it over" in ran.err
    assert s3.keys("out/results/") == s3.keys("out/runs/") == []
    assert own_server.calls == 18
    assert json.loads(s3.get("out/.lock")) == other

    s3.client.delete_object(Bucket=s3.bucket, Key="out/.lock")
    rest = workspace.run(environment=s3.environment())
    assert rest.code == 0, rest.err
    assert (rest.counts["recovered"], rest.counts["ok"]) == (18, 12)
    assert own_server.calls == 30


def test_the_second_signal_saves_what_is_not_saved_yet(workspace: Any, s3: Any, own_server: Any) -> None:
    own_server.pass_first = 10
    own_server.gate.clear()
    workspace.write_input(workspace.rows(40))
    workspace.configure(own_server.url, output={"path": f"{s3.root}/out", "journal_seconds": 3600})
    started = workspace.start(environment=s3.environment())
    started.until(lambda: own_server.in_flight == 8 and own_server.calls == 18, "8 calls are under way")
    started.send(signal.SIGINT)
    started.until(lambda: "stopping" in started.errors(), "it says that it stops")
    started.send(signal.SIGINT)
    ran = started.wait()

    assert ran.code == 130, ran.err
    own_server.gate.set()
    rest = workspace.run(environment=s3.environment())
    assert rest.code == 0, rest.err
    assert (rest.counts["recovered"], rest.counts["ok"]) == (10, 30)
    assert own_server.calls == 40 + 8


def test_the_second_run_is_refused(workspace: Any, s3: Any, own_server: Any) -> None:
    own_server.gate.clear()
    workspace.write_input(workspace.rows(3))
    workspace.configure(own_server.url, output={"path": f"{s3.root}/out"})
    first = workspace.start(environment=s3.environment())
    first.until(lambda: own_server.in_flight == 3, "the first one is at work")
    second = workspace.run(environment=s3.environment())
    assert second.code == 2
    assert f"{s3.root}/out is in use by another run: process " in second.err
    own_server.gate.set()
    assert first.wait().code == 0
    assert own_server.calls == 3


def changed_by(s3: Any, action: Any) -> tuple[Any, list[str]]:
    """What an action returns, and the requests it made that write."""
    before = len(s3.requests("^(PUT|POST|DELETE) "))
    return action(), s3.requests("^(PUT|POST|DELETE) ")[before:]


def test_looking_before_a_run_writes_nothing(bucket: Bucket, mock: Callable[..., Any]) -> None:
    server = mock()
    bucket.prepare(server.url)
    for flags in (["--estimate"], ["--dry-run"]):
        ran, written = changed_by(bucket.s3, lambda flags=flags: bucket.run(*flags))
        assert ran.code == 0, ran.err
        assert written == []
        assert "nothing was called or changed" in ran.out
    assert server.calls() == 0


def command(s3: Any, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that reads outputs, which is told by the environment alone where the store is."""
    done = subprocess.run(
        [sys.executable, "-m", f"pipelines.{module}", *arguments],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **s3.environment()},
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_commands_that_read_outputs(workspace: Any, s3: Any, own_server: Any) -> None:
    """And a column that is carried from the second run on, which the first one's results get too."""
    out = f"{s3.root}/team/out"
    rows = [{**row, "stars": number} for number, row in enumerate(workspace.rows(12))]
    workspace.write_input(rows)
    workspace.configure(own_server.url, output={"path": out})
    assert workspace.run("--limit", "5", environment=s3.environment()).code == 0
    workspace.configure(own_server.url, output={"path": out}, input={"carry": ["stars"]})
    ran = workspace.run(environment=s3.environment())
    assert ran.code == 0, ran.err
    assert f"report:   {out}/report.html" in ran.out
    tables = [pyarrow.parquet.read_table(io.BytesIO(s3.get(key))) for key in s3.keys("team/out/results/")]
    assert len(tables) == 2
    assert all("stars" in table.column_names for table in tables)
    assert sum(table.num_rows for table in tables) == 12

    s3.client.delete_object(Bucket=s3.bucket, Key="team/out/report.html")
    done = command(s3, "report", out)
    assert (done.returncode, done.stdout) == (0, f"{out}/report.html\n")
    assert b"</html>" in s3.get("team/out/report.html")
    before = s3.keys()
    assert "no run is going; the last one" in command(s3, "watch", out).stdout
    assert "no failures" in command(s3, "failures", f"{out}/").stdout
    assert "rows in both 12" in command(s3, "compare", out, f"{out}/").stdout
    assert s3.keys() == before
    for module, arguments in (("watch", []), ("failures", []), ("compare", [out]), ("report", [])):
        for path, why in ((f"{s3.root}/none", "no"), ("s3://no-such-bucket/out", "NoSuchBucket")):
            done = command(s3, module, *arguments, path)
            assert done.returncode == 2, (module, path)
            assert why in done.stderr
            assert done.stderr.count("\n") == 1
    done = command(s3, "failures", out, "--write", f"{s3.root}/x.jsonl")
    assert (done.returncode, "is no local path" in done.stderr) == (2, True)


def test_a_run_that_goes_is_watched_and_a_killed_one_is_known_as_dead(workspace: Any, s3: Any, own_server: Any) -> None:
    own_server.gate.clear()
    own_server.pass_first = 3
    workspace.write_input(workspace.rows(20))
    out = f"{s3.root}/out"
    workspace.configure(own_server.url, output={"path": out, "journal_seconds": 0.1})
    started = workspace.start(environment=s3.environment())
    started.until(lambda: any("/worker-" in key for key in s3.keys("out/journal/")), "there is a sign of life")
    shown = command(s3, "watch", out, "--once")
    assert "3/20 | ok 3" in shown.stdout
    assert "8 in flight" in shown.stdout
    assert "looks dead" not in shown.stderr
    started.kill()
    shown = command(s3, "watch", out)
    assert "this run looks dead: process " in shown.stderr
    own_server.gate.set()

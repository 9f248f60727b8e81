"""What is wrong with a command is said in one line that names it, before anything is called or changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KEY = "PAIDONCE_TEST_KEY"


def flags(*given: str) -> Callable[[Any], list[str]]:
    return lambda _workspace: list(given)


def without_prompt(workspace: Any) -> list[str]:
    values = json.loads(workspace.config.read_text(encoding="utf-8"))
    del values["task"]["prompt"]
    workspace.config.write_text(json.dumps(values), encoding="utf-8")
    return []


def below_a_file(workspace: Any) -> list[str]:
    file = workspace.folder / "a-file"
    file.write_text("x", encoding="utf-8")
    return ["--output", str(file / "out")]


CASES = {
    "a key that is missing": (without_prompt, "task.prompt"),
    "a key that is unknown": (flags("--set", "model.nmae=x"), "model.nmae"),
    "a value of the wrong type": (flags("--set", "limits.max_in_flight=many"), "limits.max_in_flight"),
    "a flag that is unknown": (flags("--runer=FlinkRunner"), "--runner"),
    "a runner that is unknown": (flags("--runner=FlikRunner"), "FlinkRunner"),
    "a flag without its value": (flags("--limit"), "--limit"),
    "a configuration that is not there": (flags("--config", "nowhere.yaml"), "nowhere.yaml"),
    "a pattern without a match": (flags("--input", "nowhere/*.jsonl"), "nowhere/*.jsonl"),
    "a template with an unknown column": (flags("--set", "task.prompt={id}|{txt}"), "txt"),
    "an unknown id column": (flags("--set", "input.id=key"), "'key'"),
    "an unknown carried column": (flags("--set", "input.carry=[colour]"), "'colour'"),
    "an output that cannot be written": (below_a_file, "output.path"),
    "an output that the workers do not see": (flags("--runner=DataflowRunner", "--region=r"), "output.path"),
    "a key that is not set": (flags("--set", f"model.api_key_env={KEY}"), KEY),
    "two result columns of one name": (flags("--set", "input.carry=[label]"), "'label'"),
    "a schema without columns": (flags("--set", "task.schema={type: string}"), "task.schema"),
    "no URL": (flags("--set", "model.base_url=localhost:1"), "model.base_url"),
}


@pytest.mark.parametrize(("change", "named"), CASES.values(), ids=CASES)
def test_one_line_names_it(
    workspace: Any, own_server: Any, change: Callable[[Any], list[str]], named: str, tmp_path: Path
) -> None:
    workspace.write_input([{**row, "label": "x"} for row in workspace.rows(5)])
    workspace.configure(own_server.url)
    given = change(workspace)

    ran = workspace.run(*given)

    assert ran.code == 2, ran.err
    check_one_line(ran.err, named)
    assert ran.out == ""
    assert own_server.calls == 0
    assert not workspace.output.exists()
    assert {path.name for path in (tmp_path / "run-0").iterdir()} == {"stdout", "stderr"}


def check_one_line(text: str, named: str) -> None:
    [line] = text.splitlines()
    assert line.startswith("paidonce: ")
    assert named in line


def test_an_output_that_is_in_use(workspace: Any, own_server: Any) -> None:
    workspace.write_input(workspace.rows(30))
    workspace.configure(own_server.url)
    own_server.pass_first = 10
    own_server.gate.clear()
    first = workspace.start()
    first.until(lambda: own_server.in_flight == 8 and workspace.journal_lines() == 10, "the first run is under way")

    def tree() -> dict[str, str]:  # without the signs of life that the first run goes on to give
        return {path: content for path, content in workspace.tree().items() if "/worker-" not in path}

    before, calls = tree(), own_server.calls

    second = workspace.run()

    assert second.code == 2, second.err
    check_one_line(second.err, f"process {first.process.pid}")
    assert str(workspace.output) in second.err
    assert own_server.calls == calls
    assert tree() == before
    own_server.gate.set()
    assert first.wait().code == 0
    assert own_server.calls == 30
    assert workspace.run().counts["skipped"] == 30  # the lock is gone with its holder


def test_another_task_on_the_same_output(workspace: Any, own_server: Any) -> None:
    workspace.write_input(workspace.rows(5))
    workspace.configure(own_server.url)
    assert workspace.run().code == 0
    before, calls = workspace.tree(), own_server.calls

    ran = workspace.run("--set", "model.parameters.temperature=1")

    assert ran.code == 2, ran.err
    assert ran.err.splitlines() == [
        f"paidonce: {workspace.output} holds answers to another task:",
        "  model.parameters.temperature: (not set) -> 1",
        "choose --on-change=keep to keep them and do the rest, --on-change=redo to do all again, or another --output",
    ]
    assert own_server.calls == calls
    assert workspace.tree() == before
    # What shapes no answer is no other task.
    again = workspace.run("--set", "limits.max_in_flight=3", "--set", "model.price.input=9")
    assert (again.code, again.counts["skipped"]) == (0, 5)

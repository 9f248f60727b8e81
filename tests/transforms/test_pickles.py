"""Steps travel to workers: they are plain configuration, and another process can read them. Case 47."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.internal import pickler

from transforms import call, limit, plan, read, repeats, resume, rows, screen, write
from transforms.done_digests import DoneKey
from transforms.formats.spans import Reading
from transforms.scratch import Scratch
from transforms.screen import Rules
from transforms.settings import Model, Price
from transforms.shards import ShardFormat

READING = Reading("id", "csv", ";", "cp1252")
SCRATCH = Scratch("folder")
SECRET = "sk-not-in-any-pickle-0123456789"
CONFIGURATION = {"_spec", "_stamp", "_rules", "_shards", "_reading", "_count", "_folder", "_kind"} | {
    "_key",
    "_keys",
    "_retry",
    "_scratch",
    "_reasons",
}


@pytest.fixture
def steps(make: Any, call_spec: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    schema = rows.result_schema({"l": pa.list_(pa.struct([("a", pa.int64())]))}, rows.ARROW_TYPES)
    spec = call_spec(
        model=Model(provider="openai", name="m", price=Price(input=1, output=2), parameters={"seed": 1}),
        carried=rows.ARROW_TYPES,
    )
    rules = Rules(spec.task, spec.input, spec.model, rows.ARROW_TYPES)
    return {
        "call": call.CallModel(spec),
        "limit": limit._Limit(3),
        "plan": plan.PlanSpan(READING, rules, DoneKey(SCRATCH)),
        "read": read.ReadSpan(READING, make.stamp),
        "repeats": repeats._DropRepeats(make.stamp),
        "resume": resume._DropDone(DoneKey(SCRATCH), DoneKey(SCRATCH)),
        "prior": resume._ReadIds("none", ("refusal",), SCRATCH),
        "screen": screen._ScreenContent(rules, make.stamp),
        "write": write._WriteBundle(ShardFormat("parquet", 10, schema), "folder", "ok"),
    }


def test_they_come_back_with_what_they_were_given(steps: dict[str, Any]) -> None:
    for name, step in steps.items():
        for there_and_back in (
            lambda value: pickler.loads(pickler.dumps(value)),
            lambda value: pickle.loads(pickle.dumps(value)),
        ):
            again = there_and_back(step)
            assert type(again) is type(step)
            for key in CONFIGURATION & set(vars(step)):
                assert getattr(again, key) == getattr(step, key), (name, key)


def test_every_do_fn_of_the_package_is_here(steps: dict[str, Any]) -> None:
    import apache_beam as beam

    modules = (call, limit, plan, read, repeats, resume, screen, write)
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, beam.DoFn) and value.__module__ == module.__name__
    }
    assert found == {type(step) for step in steps.values()}


def test_another_process_reads_them_and_no_secret_is_in_them(tmp_path: Path, steps: dict[str, Any]) -> None:
    content = pickle.dumps(steps)
    assert SECRET.encode() not in content
    path = tmp_path / "steps"
    path.write_bytes(content)
    program = f"""
import pickle
steps = pickle.load(open({str(path)!r}, "rb"))
print(*sorted(steps))
print(steps["call"]._spec.model.price.input, steps["write"]._shards.schema.field("l").type)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    names, values = done.stdout.splitlines()
    assert names.split() == sorted(steps)
    assert values.startswith("1.0 list<")

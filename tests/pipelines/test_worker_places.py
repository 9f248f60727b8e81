"""Where the workers are that Beam's flags ask for, and which paths they cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.usage import UsageError
from pipelines.worker_places import Place, check_paths, note, place, with_workers
from transforms.settings import Settings

HERE = Place(False, "", 1)
TWO = "--direct_num_workers=2"


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--runner=DirectRunner",
        "--runner=PrismRunner",
        "--runner=prism --environment_type=LOOPBACK",
        "--runner=PrismRunner --environment_type=EXTERNAL --environment_config=localhost:50000",
        "--runner=PrismRunner --environment_type=EXTERNAL --environment_config=127.0.0.1:50000",
        "--runner=PrismRunner --environment_type=EXTERNAL --environment_config=[::1]:50000",
        "--runner=FlinkRunner",
        "--runner=FlinkRunner --flink_master=[local]",
        "--runner=FlinkRunner --flink_master=far:8081 --environment_type=LOOPBACK",
        "--runner=SparkRunner",
        "--runner=SparkRunner --spark_master_url=local[4]",
        f"{TWO} --direct_running_mode=multi_threading",
        TWO,
    ],
)
def test_one_process_on_this_machine(flags: str) -> None:
    assert place(flags.split()) == HERE


@pytest.mark.parametrize(
    "flags",
    [
        "--runner=FlinkRunner --environment_type=EXTERNAL --environment_config=localhost:50000",
        '--runner=FlinkRunner --environment_type=EXTERNAL --environment_config={"url":"localhost:50000"}',
        "--runner=FlinkRunner --flink_master=localhost:8081 --environment_type=PROCESS",
        "--runner=SparkRunner --spark_master_url=local[2] --environment_type=PROCESS",
        "--runner=PortableRunner --job_endpoint=localhost:8099 --environment_type=beam:env:external:v1 "
        "--environment_config=localhost:50000",
    ],
)
def test_processes_of_a_number_that_the_engine_chooses_on_this_machine(flags: str) -> None:
    assert place(flags.split()) == Place(False, "", None)


def test_worker_processes_of_the_in_process_runner() -> None:
    assert place([TWO, "--direct_running_mode=multi_processing"]) == Place(False, "", 2)
    assert (place(["--direct_num_workers=0", "--direct_running_mode=multi_processing"]).processes or 0) >= 1


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--runner=DataflowRunner", "Google"),
        ("--runner=apache_beam.runners.dataflow.dataflow_runner.DataflowRunner", "Google"),
        ("--runner=FlinkRunner --flink_master=localhost:8081", "containers"),
        ("--runner=PortableRunner --job_endpoint=localhost:8099", "containers"),
        ("--runner=SparkRunner --spark_master_url=spark://far:7077", "containers"),
        ("--runner=PrismRunner --environment_type=DOCKER", "containers"),
        ("--runner=FlinkRunner --environment_type=EXTERNAL --environment_config=pool-1:50000", "pool-1"),
        ("--runner=FlinkRunner --flink_master=http://far:8081 --environment_type=PROCESS", "far"),
        (
            "--runner=FlinkRunner --flink_master=far:8081 --environment_type=EXTERNAL --environment_config=localhost:1",
            "far",
        ),
    ],
)
def test_workers_on_other_disks(flags: str, why: str) -> None:
    found = place(flags.split())
    assert found.elsewhere
    assert why in found.why


def test_a_path_of_this_machine_is_refused_where_workers_do_not_see_it() -> None:
    far = Place(True, "they are far", None)
    check_paths(far, [("input.path", "s3://b/in.jsonl"), ("output.table", "postgresql://u@h/d#t")])
    with pytest.raises(UsageError, match=r"^output\.path: /o is on this machine, and they are far.*--shared-paths"):
        check_paths(far, [("input.path", "s3://b/in.jsonl"), ("output.path", "/o")])
    with pytest.raises(UsageError, match=r"^output\.table: sqlite"):
        check_paths(far, [("output.table", "sqlite:////o/d.sqlite")])
    check_paths(HERE, [("output.path", "/o")])


UNKNOWN, THREE = Place(False, "", None), Place(False, "", 3)


def settings(**sections: Any) -> Settings:
    known: dict[str, Any] = {
        "task": {"prompt": "{id}"},
        "input": {"path": "in.jsonl"},
        "output": {"path": "out"},
        "model": {"provider": "openai", "name": "m"},
    }
    return Settings.model_validate({**known, **sections})


def test_the_number_of_processes_that_flags_give_divides_the_limits() -> None:
    assert with_workers(settings(), THREE).limits.workers == 3
    assert with_workers(settings(limits={"workers": 8}), THREE).limits.workers == 8
    assert with_workers(settings(), HERE).limits.workers is None
    assert with_workers(settings(), UNKNOWN).limits.workers is None


def test_a_budget_is_not_for_each_of_an_unknown_number_of_workers() -> None:
    budget = {"max_cost_usd": 1.0}
    with pytest.raises(UsageError, match=r"^budget\.max_cost_usd: .* limits\.workers .* limits\.shared"):
        with_workers(settings(budget=budget), UNKNOWN)
    assert with_workers(settings(budget=budget, limits={"workers": 2}), UNKNOWN).limits.workers == 2
    shared = settings(budget=budget, limits={"shared": "redis://localhost:6379/0"})
    assert with_workers(shared, UNKNOWN) == shared
    assert with_workers(settings(budget=budget), THREE).limits.workers == 3


def test_limits_for_each_of_several_workers_are_named() -> None:
    limited = settings(limits={"requests_per_minute": 100})
    assert "limits.workers" in (note(limited, UNKNOWN) or "")
    assert note(limited, HERE) is None
    assert note(settings(), UNKNOWN) is None
    assert note(settings(limits={"requests_per_minute": 100, "workers": 2}), UNKNOWN) is None

"""Where an engine's workers are, as far as Beam's flags say: they are to see the files that the run names, and keep
to its limits together."""

from __future__ import annotations

import json
import multiprocessing
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from pipelines.usage import UsageError
from transforms import files
from transforms.database import is_database
from transforms.settings import Settings

_HERE = ("localhost", "::1", "0.0.0.0", "[local]", "[auto]")
_SPARK_HERE = re.compile(r"local(\[.+\])?")  # a master's URL for threads of one process
_CLUSTERS = {"flink": "flink_master", "spark": "spark_master_url", "portable": "job_endpoint"}


class Place(NamedTuple):
    """What is known of the workers. `elsewhere`: they have other disks than this machine, and `why` says so.
    `processes` is their number, None where it is the engine's choice."""

    elsewhere: bool
    why: str
    processes: int | None


def place(beam_args: Sequence[str]) -> Place:
    """Where the workers are that these flags of Beam ask for."""
    from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions, StandardOptions

    options = PipelineOptions(list(beam_args))
    given = options.get_all_options()
    runner = (options.view_as(StandardOptions).runner or "").rpartition(".")[2].lower().removesuffix("runner")
    if runner == "dataflow":
        return Place(True, "Dataflow's workers are on machines of Google's", None)
    if runner not in (*_CLUSTERS, "prism"):
        direct = options.view_as(DirectOptions)
        several = direct.direct_running_mode == "multi_processing"
        count = direct.direct_num_workers or multiprocessing.cpu_count()
        return Place(False, "", count if several else 1)
    portable = options.view_as(PortableOptions)
    master = str(given.get(_CLUSTERS.get(runner, "")) or "")
    environment = _environment(portable.environment_type, runner, master)
    processes = 1 if environment == "LOOPBACK" or runner == "prism" else None
    if environment == "DOCKER":
        why = "the workers are in containers, which have disks of their own"
        return Place(True, why if portable.environment_type else f"{why} (the default --environment_type)", processes)
    hosts: list[str] = []
    if environment in ("EXTERNAL", "PROCESS"):  # beside the cluster's own processes, which know a pool as localhost
        hosts.append(_host(master))
    if environment == "EXTERNAL":
        hosts.append(_host(_pool(portable.environment_config or "")))
    far = [host for host in hosts if not _is_here(host)]
    return Place(bool(far), f"the workers are at {far[-1]}" if far else "", processes)


def check_paths(found: Place, paths: Iterable[tuple[str, str]]) -> None:
    """Raises UsageError where one of `paths`, each with the key that it is from, is of this machine alone."""
    if not found.elsewhere:
        return
    for key, path in paths:
        if path.startswith("sqlite:") or (not is_database(path) and files.is_local(path)):
            raise UsageError(
                f"{key}: {path} is on this machine, and {found.why}: name a store that all of them reach (s3://, "
                "gs://, azfs://), or give --shared-paths if it is the same on each of them"
            )


def with_workers(settings: Settings, found: Place) -> Settings:
    """The settings with the number of worker processes that have the account, where Beam's flags say it and the user
    does not. Raises UsageError for a budget that each of an unknown number would spend."""
    limits = settings.limits
    if limits.workers is not None or found.processes == 1:
        return settings
    if found.processes is not None:
        return settings.model_copy(update={"limits": limits.model_copy(update={"workers": found.processes})})
    if settings.budget.max_cost_usd is not None and limits.shared is None:
        raise UsageError(
            "budget.max_cost_usd: this engine may have several worker processes, each of which would spend it: set "
            "limits.workers to their number, of which each gets its part, or limits.shared"
        )
    return settings


def note(settings: Settings, found: Place) -> str | None:
    """What a user should know of limits that hold for each of several workers, None where there is nothing."""
    limits = settings.limits
    if found.processes is not None or limits.workers is not None or limits.shared is not None:
        return None
    places = [limits, *(settings.model.endpoints or ())]
    if not any(each.requests_per_minute or each.tokens_per_minute for each in places):
        return None
    return (
        "the limits per minute hold for each worker process: with several of them set limits.workers to their number, "
        "or limits.shared"
    )


def _environment(given: str | None, runner: str, master: str) -> str:
    """The type of the workers' environment, Beam's default included."""
    if given:
        return given.removeprefix("beam:env:").partition(":")[0].upper()
    if runner == "prism" or (runner == "flink" and _is_here(master) and "[" in master):
        return "LOOPBACK"
    return "LOOPBACK" if runner == "spark" and _SPARK_HERE.fullmatch(master) else "DOCKER"


def _pool(config: str) -> str:
    """The address of a worker pool, which may be the `url` of a JSON object."""
    with suppress(ValueError, AttributeError):
        return str(json.loads(config).get("url") or "")
    return config


def _host(address: str) -> str:
    if address in _HERE or _SPARK_HERE.fullmatch(address):
        return "localhost"
    return urlsplit(address if "://" in address else f"//{address}").hostname or "localhost"


def _is_here(host: str) -> bool:
    return host in _HERE or host.startswith("127.")

"""Where a graph is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions, WorkerOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineState
from apache_beam.runners.worker import sdk_worker

from pipelines.engine_metrics import EngineMetrics

_IN_PROCESS = (None, "FnApiRunner")
_OUR_LOGGERS = "transforms"
_OTHER_MODES = ("multi_threading", "multi_processing")  # that Beam's DirectRunner, too, has the in-process runner do


class EngineError(Exception):
    """The engine ended, or left, a job that is not done."""


def execute(beam_args: Sequence[str], wire: Callable[[Any], object], *, verbose: bool = False) -> EngineMetrics:
    """Runs what `wire` builds into a pipeline, to its end, on the engine that `beam_args` ask for: by default in this
    process. What Beam calls DirectRunner may first download another program to run the graph with. Returns what the
    engine measured. Raises EngineError for a job that it ended otherwise, as somebody's cancelling does, and whatever
    the engine raises."""
    if not verbose:
        # Prints the traceback of every attempt at a bundle past all logging: why a run broke is said once, at its end.
        sdk_worker.print = _print_nothing
    options = PipelineOptions(list(beam_args))
    pipeline = beam.Pipeline(_in_process(options, verbose=verbose), options=options)
    wire(pipeline)
    result = pipeline.run()
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise EngineError(f"the engine says that the job is {state}, and not {PipelineState.DONE}")
    return EngineMetrics.of(result)


def _is_in_process(options: PipelineOptions) -> bool:
    """Whether the graph is run by the in-process runner, with or without worker processes of its own."""
    runner, mode = options.view_as(StandardOptions).runner, options.view_as(DirectOptions).direct_running_mode
    return runner in _IN_PROCESS or (runner == "DirectRunner" and mode in _OTHER_MODES)


def _in_process(options: PipelineOptions, *, verbose: bool) -> FnApiRunner | None:
    """The runner that works in this process, where that is asked for. Worker processes of its own get the options
    too, such as those of a store, which it gives them only this way."""
    if not _is_in_process(options):
        return None
    workers = options.view_as(WorkerOptions)
    if not verbose and workers.default_sdk_harness_log_level is None:
        workers.default_sdk_harness_log_level = "CRITICAL"  # what they log comes to this terminal
        ours = workers.sdk_harness_log_level_overrides or {}
        workers.sdk_harness_log_level_overrides = {_OUR_LOGGERS: "WARNING", **ours}
    given = options.get_all_options(drop_default=True)
    encoded = JobServiceHandle.encode_pipeline_options(given)
    return FnApiRunner(
        provision_info=ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded))
    )


def _print_nothing(*_values: Any, **_settings: Any) -> None:
    pass

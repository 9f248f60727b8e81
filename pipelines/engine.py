"""Where a graph is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.runners.worker import sdk_worker

from pipelines.engine_metrics import EngineMetrics

# Runs in this process. What Beam calls DirectRunner may first download another program to run the graph with.
DEFAULT_RUNNER = "FnApiRunner"


class EngineError(Exception):
    """The engine ended, or left, a job that is not done."""


def execute(beam_args: Sequence[str], wire: Callable[[Any], object], *, verbose: bool = False) -> EngineMetrics:
    """Runs what `wire` builds into a pipeline, to its end, on the engine that `beam_args` ask for. Returns what that
    measured. Raises EngineError for a job that it ended otherwise, as somebody's cancelling does, and whatever the
    engine raises."""
    if not verbose:
        # Prints the traceback of every attempt at a bundle past all logging: why a run broke is said once, at its end.
        sdk_worker.print = _print_nothing
    options = PipelineOptions(list(beam_args))
    if options.view_as(StandardOptions).runner is None:
        options.view_as(StandardOptions).runner = DEFAULT_RUNNER
    pipeline = beam.Pipeline(options=options)
    wire(pipeline)
    result = pipeline.run()
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise EngineError(f"the engine says that the job is {state}, and not {PipelineState.DONE}")
    return EngineMetrics.of(result)


def _print_nothing(*_values: Any, **_settings: Any) -> None:
    pass

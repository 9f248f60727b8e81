"""Where a graph is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.worker import sdk_worker

# Runs in this process. What Beam calls DirectRunner may first download another program to run the graph with.
DEFAULT_RUNNER = "FnApiRunner"


def execute(beam_args: Sequence[str], wire: Callable[[Any], object], *, verbose: bool = False) -> None:
    """Runs what `wire` builds into a pipeline, to its end, on the engine that `beam_args` ask for."""
    if not verbose:
        # Prints the traceback of every attempt at a bundle past all logging: why a run broke is said once, at its end.
        sdk_worker.print = _print_nothing
    options = PipelineOptions(list(beam_args))
    if options.view_as(StandardOptions).runner is None:
        options.view_as(StandardOptions).runner = DEFAULT_RUNNER
    pipeline = beam.Pipeline(options=options)
    wire(pipeline)
    pipeline.run().wait_until_finish()


def _print_nothing(*_values: Any, **_settings: Any) -> None:
    pass

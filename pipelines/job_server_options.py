"""Flags of Flink's job server, which Beam's own list lacks: it learns them from the server, after the launch."""

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions


class JobServerFlags(PipelineOptions):
    """To be imported by whoever looks at Beam's flags: Beam takes those of all subclasses. Only what is given is sent
    on."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add = parser.add_argument
        add("--number_of_execution_retries", type=int, help="how often Flink restarts the job, instead of its own rule")
        add("--execution_retry_delay", type=int, help="milliseconds that Flink waits before it restarts the job")
        add("--max_bundle_size", type=int, help="the most elements of a bundle, where Flink heeds it")

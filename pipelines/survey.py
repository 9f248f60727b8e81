"""The first half of a run, with measures in the place of its calls: it asks nothing and changes nothing."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.pvalue import AsIter, AsSingleton

from pipelines.engine import execute
from pipelines.graph import RunSpec, to_call
from transforms import files
from transforms.given import Given
from transforms.limit import Limit
from transforms.read import DEAD_LETTER
from transforms.sample import Pick
from transforms.scratch import Scratch
from transforms.survey import CountReasons, Measure, Meet, Survey, read_survey, write_survey
from transforms.tally import TALLY, counted


def survey(spec: RunSpec, beam_args: Sequence[str], *, digests: bytes = b"", pilot: int | None = None) -> Survey:
    """Looks through the input of a run. `digests`, a sorted blob, are the ids whose requests are to be measured
    although they are done; `pilot` is how many records to pick.

    What the engine finds comes back through a file: below --temp_location where Beam is given one, else in this
    machine's folder for such files."""
    shared = PipelineOptions(list(beam_args)).view_as(GoogleCloudOptions).temp_location
    if shared is None:
        with tempfile.TemporaryDirectory(prefix="paidonce-") as folder:
            execute(beam_args, lambda pipeline: build(pipeline, spec, folder, digests, pilot))
            return read_survey(folder)
    folder = files.join(shared, f"paidonce-{secrets.token_hex(6)}")
    try:
        execute(beam_args, lambda pipeline: build(pipeline, spec, folder, digests, pilot))
        return read_survey(folder)
    finally:
        files.remove_folder(folder)


def build(pipeline: Any, spec: RunSpec, folder: str, digests: bytes, pilot: int | None) -> None:
    """Wires a survey into `pipeline`, which leaves its result in `folder`."""
    measured = spec.call.task, spec.call.input, spec.call.model
    plan, read, unique, left, sound = to_call(pipeline, spec, Scratch(folder, of_run=False))
    dead = (read[DEAD_LETTER], unique[DEAD_LETTER], sound[DEAD_LETTER]) | "DeadLetters" >> beam.Flatten()
    tallies = [
        read[TALLY],
        unique[TALLY] | "Identical" >> beam.Map(_identical),
        left[TALLY],
        dead | "Reasons" >> beam.ParDo(CountReasons()),
        sound.records | "ToDo" >> Measure("todo", *measured),
    ]
    if spec.limit is not None:
        limited = sound.records | "Limit" >> Limit(spec.limit, AsSingleton(plan))
        tallies.append(limited.records | "Taken" >> Measure("taken", *measured))
    empty = pipeline | "Nothing" >> Given([b""])
    picked = empty if pilot is None else sound.records | "Pick" >> Pick(pilot, *measured)
    met = unique.records | "Known" >> Meet(digests, *measured)
    start = pipeline | "Survey" >> beam.Impulse()
    ends = counted(tallies), AsIter(met), AsSingleton(picked)
    _ = start | "Write" >> beam.Map(write_survey, folder, *ends)


def _identical(tally: dict[str, int]) -> dict[str, int]:
    return {"identical": tally.get("skipped", 0)}

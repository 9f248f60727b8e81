"""What a run would find, counted and measured in the place of its calls."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from transforms import files
from transforms.digests import DigestSet, digest
from transforms.llm.prompt_size import PromptSize
from transforms.records import Record, Row
from transforms.sample import Picked, unpack
from transforms.settings import Input, Model, Task
from transforms.tally import Tally, add

SURVEY_FILE = "survey.json"


class Survey(NamedTuple):
    """Numbers of rows: `total` = `done` + `identical` + all of `set_aside` (by reason) + `todo`. `unpublished` are
    those of `done` that are in journals only. `taken` are those of `todo` that --limit or --pilot lets through.
    Sizes are bytes of their requests. `met` has the request's size of each known row by its position among the
    digests that were looked for."""

    total: int
    done: int
    unpublished: int
    identical: int
    set_aside: dict[str, int]
    todo: int
    todo_size: int
    taken: int
    taken_size: int
    unreadable: list[str]
    met: dict[int, int]
    picked: list[Picked]


@dataclass
class Measure(beam.PTransform):
    """Record -> one tally a bundle: how many there are, under `name`, and the bytes of their requests."""

    name: str
    task: Task
    input: Input
    model: Model

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Measure" >> beam.ParDo(_Measure(self.name, PromptSize(self.task, self.input, self.model)))


class _Measure(beam.DoFn):
    def __init__(self, name: str, size: PromptSize) -> None:
        self._name = name
        self._size = size

    def start_bundle(self) -> None:
        self._rows = self._bytes = 0

    def process(self, record: Record) -> None:
        self._rows += 1
        self._bytes += self._size.of(record.fields)

    def finish_bundle(self) -> Iterator[Any]:
        yield GlobalWindows.windowed_value({self._name: self._rows, f"{self._name}_size": self._bytes})


@dataclass
class Meet(beam.PTransform):
    """Record -> (position, bytes of the request) of each one whose id is among `digests`, a sorted blob."""

    digests: bytes
    task: Task
    input: Input
    model: Model

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Meet" >> beam.ParDo(_Meet(self.digests, PromptSize(self.task, self.input, self.model)))


class _Meet(beam.DoFn):
    def __init__(self, digests: bytes, size: PromptSize) -> None:
        self._digests = digests
        self._size = size

    def setup(self) -> None:
        self._known = DigestSet(self._digests)

    def process(self, record: Record) -> Iterator[tuple[int, int]]:
        at = self._known.find(digest(record.id))
        if at is not None:
            yield at, self._size.of(record.fields)


class CountReasons(beam.DoFn):
    """Failure row -> one tally a bundle: how many there are of each reason."""

    def start_bundle(self) -> None:
        self._tally: Tally = {}

    def process(self, row: Row) -> None:
        add(self._tally, {row["reason"]: 1})

    def finish_bundle(self) -> Iterator[Any]:
        yield GlobalWindows.windowed_value({"set_aside": self._tally})


def write_survey(_start: bytes, folder: str, tally: Tally, met: Iterable[tuple[int, int]], picked: bytes) -> None:
    """Leaves a survey in `folder`, for `read_survey`."""
    value = {"tally": tally, "met": list(met), "picked": base64.b64encode(picked).decode()}
    files.write_json(files.join(folder, SURVEY_FILE), value)


def read_survey(folder: str) -> Survey:
    """The survey that was left in `folder`."""
    value = files.read_json(files.join(folder, SURVEY_FILE))
    tally = value["tally"]
    return Survey(
        total=tally.get("total", 0),
        done=tally.get("skipped", 0) + tally.get("recovered", 0),
        unpublished=tally.get("recovered", 0),
        identical=tally.get("identical", 0),
        set_aside=dict(sorted(tally.get("set_aside", {}).items())),
        todo=tally.get("todo", 0),
        todo_size=tally.get("todo_size", 0),
        taken=tally.get("taken", 0),
        taken_size=tally.get("taken_size", 0),
        unreadable=tally.get("unreadable", []),
        met=dict(value["met"]),
        picked=unpack(base64.b64decode(value["picked"])),
    )

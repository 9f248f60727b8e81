"""The graph of one run, on one screen: see the drawing in the README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from transforms import commit, files, stop
from transforms.account import make_account
from transforms.call import Call
from transforms.call_spec import CallSpec
from transforms.commit import FAILURES, publish
from transforms.done_digests import Done
from transforms.formats.spans import InputFile, Reading
from transforms.given import Given
from transforms.journal import OK
from transforms.layout import Layout
from transforms.limit import Limit
from transforms.plan import MakePlan
from transforms.publish_table import publish_table
from transforms.read import DEAD_LETTER, Read, Spans
from transforms.recover import read_header
from transforms.repeats import DropRepeats, FindRepeats
from transforms.resume import RECOVERED, DoneIds, DropDone, Prior, Retry
from transforms.sample import Sample
from transforms.scratch import Scratch
from transforms.screen import Rules, ScreenContent
from transforms.shards import ShardFormat, Staged
from transforms.spread import Spread
from transforms.table import TableSpec
from transforms.table_ids import PriorRows
from transforms.tally import TALLY, Tally, counted
from transforms.write import WriteShards
from transforms.write_table import WriteTable


@dataclass(frozen=True)
class RunSpec:
    """One run, as plain values: all that the graph is built from."""

    output: str
    header: dict[str, Any]  # see recover.write_header
    inputs: list[InputFile]
    span_bytes: int
    reading: Reading
    rules: Rules
    call: CallSpec
    shards: ShardFormat
    prior: Sequence[Prior | PriorRows]
    recovered: Sequence[Prior | PriorRows]
    prior_failures: list[str]
    retry: Retry
    retry_reasons: tuple[str, ...]
    limit: int | None
    sample: int | None = None  # only records whose draw is at most this are called: see sample.py
    table: TableSpec | None = None  # instead of files in results/ and failures/


class ToCall(NamedTuple):
    """The steps up to the records that are worth a call, those of `sound`. What each step leaves out is beside it."""

    plan: Any
    read: Any
    unique: Any
    left: Any
    sound: Any


class Outcome(NamedTuple):
    """The ends of the graph, for tests to look at."""

    ok: Any
    dead_letters: Any
    committed: Any


def to_call(pipeline: Any, spec: RunSpec, scratch: Scratch) -> ToCall:
    """Wires the first half of a run: from the input to the records that are to be called. It calls nothing, and
    writes what steps tell each other into `scratch`."""
    stamp = spec.call.stamp
    # beam.Create shuffles them, and each is opened.
    spans = pipeline | "InputFiles" >> beam.Create(spec.inputs) | "Spans" >> Spans(spec.span_bytes, spec.reading)
    prior = [*((each, False) for each in spec.prior), *((each, True) for each in spec.recovered)]
    ids = pipeline | "Prior" >> Given(prior) | "DoneIds" >> DoneIds(spec.retry, spec.retry_reasons, scratch)
    done, recovered = Done.of(ids.done, scratch), Done.of(ids[RECOVERED], scratch)
    plan = spans | "Plan" >> MakePlan(spec.reading, spec.rules, done, scratch)
    repeats = plan | "RepeatedIds" >> FindRepeats(spec.reading)

    read = spans | "Records" >> Read(spec.reading, stamp)
    unique = read.records | "Repeats" >> DropRepeats(AsSingleton(repeats), stamp)
    left = unique.records | "Resume" >> DropDone(done, recovered)
    sound = left.records | "Screen" >> ScreenContent(spec.rules, stamp)
    return ToCall(plan, read, unique, left, sound)


def build(pipeline: Any, spec: RunSpec) -> Outcome:
    """Wires a run into `pipeline`. Building it twice from one spec, for an engine that repeats, is one run."""
    staging = Layout(spec.output).staging(spec.call.stamp.run_id)
    scratch = Scratch(Layout(spec.output).journal(spec.call.stamp.run_id))
    plan, read, unique, left, sound = to_call(pipeline, spec, scratch)
    tallies = [read[TALLY], unique[TALLY], left[TALLY]]
    records = sound.records
    if spec.limit is not None:
        limited = records | "Limit" >> Limit(spec.limit, AsSingleton(plan))
        tallies.append(limited[TALLY])
        records = limited.records
    if spec.sample is not None:
        sampled = records | "Sample" >> Sample(spec.sample)
        tallies.append(sampled[TALLY])
        records = sampled.records
    if spec.call.input.shuffle_records:
        records = records | "DealOut" >> Spread()
    called = records | "Call" >> Call(spec.call)

    dead = (read[DEAD_LETTER], unique[DEAD_LETTER], sound[DEAD_LETTER], called[DEAD_LETTER])
    dead_letters = dead | "DeadLetters" >> beam.Flatten()
    if spec.table is None:
        results = called[OK] | "Results" >> WriteShards(spec.shards, staging, "ok")
        failures = dead_letters | "Failures" >> WriteShards(FAILURES, staging, "failed")
    else:
        results = called[OK] | "Results" >> WriteTable(spec.table, "ok")
        failures = dead_letters | "Failures" >> WriteTable(spec.table, "failed")

    tallies += [called[TALLY], results["tally"], failures["tally"]]
    staged = AsIter(results["staged"]), AsIter(failures["staged"])
    committed = pipeline | "Commit" >> beam.Impulse() | "Publish" >> beam.Map(_commit, spec, *staged, counted(tallies))
    return Outcome(called[OK], dead_letters, committed)


def _commit(_start: bytes, spec: RunSpec, results: Any, failures: Any, tally: Tally) -> str:
    layout, run_id = Layout(spec.output), spec.call.stamp.run_id
    stop.check(layout.journal(run_id))
    if not (commit.is_planned(layout, run_id) or files.exists(layout.account(run_id))):
        read_header(layout, run_id)  # raises FileNotFoundError where somebody removed the output meanwhile
    account = make_account(spec.header, tally, stop.reason(layout.journal(run_id)))
    if spec.table is None:
        publish(layout, run_id, list[Staged](results), list[Staged](failures), spec.prior_failures, account)
    else:  # the side inputs are there, so all rows are in the table
        publish_table(layout, run_id, spec.table, account)
    return run_id

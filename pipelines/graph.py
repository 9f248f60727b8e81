"""The graph of one run, on one screen: see the drawing in the README."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from transforms import stop
from transforms.account import make_account
from transforms.ask import CallSpec
from transforms.call import Call
from transforms.commit import FAILURES, publish
from transforms.journal import OK
from transforms.layout import Layout
from transforms.limit import Limit
from transforms.lock import LockLost
from transforms.plan import MakePlan
from transforms.read import DEAD_LETTER, InputFile, Read, Spans
from transforms.repeats import DropRepeats, FindRepeats
from transforms.resume import DoneIds, DropDone, Prior, Retry
from transforms.screen import Rules, ScreenContent
from transforms.tally import TALLY, Tally, total
from transforms.write import ShardFormat, Staged, WriteShards


@dataclass(frozen=True)
class RunSpec:
    """One run, as plain values: all that the graph is built from."""

    output: str
    header: dict[str, Any]  # see recover.write_header
    inputs: list[InputFile]
    span_bytes: int
    id_column: str | None
    rules: Rules
    call: CallSpec
    shards: ShardFormat
    prior: list[Prior]
    recovered: list[Prior]
    prior_failures: list[str]
    retry: Retry
    limit: int | None


class Outcome(NamedTuple):
    """The ends of the graph, for tests to look at."""

    ok: Any
    dead_letters: Any
    committed: Any


def build(pipeline: Any, spec: RunSpec) -> Outcome:
    """Wires a run into `pipeline`. Building it twice from one spec, for an engine that repeats, is one run."""
    layout, stamp = Layout(spec.output), spec.call.stamp
    staging = layout.staging(stamp.run_id)

    spans = pipeline | "InputFiles" >> beam.Create(spec.inputs) | "Spans" >> Spans(spec.span_bytes)
    done = pipeline | "Prior" >> beam.Create(spec.prior) | "DoneIds" >> DoneIds(spec.retry)
    recovered = pipeline | "JustRecovered" >> beam.Create(spec.recovered) | "RecoveredIds" >> DoneIds(spec.retry)
    plan = spans | "Plan" >> MakePlan(spec.id_column, spec.rules, AsIter(done), layout.journal(stamp.run_id))
    repeats = plan | "RepeatedIds" >> FindRepeats(spec.id_column)

    read = spans | "Records" >> Read(spec.id_column, stamp)
    unique = read.records | "Repeats" >> DropRepeats(AsSingleton(repeats), stamp)
    left = unique.records | "Resume" >> DropDone(AsIter(done), AsIter(recovered))
    sound = left.records | "Screen" >> ScreenContent(spec.rules, stamp)
    tallies = [read[TALLY], unique[TALLY], left[TALLY]]
    records = sound.records
    if spec.limit is not None:
        limited = records | "Limit" >> Limit(spec.limit, AsSingleton(plan))
        tallies.append(limited[TALLY])
        records = limited.records
    called = records | "Call" >> Call(spec.call)

    dead = (read[DEAD_LETTER], unique[DEAD_LETTER], sound[DEAD_LETTER], called[DEAD_LETTER])
    dead_letters = dead | "DeadLetters" >> beam.Flatten()
    results = called[OK] | "Results" >> WriteShards(spec.shards, staging, "ok")
    failures = dead_letters | "Failures" >> WriteShards(FAILURES, staging, "failed")

    tallies += [called[TALLY], results["tally"], failures["tally"]]
    counted = tallies | "Tallies" >> beam.Flatten() | "Count" >> beam.CombineGlobally(total)
    committed = (
        pipeline
        | "Commit" >> beam.Create([None])
        | "Publish"
        >> beam.Map(_commit, spec, AsIter(results["staged"]), AsIter(failures["staged"]), AsSingleton(counted))
    )
    return Outcome(called[OK], dead_letters, committed)


def _commit(_start: None, spec: RunSpec, results: Any, failures: Any, tally: Tally) -> str:
    layout, run_id = Layout(spec.output), spec.call.stamp.run_id
    reason = stop.reason(layout.journal(run_id))
    if reason is not None and reason["kind"] == stop.LOCK_LOST:
        raise LockLost(reason["message"])  # the other run publishes what the journal has
    account = make_account(spec.header, tally, reason)
    publish(layout, run_id, list[Staged](results), list[Staged](failures), spec.prior_failures, account)
    return run_id

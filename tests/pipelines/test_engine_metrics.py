"""What the last lines of a run say of what its engine measured, and an engine that ends a job otherwise."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter

from pipelines.engine import EngineError, execute
from pipelines.engine_metrics import EngineMetrics
from transforms.metrics import counter, distribution


class Count(beam.DoFn):
    """Counts elements, and what they are."""

    def __init__(self) -> None:
        self._replayed = counter("replayed")
        self._throttled = counter("cumulativeThrottlingSeconds")
        self._latency, self._tokens = distribution("latency_ms"), distribution("tokens")
        self._other = beam.metrics.Metrics.counter("other", "replayed")

    def process(self, element: int) -> None:
        self._replayed.inc()
        self._other.inc()
        self._throttled.inc(element)
        self._latency.update(1000 * element)
        self._tokens.update(element)


def test_counters_of_all_steps_add_up() -> None:
    def wire(pipeline: Any) -> None:
        numbers = pipeline | beam.Create([1, 2, 3])
        _ = numbers | "A" >> beam.ParDo(Count())
        _ = numbers | beam.Filter(lambda number: number < 3) | "B" >> beam.ParDo(Quiet())

    found = execute([], wire)
    assert found.counters["replayed"] == 5
    line = found.describe()
    assert line == "engine: latency 1,000 to 3,000 ms, mean 2,000 | tokens a row: mean 2 | throttled 6 s | replayed 5"


class Quiet(beam.DoFn):
    def __init__(self) -> None:
        self._replayed = counter("replayed")

    def process(self, _element: int) -> None:
        self._replayed.inc()


def test_nothing_is_said_of_nothing() -> None:
    found = execute([], lambda pipeline: pipeline | beam.Create([1]))
    assert found.describe() is None
    assert EngineMetrics().describe() is None


class Result:
    """Of an engine that gives `metrics`, or raises it."""

    def __init__(self, state: str | None = "DONE", metrics: Any = None) -> None:
        self._state, self._metrics = state, metrics

    def wait_until_finish(self) -> str | None:
        return self._state

    def metrics(self) -> Any:
        if isinstance(self._metrics, Exception):
            raise self._metrics
        return self

    def query(self, _filter: MetricsFilter) -> Any:
        return self._metrics


@pytest.mark.parametrize("metrics", [NotImplementedError(), RuntimeError("gone"), None, {}])
def test_an_engine_without_metrics(monkeypatch: pytest.MonkeyPatch, metrics: Any) -> None:
    monkeypatch.setattr(beam.Pipeline, "run", lambda _self: Result(metrics=metrics))
    assert execute([], lambda _pipeline: None).describe() is None


@pytest.mark.parametrize("state", ["CANCELLED", "UNKNOWN", None])
def test_a_job_that_is_not_done_is_an_error(monkeypatch: pytest.MonkeyPatch, state: str | None) -> None:
    monkeypatch.setattr(beam.Pipeline, "run", lambda _self: Result(state))
    with pytest.raises(EngineError, match=f"the job is {state}"):
        execute([], lambda _pipeline: None)

"""What the calling step tells its engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from apache_beam.metrics.execution import MetricsContainer
from apache_beam.metrics.metricbase import MetricName
from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

from transforms.call_metrics import WholeSeconds
from transforms.llm.completion import Completion, Usage
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import RowError
from transforms.settings import Model, Price, Task

WAIT = 30  # seconds: for what comes within one, unless something is broken
PRICED = Model(provider="openai", name="m", price=Price(input=0.01, output=0.02))


class Measured:
    """What an engine counts for the step that runs in this thread."""

    def __init__(self, container: MetricsContainer) -> None:
        self._container = container

    def count(self, name: str) -> int:
        cell = self._container.get_counter(MetricName("paidonce", name))
        return int(cell.get_cumulative())

    def counts(self, *names: str) -> dict[str, int]:
        return {name: self.count(name) for name in names}

    def distribution(self, name: str) -> tuple[int, int, int, int]:
        """Count, sum, least, most."""
        data = self._container.get_distribution(MetricName("paidonce", name)).get_cumulative()
        return data.count, data.sum, data.min, data.max

    @property
    def throttled(self) -> int:
        return self.count("cumulativeThrottlingSeconds")


@pytest.fixture
def engine() -> Iterator[Measured]:
    before = statesampler.get_current_tracker()
    sampler = statesampler.StateSampler("test", CounterFactory())
    container = MetricsContainer("Call")
    statesampler.set_current_tracker(sampler)
    with sampler.scoped_state("Call", "process-msecs", metrics_container=container):
        yield Measured(container)
    statesampler.set_current_tracker(before)


@pytest.fixture
def records(make: Any) -> Callable[[int], list[Any]]:
    return lambda count: [make.record(str(number), number) for number in range(count)]


def test_what_rows_took(engine: Measured, model: Any, call_spec: Any, drive: Any, records: Any) -> None:
    def behave(prompt: str) -> Completion:
        if prompt == "2":
            raise RowError("content_filter", "no")
        usage = Usage(None, None) if prompt == "1" else Usage(11, 7)
        return Completion(f"echo {prompt}", "m-1", "stop", usage)

    model.behave = behave
    drive(call_spec())(records(5))
    assert engine.counts("ok", "failed", "replayed") == {"ok": 4, "failed": 1, "replayed": 0}
    names = "calls", "prompt_tokens", "completion_tokens"
    assert engine.counts(*names) == {"calls": 5, "prompt_tokens": 33, "completion_tokens": 21}
    assert engine.distribution("tokens") == (3, 54, 18, 18)
    count, _sum, least, most = engine.distribution("latency_ms")
    assert count == 4
    assert 0 <= least <= most


def test_what_is_given_again_is_counted_as_replayed_and_never_paid_again(
    engine: Measured, model: Any, call_spec: Any, drive: Any, records: Any
) -> None:
    step = drive(call_spec(model=PRICED))
    step(records(3))
    paid = "calls", "prompt_tokens", "completion_tokens", "cost_micro_usd"
    before = engine.counts(*paid), engine.distribution("tokens"), engine.distribution("latency_ms")
    assert before[0]["calls"] == 3
    step(records(4))
    assert engine.counts("ok", "replayed") == {"ok": 7, "replayed": 3}
    assert engine.counts(*paid)["calls"] == 4
    assert engine.distribution("tokens")[0] == before[1][0] + 1


def test_costs_below_a_millionth_of_a_dollar_add_up(
    engine: Measured, model: Any, call_spec: Any, drive: Any, records: Any
) -> None:
    step = drive(call_spec(model=PRICED))  # 20 tokens and 5: 0.3 millionths a row
    for start in range(0, 100, 10):
        step(records(100)[start : start + 10])
    assert engine.count("cost_micro_usd") in (29, 30)  # of 30, with one that is not whole yet


def test_rows_that_share_a_call_count_it_once(
    engine: Measured, model: Any, call_spec: Any, drive: Any, records: Any
) -> None:
    def behave(prompt: str) -> Completion:
        return Completion(json.dumps(dict.fromkeys(json.loads(prompt), "x")), "m-1", "stop", Usage(30, 9))

    model.behave = behave
    drive(call_spec(task=Task(prompt="{id}", records_per_call=3), max_in_flight=1))(records(3))
    assert engine.counts("ok", "calls", "prompt_tokens") == {"ok": 3, "calls": 1, "prompt_tokens": 30}
    assert engine.distribution("latency_ms")[0] == 1
    assert engine.distribution("tokens")[:2] == (3, 39)


def test_rows_that_have_anothers_answer_took_nothing(
    engine: Measured, model: Any, call_spec: Any, drive: Any, records: Any
) -> None:
    drive(call_spec(task=Task(prompt="same"), share_identical=True))(records(4))
    assert engine.counts("ok", "calls", "prompt_tokens") == {"ok": 4, "calls": 1, "prompt_tokens": 20}
    assert engine.distribution("tokens")[:2] == (1, 25)


def test_throttled_seconds_are_told_while_the_bundle_is_on(
    engine: Measured, model: Any, call_spec: Any, drive: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [0.0]
    monkeypatch.setattr(Endpoints, "throttled", property(lambda _self: held[0]))
    told: list[int] = []

    def behave(_prompt: str) -> None:
        """Is held back, and then does not answer before the engine knows, or it would never have known in time."""
        held[0] += 1.5
        end = time.monotonic() + WAIT
        while engine.throttled < int(held[0]) and time.monotonic() < end:
            time.sleep(0.01)
        told.append(engine.throttled)

    model.behave = behave
    drive(call_spec(max_in_flight=1))(records(2))
    assert told == [1, 3]


def test_no_second_is_told_twice_and_rests_are_kept() -> None:
    now = [0.0]
    seconds = WholeSeconds(lambda: now[0])
    told = []
    for now[0] in (0.4, 0.9, 1.2, 1.9, 4.0, 4.0, 4.7):
        told.append(seconds.take())
    assert told == [0, 0, 1, 0, 3, 0, 0]

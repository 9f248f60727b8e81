"""The limits of a run's accounts, as a worker process keeps to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from transforms import account_limits, redis_link, workers
from transforms.call_spec import CallSpec
from transforms.llm.amounts import Amounts
from transforms.llm.shared_paces import SharedPaces
from transforms.settings import Limits, Model

MODEL = Model(provider="openai", name="m")


def test_a_minute_outlives_the_threads_that_used_it(
    drive: Callable[..., Any], call_spec: Callable[..., CallSpec], make: Any, model: Any
) -> None:
    spec = call_spec(limits=Limits(requests_per_minute=60_000))
    drive(spec)([make.record("a"), make.record("b")])
    (paces,) = account_limits.of_run(spec.journal, spec.model, spec.limits)
    workers.close_all()
    drive(spec)([make.record("c")])
    assert account_limits.of_run(spec.journal, spec.model, spec.limits) == [paces]
    assert paces._all[0]._sum == 3  # type: ignore[union-attr]


def test_each_endpoint_has_its_own(redis_server: Any) -> None:
    model = Model(provider="openai", name="m", endpoints=[{"requests_per_minute": 6}, {"base_url": "http://b/v1"}])
    limits = Limits(shared=redis_server.url, requests_per_minute=600)
    first, second = account_limits.of_run("out/journal/endpoints", model, limits)
    assert isinstance(first, SharedPaces)
    assert isinstance(second, SharedPaces)
    for paces in (first, second):
        turns = [paces.ask(Amounts()) for _ in range(4)]
        assert sum(turn is not None and turn.wait == 0 for turn in turns) == (1 if paces is first else 4)
    redis_link.redis_link(redis_server.url).close()


@pytest.mark.parametrize("change", [{"name": "n"}, {"base_url": "http://b/v1"}, {"api_key_env": "KEY_B"}])
def test_another_account_is_another_limit(change: dict[str, Any]) -> None:
    assert account_limits.account_key(MODEL) == account_limits.account_key(Model(**MODEL.model_dump()))
    assert account_limits.account_key(MODEL.model_copy(update=change)) != account_limits.account_key(MODEL)
    with_parameters = MODEL.model_copy(update={"parameters": {"temperature": 0}})
    assert account_limits.account_key(with_parameters) == account_limits.account_key(MODEL)

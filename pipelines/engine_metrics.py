"""What an engine measured of a run beside its account, in one line: see transforms/metrics.py."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from apache_beam.metrics import MetricsFilter

from transforms.metrics import NAMESPACE

THROTTLED = "cumulativeThrottlingSeconds"


class EngineMetrics:
    """The metrics of a run by name, over all its steps. They are of attempts: a bundle that was repeated is in them
    twice. Empty where the engine has none."""

    def __init__(self, counters: Iterable[Any] = (), distributions: Iterable[Any] = ()) -> None:
        self.counters: dict[str, int] = {}
        self._distributions: dict[str, Any] = {}
        for found in counters:
            name = found.key.metric.name
            self.counters[name] = self.counters.get(name, 0) + (found.result or 0)
        for found in distributions:  # those with our names are of one step each
            if found.result is not None and found.result.count:
                self._distributions[found.key.metric.name] = found.result

    @classmethod
    def of(cls, result: Any) -> EngineMetrics:
        """Those of Beam's PipelineResult. An engine may have none, or fail to give them: a run is not worse for it."""
        try:
            found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
            return cls(found["counters"], found["distributions"])
        except Exception:
            logging.getLogger(__name__).info("the engine gives no metrics", exc_info=True)
            return cls()

    def describe(self) -> str | None:
        """What the account does not say, e.g. `engine: latency 181 to 2,406 ms, mean 252 | tokens a row: mean 81 |
        throttled 12 s | replayed 40`. None where there is nothing to say."""
        parts = []
        latency, tokens = self._distributions.get("latency_ms"), self._distributions.get("tokens")
        if latency is not None:
            parts.append(f"latency {latency.min:,} to {latency.max:,} ms, mean {latency.mean:,.0f}")
        if tokens is not None:
            parts.append(f"tokens a row: mean {tokens.mean:,.0f}")
        if self.counters.get(THROTTLED):
            parts.append(f"throttled {self.counters[THROTTLED]:,} s")
        if self.counters.get("replayed"):
            parts.append(f"replayed {self.counters['replayed']:,}")
        return f"engine: {' | '.join(parts)}" if parts else None

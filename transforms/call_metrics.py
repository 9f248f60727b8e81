"""What the calling step tells its engine: see metrics.py. To be used by the thread that works on the bundle, for
which alone the engine counts, and never by those that call."""

from __future__ import annotations

import threading
from collections.abc import Callable

from apache_beam.io.components.adaptive_throttler import ThrottlingSignaler

from transforms.journal import OK, Entry
from transforms.llm.notes import SHARED
from transforms.metrics import NAMESPACE, counter, distribution

_MICRO = 1_000_000
_AMOUNTS = ("prompt_tokens", "completion_tokens")


class WholeSeconds:
    """The seconds of a clock that only grows, each told once, to whoever in the process asks first. Rests are kept
    until they are a second, as engines count whole ones."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._told = 0
        self._lock = threading.Lock()

    def take(self) -> int:
        """Those that nobody was told yet."""
        if self._seconds() < self._told + 1:  # mostly, and then without a lock
            return 0
        with self._lock:
            new = int(self._seconds()) - self._told
            self._told += new
            return new


class CallMetrics:
    """One instance of the calling step has one.

    `ok` and `failed` count the rows it gives, those that are given again from the journal included, which `replayed`
    counts as well. `calls`, `prompt_tokens`, `completion_tokens` and `cost_micro_usd` are what rows took that were
    asked now; amounts that are unknown are not in them. `latency_ms` is of requests that were answered with a result,
    `tokens` of rows, both kinds together. `cumulativeThrottlingSeconds` is the name by which Beam's own connectors
    tell Dataflow that more workers would not help: the seconds for which limits or pauses held calls back.
    """

    def __init__(self) -> None:
        self._outcomes = {True: counter("ok"), False: counter("failed")}
        self._replayed = counter("replayed")
        self._calls = counter("calls")
        self._amounts = {name: counter(name) for name in _AMOUNTS}
        self._cost = counter("cost_micro_usd")
        self._cost_rest = 0.0  # micro-dollars: a row may cost less than one
        self._latency = distribution("latency_ms")
        self._tokens = distribution("tokens")
        self._throttling = ThrottlingSignaler(NAMESPACE)

    def replayed(self, entry: Entry) -> None:
        """Counts an outcome that the journal had."""
        self._replayed.inc()
        self._outcomes[entry.outcome == OK].inc()

    def answered(self, entry: Entry) -> None:
        """Counts the outcome of a record that was asked, or that shares another's."""
        row = entry.row
        self._outcomes[entry.outcome == OK].inc()
        if SHARED in entry.notes:
            return
        self._calls.inc(row["attempts"])
        for name, amount in self._amounts.items():
            if row[name]:
                amount.inc(row[name])
        if row["prompt_tokens"] is not None and row["completion_tokens"] is not None:
            self._tokens.update(row["prompt_tokens"] + row["completion_tokens"])
        if row["cost_usd"]:
            self._add_cost(row["cost_usd"] * _MICRO)
        if entry.outcome == OK and row["attempts"]:  # of rows that share a call one has its attempts
            self._latency.update(round(row["latency_ms"]))

    def throttled(self, seconds: WholeSeconds) -> None:
        """Reports what of `seconds` is new."""
        new = seconds.take()
        if new:
            self._throttling.signal_throttled(new)

    def _add_cost(self, micro_usd: float) -> None:
        self._cost_rest += micro_usd
        whole = int(self._cost_rest)
        if whole:
            self._cost.inc(whole)
            self._cost_rest -= whole

"""The budget of a run, as a worker process keeps to it: alone, by its part, or together with others."""

from __future__ import annotations

import hashlib

from transforms import heartbeat
from transforms.budget import Budget, journal_cost_usd
from transforms.call_spec import CallSpec
from transforms.ledger import Ledger, LocalLedger
from transforms.llm.forecast import Forecast
from transforms.redis_link import process_name, redis_link
from transforms.shared_ledger import SharedLedger

_SHORTEST_LAPSE = 60.0  # seconds


def open_budget(spec: CallSpec) -> Budget:
    """The budget by a run's settings, and by what its journal says is spent."""
    assert spec.model.price is not None
    return Budget(_ledger(spec), Forecast(spec.task, spec.input, spec.model, spec.model.price))


def _ledger(spec: CallSpec) -> Ledger:
    assert spec.budget is not None
    most, earlier, journal = spec.budget.max_cost_usd, spec.budget.spent_usd, spec.journal
    workers = spec.limits.workers or 1
    if spec.limits.shared is not None:
        return SharedLedger(
            redis_link(spec.limits.shared),
            hashlib.sha256(journal.encode()).hexdigest()[:16],
            process_name(),
            most,
            lambda: earlier + journal_cost_usd(journal),
            lapse_seconds=max(_SHORTEST_LAPSE, 2 * spec.limits.timeout_seconds),
            workers=lambda: max(workers, heartbeat.alive(journal)),
        )
    spent = journal_cost_usd(journal)
    if workers == 1:
        return LocalLedger(most, earlier + spent)
    part = max(0.0, most - earlier) / workers
    if heartbeat.others(journal) >= workers:  # in the place of one that died: all that is spent may be of its part
        part = max(0.0, part - spent)
    return LocalLedger(most, earlier + spent, most_usd=min(most, earlier + spent + part))

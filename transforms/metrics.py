"""What a run tells its engine while it goes, as Beam's metrics. The account does not rest on them: an engine counts
attempts, so what it repeats counts twice, and some engines report none. See the README for all names."""

from __future__ import annotations

from typing import Any

from apache_beam.metrics import Metrics

NAMESPACE = "paidonce"


def counter(name: str) -> Any:
    """A counter of that name, which adds up over all steps that have one."""
    return Metrics.counter(NAMESPACE, name)


def distribution(name: str) -> Any:
    """A distribution of whole numbers: their count, sum, least and most."""
    return Metrics.distribution(NAMESPACE, name)

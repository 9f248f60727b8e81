"""What a graph is built with, as the elements that it begins with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam


class Given(beam.PTransform):
    """The values, one element each, from one step: beam.Create takes three, and a shuffle where there are several.
    Whoever has much to do for each spreads them."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__()
        self._values = list(values)

    def expand(self, pbegin: Any) -> Any:
        return pbegin | "Start" >> beam.Impulse() | "Give" >> beam.FlatMap(_give, self._values)


def _give(_start: bytes, values: Iterable[Any]) -> Iterable[Any]:
    return values

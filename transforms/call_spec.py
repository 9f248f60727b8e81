"""What calling needs to know of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from transforms.budget import BudgetSpec
from transforms.rolled_journal import RollRule
from transforms.rows import RunStamp
from transforms.settings import Input, Limits, Model, Task


@dataclass(frozen=True)
class CallSpec:
    """All that calling needs, as plain values. `carried` are the input columns that results carry along. A budget
    needs model.price."""

    task: Task
    input: Input
    model: Model
    limits: Limits
    max_in_flight: int
    carried: Mapping[str, pa.DataType]
    stamp: RunStamp
    journal: str
    budget: BudgetSpec | None = None
    ordered: bool = False  # results say where their records stand in the input
    roll: RollRule = field(default_factory=RollRule)  # of a journal on a store
    share_identical: bool = False

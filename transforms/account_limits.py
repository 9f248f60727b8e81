"""The limits per minute of a run's accounts, as a worker process keeps to them."""

from __future__ import annotations

import threading

from transforms.llm.endpoint import local_paces
from transforms.llm.paces import Paces
from transforms.settings import Limits, Model

_lock = threading.Lock()
_paces: dict[str, list[Paces]] = {}


def of_run(journal_folder: str, model: Model, limits: Limits) -> list[Paces]:
    """The process's paces of the run with that journal, one for each endpoint. They outlive the threads of the run,
    which may end and be started again within the minute that is counted."""
    with _lock:
        if journal_folder not in _paces:
            _paces[journal_folder] = local_paces(model, limits)
        return _paces[journal_folder]

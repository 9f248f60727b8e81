"""The limits per minute of a run's accounts, as a worker process keeps to them: alone, or shared with others."""

from __future__ import annotations

import hashlib
import threading

from transforms import heartbeat
from transforms.llm.endpoint import local_paces
from transforms.llm.paces import Paces
from transforms.llm.shared_paces import SharedPaces
from transforms.records import canonical_json
from transforms.redis_link import process_name, redis_link
from transforms.settings import Limits, Model

_lock = threading.Lock()
_paces: dict[str, list[Paces | SharedPaces]] = {}


def of_run(journal_folder: str, model: Model, limits: Limits) -> list[Paces | SharedPaces]:
    """The process's paces of the run with that journal, one for each endpoint. They outlive the threads of the run,
    which may end and be started again within the minute that is counted.

    Raises ValueError, naming the setting, where limits cannot be shared as they are to be."""
    with _lock:
        if journal_folder not in _paces:
            _paces[journal_folder] = _open(journal_folder, model, limits)
        return _paces[journal_folder]


def account_key(model: Model) -> str:
    """What the limits of an endpoint's account are known by, to all who use it: a digest, without the key."""
    account = [model.provider, model.base_url, model.name, model.api_key_env]
    return hashlib.sha256(canonical_json(account).encode()).hexdigest()[:16]


def _open(journal_folder: str, model: Model, limits: Limits) -> list[Paces | SharedPaces]:
    if limits.shared is None:
        return [*local_paces(model, limits)]
    try:
        link = redis_link(limits.shared)
    except ValueError as error:
        raise ValueError(f"limits.shared: {error}") from None
    return [
        SharedPaces(
            link,
            account_key(each),
            process_name(),
            local,
            headroom=limits.headroom,
            workers=limits.workers or 1,
            others=lambda: heartbeat.alive(journal_folder),
        )
        for each, local in zip(model.per_endpoint, local_paces(model, limits), strict=True)
    ]

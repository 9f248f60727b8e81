"""One place where the model is reached: its client, its gate and its health."""

from __future__ import annotations

from collections.abc import Sequence

from transforms.llm.client import Client, connect
from transforms.llm.gate import Gate
from transforms.llm.health import Health
from transforms.llm.paces import Paces
from transforms.llm.shared_paces import SharedPaces
from transforms.settings import Limits, Model, Task


class LiveEndpoint:
    """An endpoint of the settings while a process uses it."""

    __slots__ = ("client", "gate", "health")

    def __init__(self, client: Client, gate: Gate) -> None:
        self.client = client
        self.gate = gate
        self.health = Health()


def local_paces(model: Model, limits: Limits) -> list[Paces]:
    """The limits per minute of each endpoint of `model`, for this process to keep alone: of limits.workers processes
    each has its part."""
    found = []
    for at in range(len(model.per_endpoint)):
        own = model.endpoints[at] if model.endpoints else None
        found.append(
            Paces(
                requests_per_minute=(own and own.requests_per_minute) or limits.requests_per_minute,
                tokens_per_minute=(own and own.tokens_per_minute) or limits.tokens_per_minute,
                headroom=limits.headroom,
                workers=limits.workers or 1,
            )
        )
    return found


def connect_all(
    task: Task, model: Model, limits: Limits, *, max_in_flight: int, paces: Sequence[Paces | SharedPaces]
) -> list[LiveEndpoint]:
    """All endpoints of `model`, each with a gate of its own. `max_in_flight` is the process's, the most for one
    that has none of its own; `paces` are the endpoints' limits. Raises ValueError, naming the setting, for what
    cannot work."""
    found: list[LiveEndpoint] = []
    try:
        for at, (each, limit) in enumerate(zip(model.per_endpoint, paces, strict=True)):
            own = model.endpoints[at] if model.endpoints else None
            most = min(max_in_flight, own.max_in_flight or max_in_flight) if own else max_in_flight
            gate = Gate(max_in_flight=most, paces=limit, longest_pause=limits.max_retry_after_seconds)
            found.append(LiveEndpoint(connect(task, each, limits, pool_size=most), gate))
    except BaseException:
        for endpoint in found:
            endpoint.client.close()
        raise
    return found

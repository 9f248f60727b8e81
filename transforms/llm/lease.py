"""The right to make one request."""

from __future__ import annotations

from collections.abc import Callable

from transforms.llm.amounts import Amounts
from transforms.llm.client import Client
from transforms.llm.completion import Completion
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.errors import CallError

Outcome = Completion | CallError | None  # None: it broke on our side


class Lease:
    """The right to make one request by `client`, from now on; given back with what came of it."""

    __slots__ = ("_give_back", "amounts", "characters", "endpoint", "number", "started", "turn")

    def __init__(
        self,
        endpoint: LiveEndpoint,
        characters: int,
        amounts: Amounts,
        number: int,
        started: float,
        give_back: Callable[[Lease, Outcome], bool],
        turn: str | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.characters = characters  # of the prompt
        self.amounts = amounts  # that are reserved
        self.number = number  # the gate's
        self.started = started  # by the clock of Endpoints
        self.turn = turn  # when it was counted by those who share the limits; None: only this process counts it
        self._give_back = give_back

    @property
    def client(self) -> Client:
        """Makes the request."""
        return self.endpoint.client

    @property
    def divided(self) -> bool:
        """Whether limits that are to be shared are not: it was given by this process's part of them."""
        return self.turn is None and self.endpoint.gate.shared is not None

    def release(self, outcome: Outcome) -> bool:
        """Gives it back, once. None: the request broke on our side. True if the endpoint is out for the rest of the
        run because of this outcome, and another one is left to ask."""
        return self._give_back(self, outcome)

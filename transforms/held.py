"""What it is to hold an output directory, whatever holds it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol


class Locked(Exception):
    """Another run holds the directory; the message says which."""


class LockLost(Exception):
    """Another run has taken the directory over while it was held."""


class Held(Protocol):
    """A lock that may be lost while it is held."""

    lost: str | None  # why it is held no more, None where it is

    def __enter__(self) -> Any:
        """Takes it. Raises Locked or OSError."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets it go."""

    def on_lost(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` once it is lost."""

    def check(self) -> None:
        """Raises LockLost where it is lost."""


def in_use(output: str, holder: Any) -> str:
    """The message of Locked; `holder` is what its file says."""
    try:
        who = f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (KeyError, TypeError):
        who = "another process"
    return f"{output} is in use by another run: {who}"

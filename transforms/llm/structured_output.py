"""How the model is asked for JSON, and what is asked for instead where the endpoint refuses that."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal

from transforms.llm.errors import AccountError, CallError, FormatRefused, RowError
from transforms.llm.prompt import Prompt

Mode = Literal["json_schema", "json_object", "off"]

_REFUSED = (400, 422)  # the statuses of a request that is not understood


def modes(setting: str, schema: dict[str, Any] | None, known: Sequence[Mode]) -> tuple[Mode, ...]:
    """What model.structured_output stands for, best first. `known` is what the provider's protocol has.

    Raises ValueError for a mode that it does not have."""
    if schema is None:
        return ("off",)
    if setting == "auto":
        return tuple(known)
    for mode in known:
        if mode == setting:
            return (mode,)
    raise ValueError(f"model.structured_output: {setting} is not what this provider has; it has {', '.join(known)}")


class StructuredOutput:
    """Which of `modes` the requests of one client use: the first, until the endpoint refuses it. That is found
    once a process, not once a row; with one mode there is nothing to find. Safe for threads.

    A refusal that names the format moves all requests to the next mode. Many endpoints only say that something
    is wrong, or say it in words (DeepSeek, Azure: `param` is null). There, and only as long as no request has been
    answered in the mode, the row is tried with the last mode, `off`: is it answered, the format was refused; is
    it refused again, the row is at fault.
    """

    def __init__(self, modes: Sequence[Mode]) -> None:
        self._modes = tuple(modes)
        self._last = len(self._modes) - 1
        self._at = 0
        self._proven = self._last == 0  # a request was answered in this mode, or there is no other
        self._trials: dict[Prompt, int] = {}  # rows that are tried without, and the mode they were refused in
        self._lock = threading.Lock()

    def mode(self, prompt: Prompt) -> Mode:
        """The mode for the next request with this prompt."""
        if self._trials and prompt in self._trials:
            return self._modes[self._last]
        return self._modes[self._at]

    def is_fallback(self, mode: Mode) -> bool:
        """Whether `mode` is less than what was to be used."""
        return mode != self._modes[0]

    def accepted(self, mode: Mode, prompt: Prompt) -> None:
        """A request was answered."""
        if self._proven:
            return
        with self._lock:
            refused = self._trials.pop(prompt, None)
            if refused is None:
                self._proven = self._proven or mode == self._modes[self._at]
            elif refused == self._at:
                self._fall_back(refused)
            if self._proven:
                self._trials.clear()

    def refused(self, mode: Mode, prompt: Prompt, error: CallError, *, named: bool) -> CallError:
        """What to raise for a request that ended with `error`: that, or FormatRefused if the same row is to be
        asked again. `named`: the endpoint says that the format is what it refuses."""
        if not (named or _may_be_the_format(error)):
            return error
        at = self._modes.index(mode)
        with self._lock:
            if at == self._last:
                self._trials.pop(prompt, None)
                return error
            if at == self._at:  # else others have found out while this request was under way
                if named:
                    self._fall_back(at)
                elif self._proven:
                    return error
                else:
                    self._trials[prompt] = at
        return FormatRefused(f"asked for {mode}: {error.message}", http_status=error.http_status)

    def _fall_back(self, refused: int) -> None:
        self._at = refused + 1
        self._proven = self._at == self._last


def _may_be_the_format(error: CallError) -> bool:
    if error.http_status not in _REFUSED:
        return False
    return isinstance(error, (RowError, AccountError)) and error.reason in ("bad_request", "config_rejected")

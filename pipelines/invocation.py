"""The command that started a run, as it could be typed again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from pipelines.keys import holds_secret
from transforms.llm.secrets import MASK, masked

_NAME = re.compile("[A-Z_][A-Z0-9_]*")
# What says which rows one run does, not what the run is.
_PER_RUN = ("--retry", "--retry-reason", "--on-change", "--limit")


def shown_command(prog: str, argv: Sequence[str]) -> str:
    """The command line for a shell, in one line. Values that could be secrets are masked."""
    return " ".join([prog, *(shlex.quote(part) for part in _without_secrets(argv))])


def again(command: str, *flags: str) -> str:
    """A command as `shown_command` gives it, with `flags` in place of those that say which rows a run does."""
    parts = iter(shlex.split(command))
    kept = []
    for part in parts:
        if part in _PER_RUN:
            next(parts, None)
        elif part.partition("=")[0] not in _PER_RUN:
            kept.append(part)
    return " ".join([*map(shlex.quote, kept), *flags])


def _without_secrets(argv: Iterable[str]) -> Iterable[str]:
    for part in argv:
        start, equals, value = part.partition("=")
        if start == "--set":
            key, _, value = value.partition("=")
            start = f"--set={key}"
        key = start.removeprefix("--set=")
        # The name of a variable is needed to type the command again, and looks like none of the keys there are.
        secret = equals and holds_secret(key) and not (key.endswith("api_key_env") and _NAME.fullmatch(value))
        yield f"{start}={MASK}" if secret else masked(part)

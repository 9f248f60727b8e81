"""The command that started a run, as it could be typed again."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence

from pipelines.keys import holds_secret
from transforms.llm.secrets import MASK, masked

_NAME = re.compile("[A-Z_][A-Z0-9_]*")
# What says which rows one run does, not what the run is.
_PER_RUN = ("--retry", "--retry-reason", "--on-change", "--limit", "--pilot")


def shown_command(prog: str, argv: Sequence[str]) -> str:
    """The command line for a shell, in one line, with the interpreter as it was typed; `prog` stands for that where
    another program called. Values that could be secrets are masked."""
    head = sys.orig_argv[: len(sys.orig_argv) - len(argv)]
    typed = shlex.join(head) if sys.orig_argv[len(head) :] == list(argv) else prog
    return " ".join([typed, *(shlex.quote(part) for part in _without_secrets(argv))])


def again(command: str, *flags: str) -> str:
    """A command as `shown_command` gives it, with `flags` in place of those that say which rows a run does."""
    return without(command, *_PER_RUN) + "".join(f" {flag}" for flag in flags)


def without(command: str, *flags: str) -> str:
    """A command as `shown_command` gives it, without some flags that each take a value."""
    parts = iter(shlex.split(command))
    kept = []
    for part in parts:
        if part in flags:
            next(parts, None)
        elif part.partition("=")[0] not in flags:
            kept.append(part)
    return shlex.join(kept)


def _without_secrets(argv: Iterable[str]) -> Iterable[str]:
    follows = False  # the value of a flag that holds a secret
    for part in argv:
        if follows and not part.startswith("--"):
            follows = False
            yield MASK
            continue
        follows = part.startswith("--") and "=" not in part and holds_secret(part)
        start, equals, value = part.partition("=")
        if start == "--set":
            key, _, value = value.partition("=")
            start = f"--set={key}"
        key = start.removeprefix("--set=")
        # The name of a variable is needed to type the command again, and looks like none of the keys there are.
        secret = equals and holds_secret(key) and not (key.endswith("api_key_env") and _NAME.fullmatch(value))
        yield f"{start}={MASK}" if secret else masked(part)

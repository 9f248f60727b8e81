"""Why a run broke, and what that means for what was paid."""

from __future__ import annotations

import os
import re

from pipelines.terminal import say
from transforms import files
from transforms.layout import Layout
from transforms.llm.secrets import masked
from transforms.reserve import FULL
from transforms.stop import WorkerLost

# What stands around the name of an error: Beam's about the job, Java's about a cause.
_FRAMED = re.compile(r"^(Pipeline \S+ failed in state [A-Z]+: |Caused by: )")
_FRAMES = ("at ", "... ", "Driver stacktrace:")
_NAMED = re.compile(r"[\w.$]+(Error|Exception):")
_PACKAGE = r"([a-z_]\w*\.){2,}([A-Z]\w*\$)*"
_JAVA = re.compile(rf"^{_PACKAGE}(?=[A-Z])|(?<=: ){_PACKAGE}(?=[A-Z]\w*(Error|Exception))")
_TWICE = re.compile(r"(\b\w+: )\1+")  # an error that wraps one of its kind
# gRPC is what an engine and its workers speak.
_HINTS = (
    (re.compile(r"\bStatusRuntimeException: CANCELLED\b"), "a worker process has ended"),
    (
        re.compile(r"\bStatusRuntimeException: UNAVAILABLE\b|\bConnectException: "),
        "the engine cannot reach a worker, or what --environment_config names, or a machine of its own",
    ),
    (
        re.compile(r"\bInterruptedException$"),
        "the engine gave up, and its own log says why; workers may have another version of paidonce or of Beam",
    ),
)
_ERRNO = re.compile(r"OSError: \[Errno (\d+)\]")


def print_broken(error: BaseException, layout: Layout) -> None:
    """Says it."""
    if isinstance(error, WorkerLost):
        say(
            f"paidonce: {error}: every answer so far is kept in {layout.journals}; the same command publishes them "
            "and goes on",
            error=True,
        )
        return
    cause = root_cause(error)
    number = _ERRNO.search(cause)
    if number is not None and int(number[1]) in FULL:
        say(
            f"paidonce: the disk of {layout.root} is full: every answer so far is kept in {layout.journals}; make room "
            "and run the same command again, it publishes them and goes on",
            error=True,
        )
        return
    if files.is_local(layout.root) and not os.path.isdir(layout.journals):
        say(f"paidonce: {layout.root} was removed or moved while the run was on, and the answers with it", error=True)
        return
    say(f"paidonce: the run broke: {masked(cause)}", error=True)
    say(f"every answer so far is kept in {layout.journals}; the same command publishes them and goes on", error=True)


def root_cause(error: BaseException) -> str:
    """The line of an engine's report that says what went wrong: engines hand on a worker's traceback as text, and
    engines in Java one of theirs around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [_FRAMED.sub("", line.strip()) for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith(_FRAMES)]
    found = [line for line in lines if _NAMED.match(line)]
    python = [line for line in found if not _JAVA.match(line)]
    if python:
        return python[-1]
    told = _TWICE.sub(r"\1", _JAVA.sub("", _innermost(found or lines or [""])))
    hints = [hint for pattern, hint in _HINTS if any(map(pattern.search, lines))]
    if hints:
        return f"{hints[0]} ({told})"
    return told if found else f"{type(error).__name__}: {told}"


def _innermost(causes: list[str]) -> str:
    """The last cause, or an earlier one that says the same and more."""
    said = causes[-1].partition(": ")[2]
    return max((cause for cause in causes if cause.partition(": ")[2].startswith(said)), key=len)

"""What is said on the terminal, which may be no terminal, or gone."""

from __future__ import annotations

import os
import sys


def say(text: str, *, error: bool = False) -> None:
    """Prints a line to stdout, or to stderr, at once. A reader that has gone, as in `| head`, changes nothing: the
    run and its exit code are worth more than the line."""
    stream = sys.stderr if error else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # Nor does Python's own flush at the end fail then.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def survive_any_encoding() -> None:
    """Characters that the terminal's encoding lacks are shown as escapes, not raised."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

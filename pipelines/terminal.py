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
    except (RuntimeError, ValueError):  # a signal came while its thread was at it; it was closed
        return
    except OSError:
        # Nor does Python's own flush at the end fail then.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def survive_any_terminal() -> None:
    """Streams that are closed are nowhere, or the next file that is opened would take their place and get what is
    written to them, the journal for one. Characters that the terminal's encoding lacks are shown as escapes."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for as long as the process is there
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

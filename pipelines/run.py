"""From the command line to an exit code: 0 complete, 1 broken, 2 wrong usage, 3 stopped early, 130 interrupted."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Sequence

from pipelines.config import UsageError, default_config, load
from pipelines.interrupts import EXIT_CODE, raised
from pipelines.options import parse
from pipelines.terminal import say, survive_any_terminal

USAGE, INTERRUPTED = 2, EXIT_CODE


def main(name: str, description: str, argv: Sequence[str] | None = None) -> int:
    """Runs the pipeline whose default configuration is configs/<name>.yaml. Returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    survive_any_terminal()
    _quiet_libraries(verbose="--verbose" in arguments)
    try:
        return _run(name, description, arguments)
    except UsageError as error:
        say(f"paidonce: {error}", error=True)
        return USAGE
    except KeyboardInterrupt:
        say("\ninterrupted before the run began", error=True)
        return INTERRUPTED


def _run(name: str, description: str, arguments: Sequence[str]) -> int:
    with raised():
        options = parse(
            arguments,
            prog=f"python -m pipelines.{name}",
            description=description,
            default_config=default_config(name),
        )
        settings = load(options.config, options.set, input_path=options.input, output_path=options.output)
        # Late: they import apache_beam, which takes longer than all checks so far.
        if options.estimate:
            from pipelines.estimate import estimate

            return estimate(settings, options)
        if options.dry_run:
            from pipelines.dry_run import dry_run

            return dry_run(settings, options)
        from pipelines.launch import launch

        return launch(settings, options)


def _quiet_libraries(*, verbose: bool) -> None:
    """Keeps what Beam says at each step off the terminal: what matters of it is in the last lines of a run."""
    if verbose:
        logging.basicConfig(level=logging.INFO)
        return
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    threading.excepthook = lambda _arguments: None  # Beam's threads, when the engine they talk to has gone

"""The command line: the program's own flags, and Beam's, of which none is silently ignored.

Beam only logs a flag that it does not know, and a paid run that goes to the wrong runner or project is found
out late. Importing apache_beam takes more than a second, so it is imported only when there are flags for it.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal, NoReturn, get_args

from pipelines.invocation import shown_command
from pipelines.keys import all_keys
from pipelines.usage import UsageError
from transforms.llm.errors import RowReason, TransientReason

# Those that a message names; Beam's further ones, mostly for its own tests, are taken as well.
RUNNERS = ("DirectRunner", "PrismRunner", "FlinkRunner", "SparkRunner", "DataflowRunner", "PortableRunner")

_EPILOG = """\
every flag of Apache Beam is taken too, written in full, e.g.
  {prog} --input '{files}/*.jsonl' --output gs://bucket/out --runner DataflowRunner --project p --region r
  {prog} --runner FlinkRunner --flink_master localhost:8081 --parallelism 4

examples:
  {prog}
      {first}
  {prog} --input '{files}/*.jsonl' --output out/{files} --limit 20
      a first look at files of your own; the same command without --limit does the rest
  {prog} --input '{files}/*.jsonl' --output out/{files} --estimate
      what that would cost, without a call; --dry-run shows the first requests, --pilot 200 tries 200 records
  {prog} --set model.provider=openai --set model.name=gpt-4o-mini --set model.api_key_env=OPENAI_API_KEY
      another model; running a command again continues where it stopped and pays for no answer twice

exit codes: 0 complete, 1 broken, 2 wrong usage, configuration or input, 3 stopped early, 130 interrupted
"""
_WITH_DEFAULT = "the sample that comes with the package, with the embedded model, on this machine"
_WITHOUT_DEFAULT = "the task that FILE describes; configs/tickets.yaml is an example to copy"


@dataclass(frozen=True)
class Options:
    """What the command line says. None: the configuration decides."""

    config: str
    input: list[str] | None
    output: str | None
    set: list[str]
    limit: int | None
    retry: Literal["retryable", "all", "none"]
    on_change: Literal["stop", "keep", "redo"]
    verbose: bool
    beam_args: list[str]
    retry_reasons: tuple[str, ...] = ()
    estimate: bool = False
    dry_run: bool = False
    pilot: int | None = None
    shared_paths: bool = False
    command: str = field(default="", compare=False)  # as it could be typed again, without secrets


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _refuse(message)


def parse(
    argv: Sequence[str], *, prog: str, description: str, default_config: str | None, files: str = "reviews"
) -> Options:
    """`argv` (without the program's name) as Options, its flags for Beam checked by check_beam_flags(). Without a
    `default_config` the command line has to name one. `files` are what the help reads in examples.

    Raises UsageError for everything that is wrong, SystemExit(0) after --help and --version."""
    parser = _parser(prog, description, default_config, files)
    if "--" in argv:
        raise UsageError("unexpected argument '--'")
    own, beam_args = parser.parse_known_args(argv)
    if beam_args:
        check_beam_flags(beam_args, own_flags=_flags(parser))
    if own.config is None:
        raise UsageError("--config is missing: name the file that describes your task, e.g. --config tickets.yaml")
    if own.dry_run and own.pilot is not None:
        raise UsageError("--dry-run: not allowed with argument --pilot: --limit says how many requests it shows")
    values = vars(own)
    reasons = check_reasons(values.pop("retry_reason"))
    return Options(**values, beam_args=beam_args, retry_reasons=reasons, command=shown_command(prog, argv))


def check_reasons(given: Iterable[str], flag: str = "--retry-reason") -> tuple[str, ...]:
    """The reasons in values of a flag, each one or several with commas. Raises UsageError for one that there is not."""
    reasons = tuple(dict.fromkeys(reason.strip() for value in given for reason in value.split(",")))
    if not reasons:
        return ()
    from transforms.rows import UNCALLED  # late, with all of pyarrow

    known = sorted({*get_args(RowReason), *get_args(TransientReason), *UNCALLED})
    for reason in reasons:
        if reason not in known:
            near = difflib.get_close_matches(reason, known, n=1)
            hint = f", did you mean {near[0]}" if near else ""
            raise UsageError(f"{flag}: there is no reason {reason!r}{hint}? There are {', '.join(known)}")
    return reasons


def check_beam_flags(beam_args: Sequence[str], own_flags: Iterable[str] = ()) -> None:
    """Raises UsageError unless Beam takes all of `beam_args`, for whichever runner they are meant.

    `own_flags` are the program's, for the nearest known name of an unknown one."""
    parser = _beam_parser()
    try:
        known, unknown = parser.parse_known_args(list(beam_args))
    except (
        ValueError,
        TypeError,
        AttributeError,
    ) as error:  # from Beam's own actions, which argparse lets pass
        raise UsageError(f"a flag of Beam has a value that cannot be read: {error}") from None
    if unknown:
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            hint = "name input files with --input (and put a pattern such as 'data/*.jsonl' in quotes)"
            raise UsageError(f"unexpected argument {unknown[0]!r}: {hint}")
        raise UsageError(f"unknown flag {flag}{_nearest(flag, [*own_flags, *_flags(parser)])}")
    if known.runner is not None:
        _check_runner(known.runner)


def _parser(prog: str, description: str, default_config: str | None, files: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        description=description,
        epilog=_epilog(prog, default_config, files),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [flag ...] [flag of Apache Beam ...]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--config",
        metavar="FILE",
        default=default_config,
        help="configuration in YAML" + (" (default: %(default)s)" if default_config else "; it has to be given"),
    )
    add(
        "--input",
        metavar="GLOB",
        action="append",
        help="files to read instead of input.path; may be given several times, e.g. --input 'new/*.jsonl'",
    )
    add("--output", metavar="DIR", help="where results, failures and accounts go, instead of output.path")
    add(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one key of the configuration; may be given several times, e.g. "
        "--set model.parameters.temperature=0 --set 'input.carry=[product, stars]'",
    )
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--limit", metavar="N", type=_count, help="call the model for at most N records in this run")
    some.add_argument(
        "--pilot",
        metavar="N",
        type=_count,
        help="call the model for N records drawn at random from all that are to do, always the same ones; then say "
        "what the rest will cost and how long it will take. Their results are kept: the same command without "
        "--pilot does the rest",
    )
    before = parser.add_mutually_exclusive_group()
    before.add_argument(
        "--estimate",
        action="store_true",
        help="say what a run would do, cost and take, and end: nothing is called or changed. With --limit or "
        "--pilot also for that many records",
    )
    before.add_argument(
        "--dry-run",
        action="store_true",
        help="show the first requests, 3 or as many as --limit says, as they would be sent, and end: nothing is "
        "called or changed, and no key is needed",
    )
    add(
        "--retry",
        choices=["retryable", "all", "none"],
        default="retryable",
        help="which failures of earlier runs to try again: those that may pass, e.g. timeouts (the default), "
        "all, or none",
    )
    add(
        "--retry-reason",
        metavar="REASON",
        action="append",
        default=[],
        help="try failures with this reason again too, e.g. --retry-reason=invalid_json,truncated; may be given "
        "several times, and with --retry=none only these are. python -m pipelines.failures DIR lists what there is; "
        "rows that were set aside before a call are looked at anew by every run, with or without it",
    )
    add(
        "--on-change",
        choices=["stop", "keep", "redo"],
        default="stop",
        help="if the output holds answers to another task, i.e. another model, prompt or schema: stop and "
        "say what changed (the default), keep them and do the rest, or redo all",
    )
    add(
        "--shared-paths",
        action="store_true",
        help="on an engine whose workers are on other machines: the paths of input and output are the same files on "
        "each of them, as on a network file system",
    )
    add("--verbose", action="store_true", help="log each step")
    add("--version", action="version", version=_version())
    return parser


def _epilog(prog: str, default_config: str | None, files: str) -> str:
    command, first = (prog, _WITH_DEFAULT) if default_config else (f"{prog} --config FILE", _WITHOUT_DEFAULT)
    return _EPILOG.format(prog=command, files=files, first=first)


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number greater than 0, got {text!r}")
    return int(text)


def _version() -> str:
    try:
        return f"paidonce {metadata.version('paidonce')}"
    except metadata.PackageNotFoundError:  # run from a checkout
        return "paidonce (not installed)"


def _beam_parser() -> Any:
    """The parser that Beam itself puts together from all its subclasses of PipelineOptions, with errors
    raised as UsageError. It takes no abbreviations."""
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipelines import job_server_options  # noqa: F401 - with its flags

    parsers: list[Any] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    parser = parsers[0]
    parser.error = _refuse  # in place of usage on stderr and sys.exit(2)
    return parser


def _refuse(message: str) -> NoReturn:
    """Raises argparse's `message` as UsageError, in the words of this program."""
    message = message.removeprefix("argument ")
    raise UsageError(message.replace(": expected one argument", " needs a value"))


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def _nearest(flag: str, known: list[str]) -> str:
    """The end of a message about the unknown `flag`: what may have been meant."""
    name = flag.lstrip("-").replace("-", "_")
    named = [key for key in all_keys() if name in (key, key.rpartition(".")[2])]
    if named:
        return f", did you mean --set {named[0]}=VALUE?"
    near = [full for full in known if full.startswith(flag)] or difflib.get_close_matches(flag, known, n=1)
    return f", did you mean {near[0]}?" if near else ", --help lists the program's own flags"


def _check_runner(name: str) -> None:
    from apache_beam.options.pipeline_options import StandardOptions

    known = {runner.lower() for runner in StandardOptions.KNOWN_RUNNER_NAMES}
    if name.lower() in known or f"{name.lower()}runner" in known:  # Beam takes both, in any case
        return
    module, _, attribute = name.rpartition(".")
    try:
        if module and hasattr(importlib.import_module(module), attribute):
            return
    except (ImportError, TypeError, ValueError):  # the last two: no name of a module, e.g. "..x"
        pass
    near = difflib.get_close_matches(name, StandardOptions.KNOWN_RUNNER_NAMES, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    there_are = f"there are {', '.join(RUNNERS)}, or any class by its full name"
    raise UsageError(f"--runner: unknown runner {name!r}; {there_are}{hint}")

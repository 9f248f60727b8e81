"""`python -m pipelines.failures OUT`: what failed, why, what it cost, and how it is tried again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pipelines import outputs
from pipelines.options import check_reasons
from pipelines.terminal import say
from pipelines.usage import UsageError

if TYPE_CHECKING:
    from transforms.records import Row

_EPILOG = """\
examples:
  %(prog)s out/classify
      the failures that wait for another try, by reason, with examples
  %(prog)s out/classify --reason invalid_json --reason schema_mismatch
      those two only; --reason invalid_json,schema_mismatch is the same
  %(prog)s out/classify --retryable --ids again.txt
      the ids of those that the next run tries again by itself
  %(prog)s out/classify --reason oversized_input --write long.jsonl
  python -m pipelines.classify --input long.jsonl --output out/long --set input.max_chars=50000
      their records as the input of another run, with the same configuration or another

--write and --ids write the failures that the table is about, in the order in which they stand. Existing files are
not replaced. Records are written as they were read: for a row that was shortened by input.on_oversized: truncate,
as it was sent. What could not be read as a record, and for --ids what has no id, is left out and counted.

exit codes: 0 done, also where there are no failures; 2 wrong usage, or a directory, file or database that
cannot be read
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    return outputs.run(_failures, argv)


def _failures(argv: Sequence[str]) -> None:
    given = _parser().parse_args(argv)
    reasons = check_reasons(given.reason, "--reason")
    from pipelines.opened import check_new, open_output, say_unpublished  # late: Beam takes longer than --help may

    output = open_output(given.output)
    for flag, path in (("--write", given.write), ("--ids", given.ids)):
        if path is not None:
            check_new(path, [output], flag)
    if given.write is not None and given.write == given.ids:
        raise UsageError("--write and --ids name the same file")

    from pipelines.failure_table import print_failures
    from transforms.failures import by_reason, selected
    from transforms.published import Unreadable

    def rows() -> Iterator[Row]:
        return selected(output.published.failures(), reasons, retryable=given.retryable)

    try:
        counts = by_reason(rows())
        say_unpublished(output)
        if not counts:
            say(f"no failures{' like that' if reasons or given.retryable else ''} in {given.output}")
        else:
            print_failures(counts, output.account.get("command"))
        every = sum(count.rows for count in counts)
        if given.write is not None:
            left_out = every - (written := _write_records(given.write, rows()))
            note = f"; {left_out:,} that could not be read as a record are left out" if left_out else ""
            say(f"{given.write}: {written:,} records{note}")
        if given.ids is not None:
            left_out = every - (written := _write_ids(given.ids, rows()))
            say(f"{given.ids}: {written:,} ids{f'; {left_out:,} without one are left out' if left_out else ''}")
    except Unreadable as error:
        raise UsageError(f"the failures cannot be read: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot be written: {error}") from None


def _write_records(path: str, rows: Iterable[Row]) -> int:
    from transforms.shards import JsonlWriter
    from transforms.text_table import write_all

    return write_all(path, JsonlWriter(path), (row["input"] for row in rows if isinstance(row.get("input"), dict)))


def _write_ids(path: str, rows: Iterable[Row]) -> int:
    written = 0
    with open(path, "x", encoding="utf-8") as stream:
        for row in rows:
            if row["id"] is not None:
                stream.write(json.dumps(row["id"]) + "\n")
                written += 1
    return written


def _parser() -> argparse.ArgumentParser:
    parser = outputs.Parser(
        prog="python -m pipelines.failures",
        description="The failures of an output directory by reason: how many, tried again or not, what they cost.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("output", metavar="OUT", help="the output directory of the runs")
    add("--reason", metavar="REASON", action="append", default=[], help="only these; may be given several times")
    add("--retryable", action="store_true", help="only those that may pass, which a run tries again by itself")
    add("--write", metavar="FILE", help="write their records as JSONL, one as it was read on each line: for --input")
    add("--ids", metavar="FILE", help="write their ids, one on each line, as JSON strings")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

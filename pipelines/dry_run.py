"""`--dry-run`: the first requests as they would go over the wire, without sending any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pipelines.check import check
from pipelines.config import UsageError
from pipelines.estimate import spec_of, stands
from pipelines.graph import RunSpec
from pipelines.options import Options
from pipelines.prepare import check_request
from pipelines.terminal import say
from transforms import digests
from transforms.database import DatabaseError
from transforms.digests import DigestSet, digest
from transforms.llm.chat import Preview
from transforms.llm.client import draft
from transforms.llm.group_prompts import GroupPrompts
from transforms.llm.prompt import Prompt
from transforms.llm.prompts import Prompts
from transforms.llm.secrets import masked
from transforms.read import read_records, split
from transforms.records import Record
from transforms.resume import done_ids
from transforms.screen import Screen
from transforms.settings import Settings

_SHOWN = 3  # requests, unless --limit says how many


def dry_run(settings: Settings, options: Options) -> int:
    """Prints the requests. Returns the exit code; raises UsageError as a run would, save for a key that is not set."""
    check_request(settings)
    checked = check(settings, options)
    first, *others = settings.model.per_endpoint
    try:
        client, missing = draft(settings.task, first, settings.limits)
        spec = spec_of(settings, options, checked, stands(settings, checked))
    except (OSError, ValueError, DatabaseError) as error:
        raise UsageError(str(error)) from None
    shown = 0
    for records, prompt in islice(
        requests(settings, to_do(spec), options.limit), _SHOWN if options.limit is None else None
    ):
        say(f"{describe(records, client.preview(prompt))}\n")
        shown += 1
    client.close()
    for note in _notes(settings, missing, len(others)):
        say(note)
    say(f"dry run: {shown} request{'' if shown == 1 else 's'} shown, nothing was called or changed")
    return 0


def to_do(spec: RunSpec) -> Iterator[Record]:
    """The records that a run would call, in the order of the input, read in this process and only as far as asked."""
    done = DigestSet(
        digests.merge(
            digests.pack(digest(i) for prior in spec.prior for i in done_ids(prior, spec.retry, spec.retry_reasons))
        )
    )
    screen = Screen(spec.rules)
    met: set[bytes] = set()  # ids that are not done: only the first record with one counts
    for item in spec.inputs:
        for span in split(item, spec.span_bytes, spec.reading):
            for record in read_records(span, spec.reading):
                value = digest(record.id) if isinstance(record, Record) else None
                if not isinstance(record, Record) or value is None or value in done or value in met:
                    continue
                met.add(value)
                checked = screen.check(record)
                if isinstance(checked, Record):
                    yield checked


def requests(settings: Settings, records: Iterator[Record], limit: int | None) -> Iterator[tuple[list[Record], Prompt]]:
    """What is asked about the records, about the first `limit` of them, each time with those that it is about."""
    task = settings.task
    left = islice(records, limit)
    prompts = Prompts(task, settings.input, settings.model)
    while group := list(islice(left, task.records_per_call)):
        if len(group) == 1:
            yield group, prompts.render(group[0].fields)
        else:
            yield group, GroupPrompts(task, settings.input).render([record.fields for record in group]).prompt


def describe(records: Sequence[Record], preview: Preview) -> str:
    """A request in the form that HTTP gives it, below the rows that it is for."""
    headers = [f"{name}: {value}" for name, value in preview.headers.items()]
    rows = [f"# id {masked(record.id)!r}, {record.file}, byte {record.position}" for record in records]
    return "\n".join([*rows, f"POST {preview.url}", *headers, "", preview.body])


def _notes(settings: Settings, missing: str | None, others: int) -> Iterator[str]:
    if settings.model.provider == "embedded":
        yield "the embedded model answers at a free port of this machine, chosen when a run starts it"
    if others:
        yield f"shown is the first of {1 + others} endpoints; calls are spread over all of them"
    if missing is not None:
        yield f"the environment variable {missing} is not set: a run needs it"

"""What becomes of a record, as its journal entry: a result row, or a failure row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from transforms.agreement import expected_text
from transforms.call_spec import CallSpec
from transforms.job import Job
from transforms.journal import DEAD_LETTER, OK, Entry
from transforms.llm.caller import Answer
from transforms.llm.errors import CallError
from transforms.llm.group_caller import with_earlier
from transforms.llm.notes import SHARED
from transforms.llm.text import excerpt
from transforms.read import order_of
from transforms.records import PLACE, Record, Row, utc
from transforms.rows import EXPECTED, RECORDS_IN_CALL, SHARED_FROM, failure_row
from transforms.shared_answers import Original, shared_failure, shared_result


class Entries:
    """Makes the entries of one run."""

    def __init__(self, spec: CallSpec) -> None:
        self._spec = spec

    def of(self, record: Record, value: bytes, outcome: Answer | CallError, earlier: Sequence[CallError] = ()) -> Entry:
        """What became of a record, after `earlier` requests about it and others."""
        if earlier:
            outcome = with_earlier(earlier, outcome)
        if isinstance(outcome, Answer):
            return Entry(value, OK, self._result(record, outcome), Counter(outcome.notes))
        return Entry(value, DEAD_LETTER, self._failure(record, outcome), Counter(outcome.notes))

    def shared(self, record: Record, value: bytes, original: Original) -> Entry:
        """The outcome of a record whose request was made for another one."""
        row = original.row
        if original.outcome == OK:
            return Entry(value, OK, shared_result(row, self._own(record)), {SHARED: 1})
        failure = failure_row(
            self._spec.stamp, id=record.id, input=record.fields, source=record.source, **shared_failure(row)
        )
        return Entry(value, DEAD_LETTER, failure, {SHARED: 1})

    def unfinished(self, job: Job) -> Entry | None:
        """The outcome of a record that was to be asked alone when the run stopped. What it has taken is known only by
        a row of its own: a failure, which the next run tries again."""
        if not any(error.completions for error in job.earlier):
            return None
        *before, last = job.earlier
        entry = self.of(job.record, job.digest, last, before)
        message = excerpt(f"{last.message} (asked together with others; the run stopped before it was asked alone)")
        return entry._replace(row={**entry.row, "retryable": True, "message": message})

    def _own(self, record: Record) -> Row:
        """The columns of a result that are the record's and not its answer's."""
        right = self._spec.task.expected
        return {
            "id": record.id,
            **{name: record.fields.get(name) for name in self._spec.carried},
            **({} if right is None else {EXPECTED: expected_text(record.fields.get(right))}),
            **({PLACE: order_of(record)} if self._spec.ordered else {}),
        }

    def _result(self, record: Record, answer: Answer) -> Row:
        spec, completion = self._spec, answer.completion
        return {
            "id": record.id,
            **answer.values,
            **self._own(record),
            "output_text": completion.text,
            "model": completion.model,
            "finish_reason": completion.finish_reason,
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
            "cached_tokens": answer.usage.cached_tokens,
            "cost_usd": answer.cost_usd,
            "attempts": answer.attempts,
            "latency_ms": answer.latency_ms,
            "run_id": spec.stamp.run_id,
            "task_hash": spec.stamp.task_hash,
            "finished_at": utc(time.time()),
            **({RECORDS_IN_CALL: answer.records} if self._spec.task.records_per_call > 1 else {}),
            **({SHARED_FROM: None} if self._spec.share_identical else {}),
        }

    def _failure(self, record: Record, error: CallError) -> Row:
        return failure_row(
            self._spec.stamp,
            id=record.id,
            reason=error.reason,
            message=error.message,
            input=record.fields,
            source=record.source,
            retryable=error.retryable,
            http_status=error.http_status,
            attempts=error.attempts,
            prompt_tokens=error.usage.prompt_tokens,
            completion_tokens=error.usage.completion_tokens,
            cost_usd=error.cost_usd,
            output_text=error.completion.text if error.completion else None,
        )

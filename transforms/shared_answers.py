"""The same request paid once: where the answers of a process's recent requests are, and who waits for one.

A record whose request is under way waits for its answer without a thread and without a call of its own. What is
remembered is bounded by number and by bytes: the least recently asked for goes first, and is then asked again.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.claims import Claims
from transforms.job import Job
from transforms.journal import OK, Entry
from transforms.llm.prompts import Prompts
from transforms.llm.text import excerpt
from transforms.records import Row, utc
from transforms.rows import RECORDS_IN_CALL, SHARED_FROM

MOST_ANSWERS = 100_000
MOST_BYTES = 64 << 20
_OVERHEAD = 400  # bytes of a remembered answer beside its text: the digest, an object, two places in a table
# What a row that shares an answer has not taken. Of an unknown amount it is unknown what was spared.
_PAID = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


class Original(NamedTuple):
    """An answer, or a final failure, that other rows with the same request have as well."""

    outcome: str
    text: bytes  # the row as JSON: one object less for each value in it

    @property
    def row(self) -> Row:
        """The row of the record that was asked."""
        row: Row = json.loads(self.text)
        return row


class Settled(NamedTuple):
    """What a request has come to: what those who waited get, or, where that is None, the one who asks next, if any.
    `gone` waited for a bundle that is no longer there."""

    original: Original | None
    waiting: list[Job]
    next: Job | None = None
    gone: Sequence[Job] = ()


class SharedAnswers:
    """Safe for threads. Each request that `claim` leaves to a job needs a `settle`."""

    def __init__(self, prompts: Prompts, *, most: int = MOST_ANSWERS, most_bytes: int = MOST_BYTES) -> None:
        self._prompts = prompts
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._answers: OrderedDict[bytes, Original] = OrderedDict()
        self._under_way: Claims[bytes] = Claims()
        self._lock = threading.Lock()

    def key(self, fields: Mapping[str, Any]) -> bytes | None:
        """A digest of a record's request. None for one that no request can be made of."""
        try:
            prompt = self._prompts.render(fields)
            text = json.dumps(prompt)  # escaped, so that nothing is lost and no two prompts have one text
        except Exception:  # it fails where it is asked, as its own failure
            return None
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def knows(self, key: bytes) -> bool:
        """Whether a request was made, or is being made."""
        with self._lock:
            return key in self._answers or key in self._under_way

    def claim(self, key: bytes, jobs: Sequence[Job]) -> Original | bool:
        """The answer to a request that was made. Else True: the jobs wait for one who makes it; or False: the first of
        them is to, and the others wait for it."""
        with self._lock:
            known = self._answers.get(key)
            if known is not None:
                self._answers.move_to_end(key)
                return known
            return not self._under_way.claim(key, jobs)

    def settle(self, key: bytes, entry: Entry | None, *, stopped: bool) -> Settled:
        """The job that was to make a request has the outcome `entry`, or None. An outcome that another request might
        change is its own alone: then one of those who wait is to ask, or nobody where the run is `stopped`."""
        with self._lock:
            if entry is not None and (entry.outcome == OK or not entry.row["retryable"]):
                original = Original(entry.outcome, json.dumps(entry.row, separators=(",", ":")).encode())
                self._remember(key, original)
                return Settled(original, self._under_way.settle(key))
            passed = self._under_way.pass_on(key, stopped=stopped)
            return Settled(None, [], passed.next, passed.gone)

    def _remember(self, key: bytes, original: Original) -> None:
        self._answers[key] = original
        self._bytes += len(original.text) + _OVERHEAD
        while len(self._answers) > self._most or self._bytes > self._most_bytes:
            _key, oldest = self._answers.popitem(last=False)
            self._bytes -= len(oldest.text) + _OVERHEAD


def shared_result(row: Row, own: Row) -> Row:
    """A result row with the answer of another, `row`. `own` are the columns that are the record's: its id, what it
    carries along."""
    paid = {name: None if row[name] is None else type(row[name])(0) for name in _PAID}
    marks = {SHARED_FROM: row["id"], **({RECORDS_IN_CALL: row[RECORDS_IN_CALL]} if RECORDS_IN_CALL in row else {})}
    asked = {"attempts": 0, "latency_ms": None, "finished_at": utc(time.time())}
    return {**row, **own, **paid, **asked, **marks}


def shared_failure(row: Row) -> dict[str, Any]:
    """What a failure row of another record with the same request says that is this one's too."""
    return {
        "reason": row["reason"],
        "message": excerpt(f"the same request as that of row {row['id']!r}, which failed: {row['message']}"),
        "http_status": row["http_status"],
        "output_text": row["output_text"],
        **{name: None if row[name] is None else type(row[name])(0) for name in _PAID if name in row},
    }

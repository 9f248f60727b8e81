"""A record on its way from its bundle through the threads and back."""

from __future__ import annotations

from queue import SimpleQueue

from transforms.journal import Entry
from transforms.llm.errors import CallError
from transforms.records import Record
from transforms.span_journal import SpanJournal


class Window:
    """The records of one bundle that are out, and how many of them only wait for another's answer. `open` ends with
    the bundle, also where that breaks: a record of a broken bundle that no thread has taken yet is not called any
    more."""

    __slots__ = ("open", "out", "replies", "waiting")

    def __init__(self) -> None:
        self.open = True
        self.out = 0
        self.waiting = 0
        self.replies: SimpleQueue[Job] = SimpleQueue()


class Job:
    """One record on its way through the threads and back. `key` is the digest of its request, where that may be
    another's as well; `waits`, that it is out without a thread; `replays`, that another instance asks, or has asked,
    about the very same record; `locked`, that no other process does; `since`, when another one was first seen to do
    so; `earlier`, the requests about it and others that gave it no answer."""

    __slots__ = (
        "digest",
        "earlier",
        "file",
        "key",
        "locked",
        "outcome",
        "record",
        "replays",
        "since",
        "waits",
        "window",
    )

    def __init__(self, record: Record, value: bytes, file: SpanJournal, window: Window) -> None:
        self.record = record
        self.digest = value
        self.file = file
        self.window = window
        self.key: bytes | None = None
        self.waits = False
        self.replays = False
        self.locked = False
        self.since: float | None = None
        self.earlier: list[CallError] = []
        self.outcome: Entry | BaseException | None = None  # None: there was no call, the row is left undone

    @property
    def claim(self) -> tuple[str, bytes]:
        """What it is that no two are to ask about at once."""
        return self.file.span, self.digest

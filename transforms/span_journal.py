"""The journal of the span that a bundle works on, on whatever its folder is.

Others may be at the same span: an engine runs a bundle twice, or has given one up that still works. On a file system
`find` sees all that is written by now. On a store a look costs requests: there it sees what was saved when the bundle
came to the span, and what this process has answered since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from transforms import files, rolled_journal
from transforms.journal import Entry, JournalFile
from transforms.reserve import Reserve
from transforms.rolled_journal import RolledJournal, RollRule
from transforms.span_index import SpanIndex


def rolled(folder: str, rule: RollRule, on_failure: Callable[[OSError], None] | None = None) -> RolledJournal | None:
    """The journal that a process shares, where the folder is on a store; None where files can be appended to."""
    return None if files.is_local(folder) else rolled_journal.of_run(folder, rule, on_failure)


class SpanJournal:
    """Takes the outcomes of one span in one bundle, and knows how many of its records are still out: `pending`.
    `shared` is what rolled() gives, `index` the bundle's; `reserve` is the room that a file has when its disk is
    full. Raises OSError where what is there cannot be read."""

    def __init__(
        self, folder: str, span: str, shared: RolledJournal | None, index: SpanIndex, reserve: Reserve | None = None
    ) -> None:
        self.span = span
        self.pending = 0
        self._shared = shared
        self._index = index
        self._file = None if shared is not None else JournalFile(folder, span, reserve)
        self._news: set[bytes] = set()  # on a store: digests of what others in this process have answered
        self._looking = threading.Lock()
        if shared is not None:
            shared.listen(span, self)
            if shared.save(span):  # of a bundle that broke, which this one repeats
                index.refresh()
        self._load()

    def known(self, digest: bytes) -> Entry | None:
        """The outcome of a record as of the last look. Raises OSError."""
        return self._index.find(self.span, digest)

    def find(self, digest: bytes) -> Entry | None:
        """The outcome of a record as of now, whoever asked about it. Safe for threads. Raises OSError."""
        if self._shared is None:
            self._load()
        else:
            with self._looking:
                if digest in self._news:
                    self._news.clear()
                    self._shared.save(self.span)
                    self._index.refresh()
                    self._load()
        return self._index.find(self.span, digest)

    def tell(self, digest: bytes) -> None:
        """Another in this process has an outcome for a record of the span, which may not be saved yet."""
        self._news.add(digest)

    def append(self, entry: Entry) -> None:
        """Keeps an outcome: at once in a file, within seconds on a store. Safe for threads. Raises OSError."""
        if self._shared is not None:
            self._shared.append(self.span, entry, self)
        elif self._file is not None:
            self._file.append(entry)

    def close(self) -> None:
        """Lets the file go."""
        if self._file is not None:
            self._file.close()

    def _load(self) -> None:
        self._index.load(self.span, None if self._file is None else self._file.path)

"""The journal of the span that a bundle works on, on whatever its folder is."""

from __future__ import annotations

from collections.abc import Callable

from transforms import files
from transforms.journal import Entry, JournalFile
from transforms.reserve import Reserve
from transforms.rolled_journal import RolledJournal, RollRule


def rolled(folder: str, rule: RollRule, on_failure: Callable[[OSError], None] | None = None) -> RolledJournal | None:
    """The journal that a process shares, where the folder is on a store; None where files can be appended to."""
    return None if files.is_local(folder) else RolledJournal(folder, rule, on_failure)


class SpanJournal:
    """Takes the outcomes of one span in one bundle, and knows how many of its records are still out: `pending`.
    `shared` is what rolled() gives; `reserve` is the room that a file has when its disk is full."""

    def __init__(self, folder: str, span: str, shared: RolledJournal | None, reserve: Reserve | None = None) -> None:
        self.span = span
        self.pending = 0
        self._shared = shared
        self._file = None if shared is not None else JournalFile(folder, span, reserve)

    @property
    def path(self) -> str | None:
        """The file that it writes, None where there is none, or none yet."""
        return None if self._file is None else self._file.path

    def append(self, entry: Entry) -> None:
        """Keeps an outcome: at once in a file, within seconds on a store. Safe for threads. Raises OSError."""
        if self._shared is not None:
            self._shared.append(self.span, entry)
        elif self._file is not None:
            self._file.append(entry)

    def close(self) -> None:
        """Lets the file go."""
        if self._file is not None:
            self._file.close()

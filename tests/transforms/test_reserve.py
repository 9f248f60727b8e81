"""Room for the answers under way when the disk fills up."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from transforms import reserve
from transforms.journal import JournalFile, read
from transforms.reserve import Reserve, remove_left

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "journal/x.jsonl")


def held(folder: Path) -> int:
    """Bytes that are held in the folder."""
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir())


@pytest.mark.parametrize(("calls", "size"), [(1, 256 << 10), (64, 1 << 20), (10_000, 16 << 20)])
def test_it_is_as_large_as_the_calls_under_way_need(tmp_path: Path, calls: int, size: int) -> None:
    kept = Reserve(str(tmp_path), calls, lambda: None)
    assert held(tmp_path) >= size
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_it_is_given_back_piece_by_piece(tmp_path: Path) -> None:
    told: list[int] = []
    kept = Reserve(str(tmp_path), 1, lambda: told.append(1))
    sizes = [held(tmp_path)]
    while kept.give(FULL):
        sizes.append(held(tmp_path))
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] == 0
    assert told == [1]
    assert kept.error is not None
    assert (kept.error.errno, kept.error.filename) == (errno.ENOSPC, str(tmp_path))
    kept.close()


def test_other_errors_are_none_of_its_business(tmp_path: Path) -> None:
    kept = Reserve(str(tmp_path), 1, lambda: pytest.fail("it is not full"))
    assert not kept.give(OSError(errno.EIO, "Input/output error"))
    assert kept.error is None
    kept.close()


def test_no_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as found:
        Reserve(str(tmp_path), 1, lambda: None)
    assert found.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_file_systems_that_cannot_allocate_are_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    kept = Reserve(str(tmp_path), 1, lambda: None)
    assert held(tmp_path) >= 256 << 10
    kept.close()


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    Reserve(str(tmp_path), 1, lambda: None)
    (tmp_path / "a.jsonl").write_text("{}\n")
    remove_left(str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


class SmallDisk:
    """Takes so many bytes, then parts of lines and refusals, until a reserve gives some of its own back."""

    def __init__(self, free: int, patch: pytest.MonkeyPatch) -> None:
        self.free = free
        self._write, self._truncate, self._remove = os.write, os.truncate, os.remove
        self._lock = threading.Lock()
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "truncate", self.truncate)
        patch.setattr(os, "remove", self.remove)

    def write(self, descriptor: int, data: bytes) -> int:
        with self._lock:
            if not self.free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken = self._write(descriptor, data[: self.free])
            self.free -= taken
            return taken

    def truncate(self, path: str, size: int) -> None:
        self.free += os.stat(path).st_size - size
        self._truncate(path, size)

    def remove(self, path: str) -> None:
        self.free += os.stat(path).st_size
        self._remove(path)


def test_lines_of_many_threads_are_whole_when_the_disk_fills_up(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Reserve(str(tmp_path), 1, lambda: None)
    journal = JournalFile(str(tmp_path), "000000-00000000000", kept)
    with monkeypatch.context() as patch:
        SmallDisk(1000, patch)
        threads = [
            threading.Thread(target=lambda n=n: journal.append(make.entry(make.result(str(n))))) for n in range(200)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    journal.close()
    [path] = tmp_path.glob("*.jsonl")
    entries = list(read(str(path)))
    assert None not in entries
    assert len({entry.row["id"] for entry in entries if entry is not None}) == 200
    assert kept.error is not None
    kept.close()


def test_a_reserve_that_is_used_up(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Reserve(str(tmp_path), 1, lambda: None)
    journal = JournalFile(str(tmp_path), "000000-00000000000", kept)
    entry = make.entry(make.result("a", output_text="x" * reserve._LEAST))
    with monkeypatch.context() as patch:
        SmallDisk(0, patch)
        with pytest.raises(OSError, match="No space left"):
            journal.append(entry)
    journal.close()
    kept.close()


def test_a_journal_that_is_removed_takes_nothing_more(tmp_path: Path, make: Any) -> None:
    journal = JournalFile(str(tmp_path), "000000-00000000000")
    journal.append(make.entry(make.result("a")))
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match="removed while the run was on"):
        journal.append(make.entry(make.result("b")))
    journal.close()


def test_a_run_that_is_published_needs_none(tmp_path: Path) -> None:
    kept = Reserve(str(tmp_path / "journal"), 1, lambda: None)
    kept.close()
    assert list(tmp_path.iterdir()) == []

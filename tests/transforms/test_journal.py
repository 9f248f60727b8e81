"""The journal: whole lines on disk, whatever happens to the file."""

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms import journal
from transforms.digests import digest
from transforms.journal import OK, Entry, JournalFile, decode, encode, heads, read
from transforms.span_index import SpanIndex

SPAN = "000000-00000000000"


def ids(path: Path) -> list[str | None]:
    return [None if entry is None else entry.row["id"] for entry in read(str(path))]


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.jsonl")
    return path


class TestLines:
    def test_there_and_back(self, make: Any) -> None:
        for row in (make.result("a\u2028\U0001f600\0\n", deep={"k": [None, 1.5]}), make.failure("b", "refusal")):
            entry = make.entry(row)
            line = encode(entry)
            assert line.isascii()
            assert line.count(b"\n") == 1
            assert line.endswith(b"}}\n")
            assert decode(line) == decode(line[:-1]) == entry

    def test_what_strict_json_cannot_hold_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not JSON compliant"):
            encode(Entry(digest("a"), OK, {"id": "a", "x": float("nan")}))

    @pytest.mark.parametrize(
        "line", [b"", b"\0\0", b"{}", b"[]", b"null", b'"x"', b"\xff", b'{"digest":1,"outcome":"ok","row":{}}']
    )
    def test_what_is_no_entry(self, line: bytes) -> None:
        assert decode(line) is None

    def test_every_cut_of_a_line_is_told(self, make: Any) -> None:
        line = encode(make.entry(make.result("a", deep={"k": {"k": 1}}, input=["{}"])))
        for end in range(1, len(line) - 1):
            assert decode(line[:end]) is None, line[:end]


class TestTornFiles:
    """What a kill, a lost page or a full disk leaves: see case 39."""

    @pytest.fixture
    def line(self, make: Any) -> Callable[[str], bytes]:
        return lambda identifier: encode(make.entry(make.result(identifier, deep={"k": {"k": 1}})))

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / f"{SPAN}-000001.jsonl"

    def check(self, path: Path, content: bytes, whole: list[str | None], found: list[str]) -> None:
        """`whole` is what is read from the file, `found` what a repeated bundle finds in it."""
        path.write_bytes(content)
        assert ids(path) == whole
        assert [value for _outcome, value in heads(str(path))] == [digest(id) for id in whole if id is not None]
        index = SpanIndex(str(path.parent))
        index.refresh()
        index.load(SPAN)
        known = [id for id in "abcde" if index.find(SPAN, digest(id)) is not None]
        assert known == found

    def test_whole(self, path: Path, line: Callable[[str], bytes]) -> None:
        self.check(path, line("a") + line("b"), ["a", "b"], ["a", "b"])

    def test_empty(self, path: Path) -> None:
        self.check(path, b"", [], [])

    def test_torn_tail_at_every_byte(self, path: Path, line: Callable[[str], bytes]) -> None:
        last = line("c")
        for end in range(1, len(last) - 1):
            self.check(path, line("a") + line("b") + last[:end], ["a", "b", None], ["a", "b"])

    def test_cut_in_a_code_point(self, path: Path, line: Callable[[str], bytes]) -> None:
        # Our own lines are ASCII; this one is as if another program had written it.
        torn = line("c")[:-3] + ',"t":"caf\u00e9'.encode()[:-1]
        self.check(path, line("a") + torn, ["a", None], ["a"])

    def test_complete_without_newline(self, path: Path, line: Callable[[str], bytes]) -> None:
        # Good for recovery; for a bundle that is repeated in this moment it may still be in the making.
        self.check(path, line("a") + line("b")[:-1], ["a", "b"], ["a"])

    def test_torn_in_the_middle(self, path: Path, line: Callable[[str], bytes]) -> None:
        for end in (60, len(line("c")) - 2):
            content = line("a") + line("b") + line("c")[:end] + line("d") + line("e")
            self.check(path, content, ["a", "b", None, "e"], ["a", "b", "e"])

    def test_damage_that_leaves_the_ends_of_a_line(self, path: Path, line: Callable[[str], bytes]) -> None:
        damaged = bytearray(line("b"))
        damaged[80] = 0
        path.write_bytes(line("a") + damaged + line("c"))
        assert ids(path) == ["a", None, "c"]
        index = SpanIndex(str(path.parent))
        index.refresh()
        index.load(SPAN)
        assert index.find(SPAN, digest("b")) is None
        assert index.find(SPAN, digest("c")) is not None

    def test_zero_filled_tail(self, path: Path, line: Callable[[str], bytes]) -> None:
        self.check(path, line("a") + line("b") + b"\0" * 4096, ["a", "b"], ["a", "b"])

    def test_zero_filled_middle(self, path: Path, line: Callable[[str], bytes]) -> None:
        self.check(path, line("a") + b"\0" * 50 + b"\n" + line("b"), ["a", "b"], ["a", "b"])

    def test_a_damaged_line_is_found_in_another_file(self, tmp_path: Path, line: Callable[[str], bytes]) -> None:
        damaged = bytearray(line("b"))
        damaged[80] = 0
        (tmp_path / f"{SPAN}-000001.jsonl").write_bytes(damaged)
        (tmp_path / f"{SPAN}-000002.jsonl").write_bytes(line("b"))
        index = SpanIndex(str(tmp_path))
        index.refresh()
        index.load(SPAN)
        assert index.find(SPAN, digest("b")) is not None

    @pytest.mark.parametrize(
        ("name", "done"),
        [
            ("39_torn_tail.jsonl", ["a", "b"]),
            ("39_torn_in_codepoint.jsonl", ["a", "b"]),
            ("39_complete_without_newline.jsonl", ["a", "b", "c"]),
            ("39_torn_in_the_middle.jsonl", ["a", "b", "e"]),
            ("39_zero_filled_tail.jsonl", ["a", "b"]),
        ],
    )
    def test_case_39(self, cases: Path, path: Path, name: str, done: list[str]) -> None:
        # The collected files, with each row in an entry of ours.
        content = (cases / name).read_bytes()
        for id in "abcde":
            head = b'{"digest":"%s","outcome":"ok","row":' % digest(id).hex().encode()
            content = content.replace(b'{"id": "%s"' % id.encode(), head + b'{"id": "%s"' % id.encode())
        content = content.replace(b'"}', b'"}}')
        path.write_bytes(content)
        assert [id for id in ids(path) if id is not None] == done


class TestAppend:
    def test_one_file_for_each_writer_and_none_before_the_first_line(self, tmp_path: Path, make: Any) -> None:
        first, second = JournalFile(str(tmp_path), SPAN), JournalFile(str(tmp_path), SPAN)
        assert list(tmp_path.iterdir()) == []
        first.append(make.entry(make.result("a")))
        second.append(make.entry(make.failure("b")))
        first.append(make.entry(make.result("c")))
        # On disk although nobody has closed anything.
        assert sorted(ids(path) for path in tmp_path.iterdir()) == [["a", "c"], ["b"]]
        assert all(path.name.startswith(f"{SPAN}-") for path in tmp_path.iterdir())
        first.close()
        second.close()
        first.close()

    def test_threads_write_whole_lines(self, tmp_path: Path, make: Any) -> None:
        file = JournalFile(str(tmp_path), SPAN)
        start = threading.Barrier(8)

        def write(name: int) -> None:
            start.wait()
            for number in range(200):
                file.append(make.entry(make.result(f"{name}-{number}", output_text="x" * (number * 37 % 5000))))

        threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        file.close()
        found = ids(only_file(tmp_path))
        assert sorted(map(str, found)) == sorted(f"{name}-{number}" for name in range(8) for number in range(200))

    def test_a_row_that_is_no_json_leaves_the_file_alone(self, tmp_path: Path, make: Any) -> None:
        file = JournalFile(str(tmp_path), SPAN)
        file.append(make.entry(make.result("a")))
        with pytest.raises(ValueError, match="not JSON compliant"):
            file.append(make.entry(make.result("b", output_text=float("inf"))))
        file.append(make.entry(make.result("c")))
        file.close()
        assert ids(only_file(tmp_path)) == ["a", "c"]

    def test_a_missing_folder_is_named(self, tmp_path: Path, make: Any) -> None:
        file = JournalFile(str(tmp_path / "missing"), SPAN)
        with pytest.raises(FileNotFoundError) as caught:
            file.append(make.entry(make.result("a")))
        assert str(caught.value.filename).startswith(str(tmp_path / "missing" / SPAN))

    @pytest.mark.parametrize("taken", [0, 1, 100])
    def test_a_full_disk_names_the_file_and_costs_one_line(
        self, tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, taken: int
    ) -> None:
        file = JournalFile(str(tmp_path), SPAN)
        file.append(make.entry(make.result("a")))
        write, left = os.write, [taken]

        def almost_full(descriptor: int, data: bytes) -> int:
            if left[0] == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = write(descriptor, data[: left[0]])
            left[0] -= written
            return written

        with monkeypatch.context() as patch:
            patch.setattr(journal.os, "write", almost_full)
            for id in "bc":  # the second meets the torn line of the first
                with pytest.raises(OSError, match="No space left") as caught:
                    file.append(make.entry(make.result(id)))
                assert caught.value.errno == errno.ENOSPC
                assert caught.value.filename == str(only_file(tmp_path))
        # Somebody made room: what comes now is not glued to what was cut.
        for id in "de":
            file.append(make.entry(make.result(id)))
        file.close()
        assert ids(only_file(tmp_path)) == (["a", None, "d", "e"] if taken else ["a", "d", "e"])

    def test_a_disk_that_takes_parts_gets_the_whole_line(
        self, tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = os.write
        monkeypatch.setattr(journal.os, "write", lambda descriptor, data: write(descriptor, data[:7]))
        file = JournalFile(str(tmp_path), SPAN)
        for id in "ab":
            file.append(make.entry(make.result(id)))
        file.close()
        assert ids(only_file(tmp_path)) == ["a", "b"]

    def test_a_limit_of_the_kernel(self, tmp_path: Path) -> None:
        program = f"""
import resource, signal, sys
from transforms.digests import digest
from transforms.journal import Entry, JournalFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
file = JournalFile({str(tmp_path)!r}, {SPAN!r})
for number in range(100):
    try:
        file.append(Entry(digest(str(number)), "ok", {{"id": str(number), "text": "x" * 300}}))
    except OSError as error:
        print(number, error.filename)
        sys.exit(7)
"""
        assert resource.RLIMIT_FSIZE
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.curdir}
        )
        assert done.returncode == 7, done.stderr
        number, path = done.stdout.split()
        assert int(number) > 5
        assert path == str(only_file(tmp_path))
        assert ids(Path(path)) == [*map(str, range(int(number))), None]

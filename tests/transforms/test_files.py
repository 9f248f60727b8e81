"""Files as bytes, on the local file system."""

import math
import os
from pathlib import Path
from typing import Any

import pytest

from transforms import files


def test_listing_has_files_of_the_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"12")
    (tmp_path / "[a]").write_bytes(b"1")  # what a glob would take for a pattern
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c").touch()
    assert files.listing(str(tmp_path)) == [(f"{tmp_path}/[a]", 1), (f"{tmp_path}/b", 2)]
    assert files.subfolders(str(tmp_path)) == ["below"]


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    missing = f"{tmp_path}/missing"
    assert files.listing(missing) == []
    assert files.subfolders(missing) == []
    assert files.glob(f"{missing}/*") == []
    assert not files.exists(missing)
    files.remove([missing])
    files.remove_folder(missing)


def test_create_makes_folders_and_move_replaces(tmp_path: Path) -> None:
    source, target = f"{tmp_path}/x/y/new", f"{tmp_path}/z/old"
    for path, content in ((target, b"old"), (source, b"new")):
        with files.create(path) as stream:
            stream.write(content)
    files.move(source, target)
    assert Path(target).read_bytes() == b"new"
    assert not files.exists(source)
    files.remove_folder(f"{tmp_path}/z")
    assert not Path(target).parent.exists()


def test_json_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = f"{tmp_path}/runs/a.json"
    files.write_json(path, {"a": "\u00e9"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(path, {"a": math.nan})
    assert files.read_json(path) == {"a": "\u00e9"}
    assert Path(path).read_bytes() == '{\n  "a": "\u00e9"\n}\n'.encode()


@pytest.mark.parametrize("name", ["a.gz", "a.bz2", "a"])
def test_names_never_decide_on_compression(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    with files.create(path) as stream:
        stream.write(b"plain")
    assert Path(path).read_bytes() == b"plain"
    with files.open_read(path) as stream:
        assert stream.read() == b"plain"


def test_opening_what_is_not_there_names_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        files.open_read(f"{tmp_path}/missing")


def test_a_folder_in_which_others_are_still_at_work_goes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's last sign of life may come, or go, while the journal is being removed."""
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / "worker-a.json").write_text("{}")
    (folder / "reserve-a").write_text("")
    rmdir, unlink, late = os.rmdir, os.unlink, ["worker-b.json", "worker-c.json"]

    def slow_rmdir(path: Any, **more: Any) -> None:
        if late:
            (folder / late.pop()).write_text("{}")
        rmdir(path, **more)

    def too_late(path: Any, **more: Any) -> None:
        unlink(path, **more)
        if str(path).endswith("reserve-a"):
            raise FileNotFoundError(path)

    monkeypatch.setattr(os, "rmdir", slow_rmdir)
    monkeypatch.setattr(os, "unlink", too_late)
    files.remove_folder(str(folder))
    assert not folder.exists()
    assert late == []
    files.remove_folder(str(folder))


def test_a_file_put_into_a_folder_that_has_gone_does_not_make_it_again(tmp_path: Path) -> None:
    files.put_json(str(tmp_path / "a.json"), {"a": 1})
    assert files.read_json(str(tmp_path / "a.json")) == {"a": 1}
    with pytest.raises(FileNotFoundError):
        files.put_json(str(tmp_path / "gone" / "a.json"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

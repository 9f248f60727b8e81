"""Objects of a store: on S3 by its own way and by what Beam's stores have in common."""

import io
import threading
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from botocore.client import BaseClient

from transforms import files, store, unpack
from transforms.s3 import S3Store
from transforms.s3_client import client
from transforms.s3_reader import S3Reader
from transforms.s3_writer import PART_BYTES
from transforms.store import BeamStore, Store, Unsupported


@pytest.fixture(params=[S3Store, BeamStore])
def holder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, s3: Any) -> Store:
    """Either way to the same bucket; transforms.files goes it too."""
    made: Store = request.param()
    monkeypatch.setattr(store, "of", lambda _path: made)
    monkeypatch.setattr(FileSystems, "_pipeline_options", PipelineOptions([]))
    return made


def fill(s3: Any, *keys: str) -> None:
    for key in keys:
        s3.put(key, key.encode())


def keys_of(s3: Any, found: list[files.FileInfo]) -> list[str]:
    return [info.path.removeprefix(f"{s3.root}/") for info in found]


def test_a_folder_is_what_paths_speak_of(holder: Store, s3: Any) -> None:
    fill(s3, "out/a", "out/b/c", "out/b/d/e", "out-b/x", "other")
    assert files.listing(f"{s3.root}/out") == [(f"{s3.root}/out/a", 5)]
    assert files.listing(f"{s3.root}/out/") == files.listing(f"{s3.root}/out")
    assert files.subfolders(f"{s3.root}/out") == ["b"]
    assert files.subfolders(s3.root) == ["out", "out-b"]
    assert files.listing(s3.root) == [(f"{s3.root}/other", 5)]


def test_what_is_not_there_is_empty(holder: Store, s3: Any) -> None:
    missing = f"{s3.root}/missing"
    assert files.listing(missing) == []
    assert files.subfolders(missing) == []
    assert files.glob(f"{missing}/*") == []
    assert not files.exists(missing)
    files.remove([missing])
    files.remove_folder(missing)
    with pytest.raises(FileNotFoundError, match="missing"):
        files.open_read(missing)


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("in/*", ["in/a.jsonl", "in/b.gz"]),
        ("in/**", ["in/a.jsonl", "in/b.gz", "in/below/c.jsonl"]),
        ("in/*/*", ["in/below/c.jsonl"]),
        ("in/?.jsonl", ["in/a.jsonl"]),
        ("in/[ab].*", ["in/a.jsonl", "in/b.gz"]),
        ("in/a.jsonl", ["in/a.jsonl"]),
        ("in/", ["in/a.jsonl", "in/b.gz"]),
        ("in", []),
    ],
)
def test_a_star_stops_at_a_slash(s3: Any, pattern: str, keys: list[str]) -> None:
    fill(s3, "in/a.jsonl", "in/b.gz", "in/below/c.jsonl", "inner/d")
    assert keys_of(s3, files.glob(f"{s3.root}/{pattern}")) == keys


def test_what_a_console_makes_of_a_new_folder_is_no_file(s3: Any) -> None:
    fill(s3, "out/results/", "out/results/a")
    assert keys_of(s3, files.listing(f"{s3.root}/out/results")) == ["out/results/a"]
    assert keys_of(s3, files.glob(f"{s3.root}/out/results/*")) == ["out/results/a"]


def test_more_than_one_page(s3: Any) -> None:
    for number in range(1005):
        s3.put(f"many/{number:04d}", b"")
    before = len(s3.requests())
    assert len(files.listing(f"{s3.root}/many")) == 1005
    files.remove_folder(f"{s3.root}/many")
    assert s3.keys("many/") == []
    lists_and_removals = 2 + 2 + 2
    assert len(s3.requests()) == before + lists_and_removals + 1  # that of s3.keys


def test_move_replaces_and_leaves_nothing_behind(holder: Store, s3: Any) -> None:
    s3.put("z/old", b"old")
    s3.put("x/new", b"new")
    files.move(f"{s3.root}/x/new", f"{s3.root}/z/old")
    assert s3.keys() == ["z/old"]
    assert s3.get("z/old") == b"new"


def test_large_objects_are_copied_in_parts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.s3._COPIED_AT_ONCE", 1000)
    data = bytes(range(256)) * 40_000  # 10 MB: more than boto3 copies at once
    s3.put("large", data)
    files.move(f"{s3.root}/large", f"{s3.root}/moved")
    assert s3.get("moved") == data
    assert s3.requests("PUT .*partNumber")


def test_json_is_one_request(s3: Any) -> None:
    before = len(s3.requests())
    files.write_json(f"{s3.root}/runs/a.json", {"a": "é"})
    assert len(s3.requests()) == before + 1
    assert files.read_json(f"{s3.root}/runs/a.json") == {"a": "é"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(f"{s3.root}/runs/b.json", {"a": float("nan")})
    assert s3.keys() == ["runs/a.json"]


def test_bytes_written_in_pieces_come_back(holder: Store, s3: Any) -> None:
    data = bytes(range(256)) * 50_000  # 12.8 MB: two parts
    with files.create(f"{s3.root}/x") as stream:
        for start in range(0, len(data), 1_000_000):
            stream.write(data[start : start + 1_000_000])
    assert s3.get("x") == data
    with files.open_read(f"{s3.root}/x") as reader:
        assert reader.read(10) == data[:10]
        reader.seek(1_000_003)
        assert reader.read(1000) == data[1_000_003:1_001_003]
        reader.seek(-5, io.SEEK_END)
        assert reader.read() == data[-5:]
        reader.seek(0)
        assert reader.read() == data


def test_an_empty_object(s3: Any) -> None:
    files.create(f"{s3.root}/empty").close()
    with files.open_read(f"{s3.root}/empty") as stream:
        assert stream.read() == b""


@pytest.mark.parametrize("size", [10, PART_BYTES + 10])
def test_what_is_not_finished_never_is_there(s3: Any, size: int) -> None:
    def give_up() -> None:
        with files.create(f"{s3.root}/x") as stream:
            stream.write(bytes(size))
            raise KeyError

    with pytest.raises(KeyError):
        give_up()
    stream = files.create(f"{s3.root}/y")
    stream.write(bytes(size))
    del stream  # as where an exception lets it go
    assert s3.keys() == []
    assert not s3.client.list_multipart_uploads(Bucket=s3.bucket).get("Uploads")


def test_a_span_reads_little_more_than_itself(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("x", bytes(20_000_000))
    taken: list[int] = []
    read = S3Reader._read

    def noted(self: Any, count: int) -> bytes:
        data: bytes = read(self, count)
        taken.append(len(data))
        return data

    monkeypatch.setattr("transforms.s3_reader.S3Reader._read", noted)
    with unpack.open_plain(f"{s3.root}/x")[0] as stream:
        stream.seek(5_000_000)
        stream.read(300_000)
    assert sum(taken) < 1_500_000


def test_a_connection_that_breaks_is_opened_again(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 4000
    s3.put("x", data)
    call, cut = BaseClient._make_api_call, []

    class Cut:
        def __init__(self, body: Any) -> None:
            self._body = body

        def read(self, count: int) -> bytes:
            if len(cut) < 3:
                cut.append(count)
                self._body.close()
                return b""  # as of a server that says no more
            return bytes(self._body.read(count))

        def close(self) -> None:
            self._body.close()

    def cutting(self: Any, name: str, arguments: Any) -> Any:
        response = call(self, name, arguments)
        if name == "GetObject":
            response["Body"] = Cut(response["Body"])
        return response

    monkeypatch.setattr(BaseClient, "_make_api_call", cutting)
    with files.open_read(f"{s3.root}/x") as stream:
        assert stream.read() == data
    assert len(cut) == 3


def test_an_object_that_is_replaced_while_it_is_read(s3: Any) -> None:
    s3.put("x", bytes(1_000_000))
    with files.open_read(f"{s3.root}/x") as stream:
        stream.read(1)
        s3.put("x", bytes(999_999) + b"1")
        stream.seek(900_000)
        with pytest.raises(OSError, match=r"PreconditionFailed|412"):
            stream.read()


def test_refusals_name_the_thing(s3: Any) -> None:
    with pytest.raises(FileNotFoundError, match=r"NoSuchBucket.*s3://no-such-bucket/x"):
        files.write_json("s3://no-such-bucket/x", 1)
    with pytest.raises(OSError, match="NoSuchBucket"):
        files.glob("s3://no-such-bucket/*")
    with pytest.raises(OSError, match="s3://"):
        files.write_json("s3:///x", 1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ftp://host/out", "ftp:// is not supported: only s3://, gs://, azfs:// and files"),
        ("file:///out", "file:// is not supported"),
    ],
)
def test_paths_that_cannot_be_reached(path: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        files.listing(path)


def test_many_threads_share_the_client(s3: Any) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            files.write_json(f"{s3.root}/{number}/{turn}", [number, turn])
            assert files.read_json(f"{s3.root}/{number}/{turn}") == [number, turn]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(s3.keys()) == 80


def test_the_client_is_made_once(s3: Any) -> None:
    made = client()
    files.exists(f"{s3.root}/x")
    assert client() is made

"""What a run of any size would take on a cluster, from unit costs that are measured here and assumptions that are said.

python tests/benchmarks/scale.py --rows 1000000 100000000 1000000000 --workers 100

Measured are this machine's CPU times and bytes, of the project's own code; assumed is what the flags say. A figure
is held against what can be borne, and the table says what is passed first and what then to do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from measured import ROOT
from resume import write_input, write_results

sys.path.insert(0, str(ROOT))

from transforms import commit, files, journal, prefixes, read
from transforms.digests import digest
from transforms.done_digests import PARTITIONS, DoneDigests, DoneKey, DonePacker
from transforms.formats.spans import InputFile, Reading, Span
from transforms.layout import Layout
from transforms.plan import Planner, SpanPlan
from transforms.prefixes import PrefixPacker, find_repeats
from transforms.resume import result_ids
from transforms.scratch import Scratch
from transforms.screen import Rules, Screen
from transforms.settings import Input, Model, Task
from transforms.shards import Roll, ShardFormat, Staged

SAMPLE = 50_000  # rows that unit costs are measured on
FILES = 2_000  # in a folder that is listed, and moved by a commit
RUN = "20260101T000000-000000"


class Unit(NamedTuple):
    """A measured cost of one row, id or file."""

    name: str
    value: float
    unit: str


class Component(NamedTuple):
    """A part of a run: its figure for so many rows and prior ids, the most that can be borne, and what then to do."""

    name: str
    unit: str
    figure: Callable[[float, float], float]
    limit: float
    then: str


def cpu(work: Callable[[], Any], count: int) -> float:
    """Microseconds of CPU for each of `count`."""
    started = time.process_time()
    work()
    return (time.process_time() - started) / count * 1e6


def drain(items: Iterable[Any]) -> None:
    """Reads all."""
    for _item in items:
        pass


def measure(folder: Path) -> dict[str, Unit]:
    """All unit costs, by short names."""
    write_input(folder / "input", SAMPLE)
    write_results(folder, SAMPLE)
    found = [*reading(folder), *prior(folder), *journals(folder), *publishing(folder)]
    return {unit.name: unit for unit in found}


def reading(folder: Path) -> Iterable[Unit]:
    """Reading, planning, and the repeats in what is planned."""
    paths = sorted((folder / "input").iterdir())
    items = [InputFile(str(path), number, path.stat().st_size) for number, path in enumerate(paths)]
    spans = [span for item in items for span in read.split(item, 1 << 30, Reading())]
    yield Unit("input bytes a row", sum(item.size for item in items) / SAMPLE, "B")
    yield Unit("read a row", cpu(lambda: [drain(read.read_records(s, Reading())) for s in spans], SAMPLE), "us")
    rules = Rules(Task(prompt="{text}"), Input(path="x"), Model(), columns={})
    none = DoneDigests(DoneKey(Scratch(str(folder), of_run=False)).held(), [])
    planner = Planner(Reading(), Screen(rules), PrefixPacker())
    pieces: list[Any] = []

    def plan() -> None:
        for span in spans:
            for found in planner.read(span, none):
                if not isinstance(found, SpanPlan):
                    pieces.extend(found)
        pieces.extend(planner.rest())

    yield Unit("plan a row", cpu(plan, SAMPLE), "us")
    yield Unit("plan bytes a row", sum(len(part) for _number, piece in pieces for part in piece) / SAMPLE, "B")
    yield Unit("repeats a row", cpu(lambda: [drain(find_repeats([piece])) for _n, piece in pieces], SAMPLE), "us")
    todo = {span.key: SAMPLE for span in spans}
    yield Unit("plan in one place a span", len(json.dumps(todo)) / len(todo), "B")


def prior(folder: Path) -> Iterable[Unit]:
    """The ids of earlier output: read once, held by each process."""
    packer = DonePacker(SAMPLE + 1)
    paths = [str(path) for path in (folder / "results").glob("*.parquet")]

    def pack() -> None:
        for path in paths:
            for identifier in result_ids(path):
                packer.add(digest(identifier))

    yield Unit("prior id read", cpu(pack, SAMPLE), "us")
    scratch = Scratch(str(folder), of_run=False)
    part = scratch.write(packer.take(), PARTITIONS)
    assert part is not None
    yield Unit("prior id bytes", part.starts[-1] / SAMPLE, "B")
    held = DoneKey(scratch).held()
    yield Unit("prior id loaded", cpu(lambda: [held.one(number, [part]) for number in range(PARTITIONS)], SAMPLE), "us")


def journals(folder: Path) -> Iterable[Unit]:
    """A journal: its bytes, what its recovery takes, and the listing of its folder."""
    text = "x" * 60
    row = {"id": "row-123456", "label": "positive", "output_text": text, "model": "mock-1", "finish_reason": "stop"}
    row |= {"prompt_tokens": 250, "completion_tokens": 12, "cached_tokens": None, "cost_usd": 0.000123, "attempts": 1}
    row |= {"latency_ms": 812.5, "run_id": RUN, "task_hash": "0" * 16, "finished_at": "2026-01-31T08:00:00.123Z"}
    lines = [journal.encode(journal.Entry(digest(str(number)), journal.OK, row)) for number in range(SAMPLE)]
    yield Unit("journal bytes a row", len(lines[0]), "B")
    path = folder / "one.jsonl"
    path.write_bytes(b"".join(lines))
    roll = Roll(ShardFormat("jsonl", 100_000), str(folder / "recovered"))

    def recover() -> None:  # as recover.py does: twice for the digests, once for the rows
        for _outcome in (journal.OK, journal.DEAD_LETTER):
            drain(journal.heads(str(path)))
        for entry in journal.read(str(path)):
            assert entry is not None
            roll.write(entry.row)
        roll.close()

    yield Unit("recovery a row", cpu(recover, SAMPLE), "us")
    many = folder / "journal"
    many.mkdir()
    for number in range(FILES):
        (many / f"{Span('', number, 0, None).key}-0123456789ab.jsonl").touch()
    index = journal.SpanIndex(str(many))
    yield Unit("journal listed a file", cpu(index.refresh, FILES), "us")


def publishing(folder: Path) -> Iterable[Unit]:
    """A commit: what each file of it takes on a disk."""
    layout = Layout(str(folder / "output"))
    staged = []
    for number in range(FILES):
        path = files.join(layout.staging(RUN), f"{number}.jsonl")
        files.write(path, b"{}\n")
        staged.append(Staged(path, 1))
    took = cpu(lambda: commit.publish(layout, RUN, staged, [], [], {"run_id": RUN}), FILES)
    yield Unit("commit a file", took, "us")
    yield Unit(
        "ids read back a row", cpu(lambda: [drain(result_ids(str(p))) for p in folder.glob("results/*")], SAMPLE), "us"
    )


def components(unit: dict[str, Unit], flags: argparse.Namespace) -> list[Component]:
    """All parts of a run that grow with it."""
    cost = {name: each.value for name, each in unit.items()}
    hour, workers = 3600e6, flags.workers

    def spans(rows: float) -> float:
        total = rows * flags.row_bytes
        length = min(max(total / read.SPANS, read.MIN_SPAN_BYTES), read.MAX_SPAN_BYTES)
        return max(total / length, 1)

    def pages(rows: float) -> float:
        return max(spans(rows) / flags.page, 1)

    def shards(rows: float) -> float:
        return max(rows / flags.rows_per_shard, 1)

    return [
        Component("calls: hours", "h", lambda n, p: n * flags.latency / workers / flags.in_flight / 3600, 24 * 14,
                  "more workers, more calls in flight, records_per_call; the account's limits decide"),
        Component("calls: dollars", "$", lambda n, p: n * flags.dollars, float("inf"), "budget.max_cost_usd"),
        Component("read, plan: CPU hours a worker", "h",
                  lambda n, p: n * (cost["read a row"] + cost["plan a row"] + cost["repeats a row"]) / hour / workers,
                  24, "more workers: it grows with rows / workers"),
        Component("plan: scratch files", "GB", lambda n, p: n * cost["plan bytes a row"] / 1e9, 100, "runs of parts"),
        Component("plan: largest partition", "MB",
                  lambda n, p: n * cost["plan bytes a row"] / prefixes.PARTITIONS / 1e6, 500,
                  "more partitions in prefixes.py"),
        Component("plan: in one place", "MB", lambda n, p: spans(n) * cost["plan in one place a span"] / 1e6, 100,
                  "larger spans"),
        Component("done ids: read once, CPU hours a worker", "h",
                  lambda n, p: p * cost["prior id read"] / hour / workers, 24, "more workers"),
        Component("done ids: held by a process", "GB", lambda n, p: p * cost["prior id bytes"] / 1e9,
                  flags.worker_gb / 2, "a join by partition instead"),
        Component("done ids: loaded by a process, minutes", "min",
                  lambda n, p: p * cost["prior id loaded"] / 60e6, 30, "the same"),
        Component("journal: bytes", "GB", lambda n, p: n * cost["journal bytes a row"] / 1e9, 10_000, "runs of parts"),
        Component("journal: files", "", lambda n, p: spans(n), 100_000, "larger spans"),
        Component("journal: list requests, of a bundle a span", "", lambda n, p: spans(n) * pages(n), 1e6,
                  "refresh only where a bundle was begun before; a folder for each range of spans"),
        Component("journal: listing a bundle waits for, seconds", "s",
                  lambda n, p: pages(n) * flags.list_ms / 1e3 + spans(n) * cost["journal listed a file"] / 1e6, 30,
                  "the same"),
        Component("recovery by the launcher, of a whole run: hours", "h",
                  lambda n, p: n * cost["recovery a row"] / hour, 1, "recover in a graph, a journal file an element"),
        # Digests sorted and a copy of them, and whether each is taken.
        Component("recovery: memory", "GB", lambda n, p: n * 33 / 1e9, flags.worker_gb, "the same"),
        Component("commit: files moved", "", lambda n, p: shards(n), 100_000, "output.rows_per_shard"),
        Component("commit on a disk: minutes", "min", lambda n, p: shards(n) * cost["commit a file"] / 60e6, 30,
                  "output.rows_per_shard"),
        Component("commit on a store, one copy after another: minutes", "min",
                  lambda n, p: shards(n) * flags.copy_ms / 60e3, 30, "output.rows_per_shard; copies in parallel"),
        Component("commit: ids read back where failures were carried, hours", "h",
                  lambda n, p: n * cost["ids read back a row"] / hour, 1, "the failures as a side input of a graph"),
        Component("report by the launcher, at least: hours", "h",
                  lambda n, p: (n + p) * cost["ids read back a row"] / hour, 1, "output.report: false"),
    ]  # fmt: skip


def main() -> None:
    """Prints unit costs, the table, and what is passed first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e8, 1e9])
    parser.add_argument("--prior-share", type=float, default=0.1, help="prior ids for each row")
    parser.add_argument("--workers", type=int, default=100, help="worker processes")
    parser.add_argument("--worker-gb", type=float, default=4.0, help="memory of a worker process")
    parser.add_argument("--in-flight", type=int, default=100, help="calls in flight of a worker process")
    parser.add_argument("--latency", type=float, default=1.0, help="of a call, in seconds")
    parser.add_argument("--dollars", type=float, default=0.0003, help="of a call")
    parser.add_argument("--row-bytes", type=float, default=500, help="of an input row")
    parser.add_argument("--rows-per-shard", type=float, default=100_000)
    parser.add_argument("--page", type=int, default=1000, help="objects that a store lists in one request")
    parser.add_argument("--list-ms", type=float, default=100, help="of such a request")
    parser.add_argument("--copy-ms", type=float, default=200, help="of a copy and removal of one object in a store")
    flags = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        unit = measure(Path(name))
    print(f"measured here, on {SAMPLE:,} rows and {FILES:,} files, in {time.perf_counter() - started:.0f} s:")
    for each in unit.values():
        print(f"  {each.name:26} {each.value:10.2f} {each.unit}")
    print("assumed:", "; ".join(f"{key.replace('_', ' ')} {value}" for key, value in vars(flags).items()))
    sizes = [f"{rows:.0e} rows" for rows in flags.rows]
    print(f"\n{'':60}" + "".join(f"{size:>14}" for size in sizes) + f"{'bearable':>14}")
    passed: list[tuple[float, str, str]] = []
    for part in components(unit, flags):
        figures = [part.figure(rows, rows * flags.prior_share) for rows in flags.rows]
        shown = "".join(f"{value:14,.2f}" for value in figures)
        print(f"{part.name:54} {part.unit:>5}{shown}{part.limit:14,.0f}")
        for rows, value in sorted(zip(flags.rows, figures, strict=True)):
            if value > part.limit:
                # As costs grow with the rows, or slower, this is where it is passed at the latest.
                passed.append((rows * part.limit / value, part.name, part.then))
                break
    print("\nwhat is passed, first things first:" if passed else "\nnothing is passed")
    for rows, what, then in sorted(passed):
        print(f"  from about {rows:.0e} rows  {what}\n{'':29}then: {then}")


if __name__ == "__main__":
    main()

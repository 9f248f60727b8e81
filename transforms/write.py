"""Rows -> shards, in the graph.

Each bundle writes files of its own under staging/ and names them when it ends; a bundle that is repeated leaves
files that nobody names. Engines with small bundles leave small files, so these are joined up to `rows_per_shard`
before they are published. Only names of files are shuffled, never rows. Where the order of the input is asked for,
what bundles leave are sorted runs, and one worker merges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from transforms.order import merge_runs, new_roll
from transforms.records import Row
from transforms.shards import ShardFormat, Staged, join_files, pack
from transforms.tally import TALLY, Tally, add, bundle_tally, outcome_tally


@dataclass
class WriteShards(beam.PTransform):
    """Row -> Staged (main output) and tallies of the rows under TALLY. `kind` is "ok" or "failed"."""

    shards: ShardFormat
    folder: str
    kind: str

    def expand(self, pcoll: Any) -> Any:
        outputs = pcoll | "Write" >> beam.ParDo(_WriteBundle(self.shards, self.folder, self.kind)).with_outputs(
            TALLY, main="staged"
        )
        gathered = outputs.staged | "Key" >> beam.WithKeys(None) | "Gather" >> beam.GroupByKey()
        if self.shards.ordered:
            merged = gathered | "Merge" >> beam.FlatMap(_merge, self.shards, self.folder)
            return {"staged": merged, "tally": outputs[TALLY]}
        joined = (
            gathered
            | "Pack" >> beam.FlatMap(_pack, self.shards.rows_per_shard)
            | "SpreadGroups" >> beam.Reshuffle()
            | "Join" >> beam.Map(join_files, self.shards, self.folder)
        )
        return {"staged": joined, "tally": outputs[TALLY]}


class _WriteBundle(beam.DoFn):
    def __init__(self, shards: ShardFormat, folder: str, kind: str) -> None:
        self._shards = shards
        self._folder = folder
        self._kind = kind

    def setup(self) -> None:
        self._roll = new_roll(self._shards, self._folder)

    def start_bundle(self) -> None:
        self._roll.discard()  # of a bundle that broke
        self._roll = new_roll(self._shards, self._folder)
        self._tally: Tally = {}

    def teardown(self) -> None:
        self._roll.discard()

    def process(self, row: Row) -> None:
        self._roll.write(row)
        add(self._tally, outcome_tally(row, self._kind))

    def finish_bundle(self) -> Iterator[Any]:
        self._roll.close()
        for staged in self._roll.finished:
            yield GlobalWindows.windowed_value(staged)
        yield bundle_tally(self._tally)


def _merge(keyed: tuple[None, Iterable[Staged]], shards: ShardFormat, folder: str) -> list[Staged]:
    return merge_runs(keyed[1], shards, folder)


def _pack(keyed: tuple[None, Iterable[Staged]], rows_per_shard: int) -> list[list[Staged]]:
    return pack(keyed[1], rows_per_shard)

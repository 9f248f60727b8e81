"""Results by their places: the number of a row in the order of reading, which is the same each time."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.published import Published, Unreadable
from transforms.records import Row

Places = npt.NDArray[np.int64]
CHANGED = "the results were changed by a run while they were read; try again"


def take(published: Published, columns: Sequence[str], rows: Places) -> Iterator[Row]:
    """The results at `rows`, ascending places among all results in the order of reading. Reads up to the last of them.
    Raises Unreadable, also where there are fewer by now."""
    start = taken = 0
    for batch in published.results(columns) if len(rows) else ():
        upto = int(np.searchsorted(rows, start + batch.num_rows))
        if upto > taken:
            yield from batch.take(pa.array(rows[taken:upto] - start)).to_pylist()
        start, taken = start + batch.num_rows, upto
        if taken == len(rows):
            return
    if taken < len(rows):
        raise Unreadable(CHANGED)


def take_in_any_order(published: Published, columns: Sequence[str], rows: Places) -> Iterator[Row]:
    """The results at `rows`, places in any order, in that order. They are read once: what is taken waits for its turn
    in a temporary file. Raises Unreadable."""
    order = np.argsort(rows)
    places = np.zeros(len(rows), dtype=np.int64)
    with tempfile.TemporaryFile() as waiting:
        for at, row in zip(order, take(published, columns, rows[order]), strict=True):
            places[at] = waiting.tell()
            waiting.write(json.dumps(row).encode() + b"\n")
        for place in places.tolist():
            waiting.seek(place)
            yield json.loads(waiting.readline())

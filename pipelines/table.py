"""Tables on the terminal: aligned columns, plain text, a line for each row."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from transforms.llm.text import excerpt

_GAP = "  "
_LONGEST = 2000  # characters of a cell where nothing else cuts it
_LEAST = 20  # columns of the terminal that the last cell keeps


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), width: int | None = None) -> list[str]:
    """Lines of aligned cells, the first row being the heads. `right` are the columns of numbers.

    Cells are made safe to show: one line, without control characters and secrets. With `width`, in terminal cells,
    the last column is cut to it; without, nothing is cut or wrapped, so that each line can be searched for."""
    cells = [[excerpt(cell, _LONGEST) for cell in row] for row in rows]
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(rows[0]))]
    lines = []
    for row in cells:
        parts = [
            " " * (wide - cell_len(cell)) + cell if at in right else cell + " " * (wide - cell_len(cell))
            for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(cut(_GAP.join(parts).rstrip(), width))
    return lines


def cut(line: str, width: int | None) -> str:
    """A line that fits into so many cells of a terminal."""
    if width is None or cell_len(line) <= width:
        return line
    return set_cell_size(line, max(width, _LEAST) - 1).rstrip() + "…"


def terminal_width() -> int | None:
    """The cells of a line on the terminal that stdout is, or None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None

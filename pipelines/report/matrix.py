"""How good the answers are: accuracy, each class, and who is taken for whom."""

from __future__ import annotations

from typing import Any

from pipelines.report import figures
from transforms.llm.secrets import masked
from transforms.quality import Confusion
from transforms.statistics import Statistics

_CLASSES = 12  # that have a row and a column of their own
_NONE = "no value"


def quality(statistics: Statistics) -> dict[str, Any]:
    """What the template shows of how good the answers are; of texts, no classes."""
    confusion = statistics.confusion
    classes = confusion.classes() if confusion.has_labels else []
    top = [each.name for each in classes[:_CLASSES]]
    return {
        "column": statistics.judged,
        "accuracy": confusion.accuracy,
        "rows": confusion.rows,
        "correct": confusion.correct,
        "unlabelled": confusion.unlabelled,
        "classes": [
            {
                "name": _name(each.name),
                "expected": each.expected,
                "answered": each.answered,
                "shares": [each.precision, each.recall, each.f1],
            }
            for each in classes[:_CLASSES]
        ],
        "more": len(classes) - len(top),
        **(_matrix(confusion, top, more=len(classes) > len(top)) if classes else {"names": []}),
    }


def _matrix(confusion: Confusion, top: list[str | None], *, more: bool) -> dict[str, Any]:
    """Rows are what was expected, columns what was answered; all classes beyond `top` are one."""
    places = {name: at for at, name in enumerate(top)}
    size = len(top) + more
    cells = [[0] * size for _ in range(size)]
    outside_right = 0  # of the classes that are one here, the rows that are right
    for (right, given), count in (confusion.counts or {}).items():
        row, column = places.get(right, len(top)), places.get(given, len(top))
        cells[row][column] += count
        if row == column == len(top) and right == given:
            outside_right += count
    # What is wrong is tinted by how wrong the worst is: a few per cent are what one looks for.
    wrong = [
        count / sum(counts) for at, counts in enumerate(cells) for to, count in enumerate(counts) if at != to and count
    ]
    worst = max(wrong, default=1.0)
    names = [*map(_name, top), *(["others"] if more else [])]
    lines = []
    for at, counts in enumerate(cells):
        total = sum(counts)
        if not total:  # a class that was answered and never expected has no row
            continue
        lines.append(
            {
                "name": names[at],
                "cells": [
                    {
                        "rows": rows,
                        "tint": rows / total if at == column else rows / total / worst,
                        "right": at == column and at < len(top),
                        "says": f"expected {names[at]}, answered {names[column]}: {figures.number(rows)} "
                        f"({figures.percent(rows / total)} of the row)",
                    }
                    for column, rows in enumerate(counts)
                ],
            }
        )
    return {"names": names, "lines": lines, "outside_right": outside_right}


def _name(name: str | None) -> str:
    return _NONE if name is None else masked(name)

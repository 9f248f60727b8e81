"""How many labels the default configuration gets right, and how fast: the embedded model on sentences with a score.

    python tests/benchmarks/labels.py FILE [--rows 300] [--set task.prompt=...]

FILE is JSONL with id, text and score, below 0 negative. Sentences with a score from -1.5 to 1.5 are left out, as people
disagree about them; of the others the same ones are drawn each time.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipelines.config import default_config, load
from transforms.llm.answers import AnswerParser
from transforms.llm.client import connect
from transforms.llm.errors import CallError
from transforms.llm.prompts import Prompts

CLEAR = 1.5
SEED = 7


def drawn(path: Path, rows: int) -> list[dict[str, Any]]:
    """The sentences to ask about."""
    lines = path.read_text(encoding="utf-8").splitlines()
    clear = [row for row in map(json.loads, lines) if abs(row["score"]) > CLEAR]
    clear.sort(key=lambda row: row["id"])
    random.Random(SEED).shuffle(clear)
    return clear[:rows]


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("file", type=Path)
    flags.add_argument("--rows", type=int, default=300)
    flags.add_argument("--set", action="append", default=[])
    given = flags.parse_args()
    settings = load(default_config("classify"), given.set)
    prompts = Prompts(settings.task, settings.input, settings.model)
    parser = AnswerParser(settings.task.answer_schema)
    client = connect(settings.task, settings.model, settings.limits, pool_size=settings.max_in_flight)

    def label(row: dict[str, Any]) -> str:
        try:
            return str(parser.parse(client.complete(prompts.render(row))).values["label"])
        except CallError as error:
            return error.reason

    rows = drawn(given.file, given.rows)
    label(rows[0])  # the system text is computed once, then kept
    started = time.perf_counter()
    with ThreadPoolExecutor(settings.max_in_flight) as pool:
        found = list(pool.map(label, rows))
    seconds = time.perf_counter() - started
    client.close()
    wanted = ["positive" if row["score"] > 0 else "negative" for row in rows]
    missed = Counter(want for got, want in zip(found, wanted, strict=True) if got != want)
    right = len(rows) - missed.total()
    print(f"{right} of {len(rows)} right ({right / len(rows):.1%}), {len(rows) / seconds:.1f} answers/s")
    print(f"labels {dict(Counter(found))}, missed {dict(missed)}")


if __name__ == "__main__":
    main()

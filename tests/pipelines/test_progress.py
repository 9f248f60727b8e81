"""How progress is put, and that it fits."""

import io
import os
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from pipelines.bar import Bar
from pipelines.progress import clock, describe, describe_below, describe_beside
from pipelines.rates import Rates, Speed
from transforms.watch import Progress

PROGRESS = Progress(
    rows=1_000_000,
    todo=800_000,
    ok=119_000,
    failed=1_000,
    tally={"calls": 130_000, "cost_usd": 12.5, "prompt_tokens": 5_000_000},
    requests=130_500,
    rate_limited=512,
    in_flight=32,
)
SPEED = Speed(100.0, 110.0, 2500.0)


def test_a_line_says_it_all() -> None:
    assert describe(PROGRESS, SPEED) == (
        "120,000/800,000 | ok 119,000 (99.2%) | failed 1,000 | skipped 200,000 | 110.0 calls/s | 2,500 tokens/s | "
        "32 in flight | 429s 512 | $12.5000 of about $83.3333 | 1:53:20 left"
    )


@pytest.mark.parametrize("speed", [None, SPEED])
def test_silence_is_told_in_place_of_the_time_that_is_left(speed: Speed | None) -> None:
    quiet = replace(PROGRESS, silent_seconds=125.0)
    assert describe(quiet, speed).endswith("| no sign of life for 2:05")
    assert "sign" not in describe(replace(quiet, silent_seconds=60.0), speed)
    assert "sign" not in describe(replace(quiet, todo=120_000), speed)


def test_before_the_plan_is_made() -> None:
    assert describe(Progress(), None) == "reading the input"


def test_nothing_to_do() -> None:
    assert describe(Progress(rows=5, todo=0), None) == "0/0 | ok 0 | failed 0 | skipped 5"


@pytest.mark.parametrize("width", [1, 2, 5, 20, 39, 40, 60, 80, 120, 300])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_bar_is_never_wider_than_the_terminal(width: int, encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(file=stream, force_terminal=True, width=width, color_system=None)
    bar = Bar(describe_beside, describe_below)
    with Live(bar, console=console, auto_refresh=False) as live:
        bar.progress, bar.speed = PROGRESS, SPEED
        live.refresh()
    stream.flush()
    text = stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    lines = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= max(1, width - 1)
    if width >= 120:
        assert "| 1:53:20 left" in text
        assert "110.0 calls/s | 2,500 tokens/s | 32 in flight | 429s 512 | $12.5000 of about $83.3333" in text
    if width >= 20:
        assert "120,000/800,000" in text


def test_the_terminal_is_asked_for_its_width_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Also where COLUMNS says otherwise, as a shell's of before it was resized does."""
    with (tmp_path / "tty").open("w+") as stream:
        console = Console(file=stream, force_terminal=True, width=200, color_system=None)
        bar = Bar(describe_beside, describe_below)
        bar.progress, bar.speed = PROGRESS, SPEED
        for columns in (100, 50, 30):
            size = os.terminal_size((columns, 24))
            monkeypatch.setattr(os, "get_terminal_size", lambda *_descriptor, size=size: size)
            lines = console.render_lines(bar)
            widths = [len("".join(segment.text for segment in line).rstrip()) for line in lines]
            assert len(widths) == 2
            assert max(widths) < columns


def test_rates_begin_with_what_is_there_at_first() -> None:
    rates = Rates()
    assert rates.add(100.0, PROGRESS) is None
    later = Progress(ok=119_050, failed=1_000, tally={"prompt_tokens": 5_000_200}, requests=130_600)
    assert rates.add(105.0, later) == Speed(10.0, 20.0, 40.0)


def test_rates_are_of_the_last_seconds() -> None:
    rates = Rates()
    for second in range(100):
        speed = rates.add(float(second), Progress(ok=second * (1 if second < 50 else 3)))
    assert speed.rows == pytest.approx(3.0)


def test_reading_the_input_is_no_part_of_the_rate() -> None:
    rates = Rates()
    for second in range(10):
        rates.add(float(second), Progress())
    assert rates.add(10.0, Progress(ok=5)).rows == 5.0


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3723, "1:02:03")])
def test_durations(seconds: float, text: str) -> None:
    assert clock(seconds) == text

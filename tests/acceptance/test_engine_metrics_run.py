"""What a whole run says of what its engine measured, on each engine that is here."""

from __future__ import annotations

import re
from typing import Any

LINE = r"^engine: latency ([\d,]+) to ([\d,]+) ms, mean ([\d,]+) \| tokens a row: mean (\d+)( \| throttled \d+ s)?$"


def check(workspace: Any, mock: Any, flags: list[str]) -> None:
    workspace.write_input(workspace.rows(40), files=2)
    workspace.configure(mock("-latency", "20").url)
    ran = workspace.run(*flags)
    assert ran.code == 0, ran.err
    found = re.search(LINE, ran.out, re.MULTILINE)
    assert found, ran.out
    least, most, mean = (int(text.replace(",", "")) for text in found.groups()[:3])
    latencies = [round(row["latency_ms"]) for row in workspace.results()]
    assert (least, most) == (min(latencies), max(latencies))
    assert least <= mean <= most
    again = workspace.run(*flags)
    assert again.code == 0, again.err
    assert "engine:" not in again.out  # nothing was asked


def test_on_each_engine(workspace: Any, mock: Any, runner: list[str]) -> None:
    check(workspace, mock, runner)


def test_with_several_worker_processes(workspace: Any, mock: Any) -> None:
    check(workspace, mock, ["--direct_running_mode=multi_processing", "--direct_num_workers=2"])


def test_throttled_seconds(workspace: Any, mock: Any) -> None:
    workspace.write_input(workspace.rows(20))
    workspace.configure(mock("-latency", "5").url, limits={"requests_per_minute": 300, "headroom": 1.0})
    ran = workspace.run()
    assert ran.code == 0, ran.err
    found = re.search(r"^engine: .* \| throttled (\d+) s$", ran.out, re.MULTILINE)
    assert found, ran.out
    assert int(found[1]) >= 2  # 20 calls at 5 a second

"""What a run may spend."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from transforms import budget
from transforms.budget import Budget, Share, Spent
from transforms.journal import DEAD_LETTER, OK, Entry, JournalFile
from transforms.ledger import LocalLedger
from transforms.llm.errors import Stopped
from transforms.llm.forecast import Forecast, Size
from transforms.settings import Input, Model, Price, Task
from transforms.stop import StopSign

ROW = {"text": "x" * 96}  # a prompt of 100 characters


def make(most: float, spent: float = 0.0, **parameters: Any) -> Budget:
    """A budget for calls that are first guessed at 100 + 100 tokens, a million of which cost $1."""
    task, model = Task(prompt="Is: {text}"), Model(parameters={"max_tokens": 100, **parameters})
    return Budget(LocalLedger(most, spent), Forecast(task, Input(path="x"), model, Price(input=1, output=1)))


def outcome(cost: float | None, tokens: tuple[int, int] | None = None, kind: str = OK, text: str | None = "A") -> Entry:
    prompt, output = tokens or (None, None)
    row = {"cost_usd": cost, "prompt_tokens": prompt, "completion_tokens": output, "output_text": text}
    return Entry(b"0" * 16, kind, row)


@pytest.fixture
def stop(tmp_path: Path) -> StopSign:
    return StopSign(str(tmp_path))


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs `work` in a thread; its result or exception is in the list when it has ended."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append(work())
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


def test_a_call_that_would_pass_the_budget_is_not_made(stop: StopSign) -> None:
    with pytest.raises(Spent) as caught:
        make(0.001, spent=0.00081).reserve(ROW, stop)
    assert str(caught.value) == (
        "$0.0008 of budget.max_cost_usd $0.0010 is spent, and the next call may cost $0.000200; raise it to go on"
    )
    assert make(0.001, spent=0.0008).reserve(ROW, stop) == Share(pytest.approx(0.0002), Size(100))


def test_a_call_becomes_what_it_has_cost(stop: StopSign) -> None:
    mine = make(0.001)
    mine.settle(mine.reserve(ROW, stop), outcome(0.0003, (200, 100)))
    mine.settle(mine.reserve(ROW, stop), outcome(0.00005, (20, 30), DEAD_LETTER))
    assert mine.spent_usd == pytest.approx(0.00035)


def test_what_is_not_known_to_cost_anything(stop: StopSign) -> None:
    mine = make(0.001)
    mine.settle(mine.reserve(ROW, stop), None)  # the run was stopped
    mine.settle(mine.reserve(ROW, stop), outcome(None, kind=DEAD_LETTER, text=None))  # no attempt was answered
    assert mine.spent_usd == 0


def test_an_answer_of_unknown_cost_counts_as_what_was_set_aside(stop: StopSign) -> None:
    mine = make(0.001)
    mine.settle(mine.reserve(ROW, stop), outcome(None))
    mine.settle(mine.reserve(ROW, stop), outcome(None, kind=DEAD_LETTER, text="[}"))
    assert mine.spent_usd == pytest.approx(0.0004)


def test_calls_under_way_are_waited_for(stop: StopSign) -> None:
    mine = make(0.00035)
    share = mine.reserve(ROW, stop)
    thread, ended = in_thread(lambda: mine.reserve(ROW, stop))
    thread.join(0.05)
    assert not ended
    mine.settle(share, outcome(0.0001, (60, 40)))
    thread.join(10)
    assert ended == [Share(pytest.approx(0.0002), Size(100))]


def test_the_last_call_that_ends_wakes_all_who_wait(stop: StopSign) -> None:
    mine = make(0.0003)
    share = mine.reserve(ROW, stop)
    waiting = [in_thread(lambda: mine.reserve(ROW, stop)) for _ in range(20)]
    time.sleep(0.05)
    began = time.monotonic()
    mine.settle(share, outcome(0.0002, (100, 100)))
    for thread, _ended in waiting:
        thread.join(10)
    kinds = [type(ended[0]) for _thread, ended in waiting]
    assert (kinds.count(Spent), kinds.count(Stopped)) == (1, 19)
    assert time.monotonic() - began < 0.9  # nobody had to look for themselves


def test_a_stop_ends_the_waiting(stop: StopSign) -> None:
    mine = make(0.0003)
    mine.reserve(ROW, stop)
    stop.event.set()
    with pytest.raises(Stopped):
        mine.reserve(ROW, stop)


def test_a_row_without_a_prompt_is_left_to_fail_by_itself(stop: StopSign) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert make(0.001).reserve({"text": Odd()}, stop).size == Size(0)


@pytest.mark.parametrize("limit", [{}, {"max_tokens": None}])
def test_many_threads_never_pass_it(stop: StopSign, limit: dict[str, Any]) -> None:
    """Prompts from 60 to 2,000 characters, answers from 1 to 90 tokens, the longest of each late."""
    mine = make(0.05, **limit)
    most, lock = [0.0], threading.Lock()
    draw = random.Random(7)
    rows = [(number, draw.random()) for number in range(2000)]

    def work(row: tuple[int, float]) -> str:
        number, chance = row
        characters = 60 + int(chance * (200 if number < 300 else 2000))
        try:
            share = mine.reserve({"text": "x" * (characters - 4)}, stop)
        except Spent:
            return "spent"
        except Stopped:
            return "stopped"
        time.sleep(0.0005)
        tokens = int(characters * (0.2 + 0.1 * chance)) + 8, 1 + int(chance * (45 if number < 300 else 90))
        mine.settle(share, outcome(sum(tokens) / 1e6, tokens))
        with lock:
            most[0] = max(most[0], mine.spent_usd)
        return "done"

    with ThreadPoolExecutor(50) as pool:
        ends = list(pool.map(work, rows))
    assert 0.049 < most[0] <= 0.05
    assert ends.count("spent") == 1
    assert 0 < ends.count("stopped") < len(rows)


def test_a_process_has_one_budget_for_a_run() -> None:
    made = [make(1), make(2), make(3)]
    unused = iter(made)
    first = budget.of_run("out/journal/1", lambda: next(unused))
    again = budget.of_run("out/journal/1", lambda: next(unused))
    other = budget.of_run("out/journal/2", lambda: next(unused))
    assert [first, again, other] == [made[0], made[0], made[1]]


def test_what_the_journal_holds_is_spent(tmp_path: Path) -> None:
    file = JournalFile(str(tmp_path), "s")
    for entry in (outcome(0.5), outcome(None), outcome(0.25, kind=DEAD_LETTER)):
        file.append(entry)
    file.close()
    (tmp_path / "run.json").write_text("{}")
    assert budget.journal_cost_usd(str(tmp_path)) == 0.75

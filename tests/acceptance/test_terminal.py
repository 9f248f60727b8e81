"""Terminals: of any width, resized, dumb, closed, hung up; other encodings; a clock that jumps."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
COUNT = 40
_CONTROL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A terminal of so many columns, and the command that runs on it."""

    def __init__(self, workspace: Any, columns: int, **environment: str) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns)
        known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "LC_ALL")}
        classify = [sys.executable, "-m", "pipelines.classify", "--config", str(workspace.config)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CONTROL, *classify],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**known, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", **environment},
        )
        os.close(slave)
        self.text = ""

    def resize(self, columns: int) -> None:
        """Makes it so many columns wide."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self, condition: Callable[[], Any] = lambda: False, seconds: float = 120.0) -> str:
        """Reads until `condition`, or until the command has ended. Returns what is new."""
        end, before = time.monotonic() + seconds, len(self.text)
        while not condition():
            assert time.monotonic() < end, f"waited in vain; there is {self.text!r}"
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    data = os.read(self._master, 65536)
                except OSError as error:
                    if error.errno == errno.EIO:  # nobody is left at the other end
                        break
                    raise
                self.text += data.decode("utf-8", "replace")
        return self.text[before:]

    def hang_up(self) -> None:
        """Closes it, as whoever closes the window does."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)


@pytest.fixture
def terminal(workspace: Any, own_server: Any) -> Iterator[Callable[..., Terminal]]:
    """Starts the command on a terminal; the server answers the first rows only, until its gate opens."""
    opened: list[Terminal] = []
    own_server.pass_first = 20
    own_server.gate.clear()
    workspace.write_input(workspace.rows(COUNT))
    workspace.configure(own_server.url)

    def start(columns: int, **environment: str) -> Terminal:
        opened.append(Terminal(workspace, columns, **environment))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def widest(text: str) -> int:
    """Characters in the longest line of what was written, without what moves the cursor and sets colours."""
    plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", text)
    return max(map(len, re.split(r"[\r\n]+", plain)))


def test_the_bar_fits_also_when_it_is_resized(own_server: Any, terminal: Any) -> None:
    screen = terminal(120)
    shown = screen.read(lambda: "20/40" in screen.text and "8 in flight" in screen.text)
    assert widest(shown) < 120
    assert "calls/s" in shown
    for columns in (60, 30, 10):
        screen.resize(columns)
        start = len(screen.text)
        screen.read(lambda start=start: screen.text[start:].count("20/40") >= 3)
        last = screen.text[start:].rsplit("20/40", 1)[0]
        assert widest(last.split("20/40", 1)[1]) < columns
    own_server.gate.set()
    screen.resize(200)
    screen.read()
    assert screen.process.wait(120) == 0
    assert "total 40 | skipped 0 | recovered 0 | ok 40" in screen.text
    assert "Traceback" not in screen.text


@pytest.mark.parametrize(
    "environment",
    [
        {"TERM": "dumb"},
        {"NO_COLOR": "1"},
        {"COLUMNS": "1"},
        {"COLUMNS": "1000"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    ],
    ids=lambda environment: "-".join(environment),
)
def test_odd_terminals(workspace: Any, own_server: Any, terminal: Any, environment: dict[str, str]) -> None:
    screen = terminal(80, **environment)
    shown = screen.read(lambda: workspace.journal_lines() == 20 and own_server.in_flight == 8)
    if "COLUMNS" in environment or "NO_COLOR" in environment:
        screen.read(lambda: screen.text.count("\x1b[2K") > 5)  # it goes on being drawn
    own_server.gate.set()
    shown += screen.read()
    assert screen.process.wait(120) == 0, screen.text
    assert "total 40 | skipped 0 | recovered 0 | ok 40" in shown
    assert "Traceback" not in screen.text
    if "TERM" in environment:
        assert "\x1b" not in screen.text
    if "NO_COLOR" in environment:
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", screen.text)
    if "LC_ALL" in environment:
        assert screen.text.isascii()
    if "COLUMNS" in environment:
        assert widest(screen.text.split("total 40")[0]) < 80


def test_a_terminal_that_is_closed(workspace: Any, own_server: Any, terminal: Any) -> None:
    screen = terminal(80)
    screen.read(lambda: workspace.journal_lines() == 20 and own_server.in_flight == 8)
    screen.hang_up()
    workspace.until(lambda: list(workspace.output.glob("journal/*/stop.json")), "the run stops")
    own_server.gate.set()
    assert screen.process.wait(120) == 130
    account = workspace.account()
    assert (account["stop_reason"], account["ok"], account["unprocessed"]) == ("interrupted", 28, 12)
    assert own_server.calls == 28


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(workspace: Any, own_server: Any, closed: str) -> None:
    """What would be written to them must not end up in a file that has taken their number."""
    workspace.write_input(workspace.rows(COUNT))
    workspace.configure(own_server.url)
    command = f'exec "$@" {closed}'
    ran = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "pipelines.classify", "--config", str(workspace.config)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(workspace.ids()) == COUNT
    assert ("total 40" in ran.stdout) == (">&-" not in closed.replace("2>&-", ""))
    assert "total 40" not in ran.stderr
    assert workspace.run().counts["skipped"] == COUNT


def test_a_clock_that_jumps(workspace: Any, own_server: Any, tmp_path: Path) -> None:
    """Set a day forward and back again, each second: neither pauses, time-outs nor accounts are any the worse."""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(
        "import time\n_now = time.time\ntime.time = lambda: _now() + (int(time.monotonic()) % 3 - 1) * 86400.0\n"
    )

    def script(row: str, number: int) -> Any:
        if row in ("r00005", "r00020") and number == 1:
            return own_server.error(429, "slow down", retry_after="2")
        return own_server.answer()

    own_server.script = script
    workspace.write_input(workspace.rows(COUNT))
    workspace.configure(own_server.url, limits={"max_in_flight": 4, "requests_per_minute": 600})

    ran = workspace.run(environment={"PYTHONPATH": os.pathsep.join([str(tmp_path / "clock"), str(REPOSITORY)])})

    assert (ran.code, ran.counts["ok"]) == (0, COUNT), ran.err
    assert own_server.calls == COUNT + 2
    again = workspace.run()
    assert (again.code, again.counts["skipped"]) == (0, COUNT)

"""The mock model server of ../shared/mockllm, started for one benchmark and ended with it."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measured import ROOT

SOURCE = ROOT.parent / "shared" / "mockllm"


class MockServer:
    """A running server. `url` is what a client's base_url has to be."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"
        self.url = f"{self._root}/v1"

    def stats(self) -> dict[str, Any]:
        """What it counted since the last reset."""
        with urllib.request.urlopen(f"{self._root}/stats") as response:
            return dict(json.load(response))

    def reset(self) -> None:
        """Counts from nothing again."""
        urllib.request.urlopen(f"{self._root}/reset", data=b"").close()


@contextmanager
def mock_server(*flags: str, binary: str | None = None) -> Iterator[MockServer]:
    """Starts the server with `flags` on a free loopback port, built with Go where no binary is given."""
    with tempfile.TemporaryDirectory() as folder:
        if binary is None:
            binary = str(Path(folder) / "mockllm")
            subprocess.run(["go", "build", "-o", binary, "."], cwd=SOURCE, check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen([binary, "-port", str(port), *flags], stderr=subprocess.DEVNULL)
        try:
            server = MockServer(port)
            deadline = time.monotonic() + 30
            while True:
                try:
                    server.stats()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
            yield server
        finally:
            process.terminate()
            process.wait()

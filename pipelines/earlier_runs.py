"""What earlier runs into an output directory have left: the ids of runs, and what the last one did."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta, timezone
from typing import Any

from pipelines.usage import UsageError
from transforms import files
from transforms.layout import Layout
from transforms.recover import interrupted_runs, read_header

_RUN_ID_TIME = "%Y%m%dT%H%M%S"


def new_run_id(layout: Layout) -> str:
    """An id that sorts after those of all runs before, also where the clock was set back."""
    now = datetime.now(timezone.utc)
    last = last_run_id(layout)
    if last is not None and last[:15] >= now.strftime(_RUN_ID_TIME):
        now = datetime.strptime(last[:15], _RUN_ID_TIME) + timedelta(seconds=1)
    return f"{now.strftime(_RUN_ID_TIME)}-{secrets.token_hex(3)}"


def last_run(layout: Layout) -> dict[str, Any]:
    """The account of the run before, or the header of its journal; empty where there was none."""
    run_id = last_run_id(layout)
    if run_id is None:
        return {}
    path = layout.account(run_id)
    try:
        value = files.read_json(path) if files.exists(path) else read_header(layout, run_id)
    except FileNotFoundError:  # cut short before it had begun
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"the account of run {run_id} in {layout.root} cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}


def last_run_id(layout: Layout) -> str | None:
    """The id of the last run, finished or not. None where there was none."""
    known = [*interrupted_runs(layout), *(files.name(path).removesuffix(".json") for path in layout.accounts())]
    return max(known, default=None)

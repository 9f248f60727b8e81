"""The account of a run: what happened to every row, and what it cost."""

from __future__ import annotations

import time
from typing import Any

from transforms import files
from transforms.layout import Layout
from transforms.llm.notes import MAYBE_BILLED
from transforms.records import utc
from transforms.stop import BROKEN, INTERRUPTED
from transforms.tally import Tally

COMPLETE, STOPPED, FAILED = "complete", "stopped", "failed"
# The stop reasons of runs that were asked for so many rows and did them.
LIMIT, PILOT = "limit", "pilot"
AS_ASKED = (LIMIT, PILOT)


def make_account(header: dict[str, Any], tally: Tally, stop: dict[str, str] | None) -> dict[str, Any]:
    """The account as it is written: `header` says which run it is, `tally` what its steps counted, `stop` why it
    ended early, if it did. total = skipped + recovered + ok + failed + unprocessed. Unknown amounts are null: where
    only some are unknown, the sum is of those that are known and the rest is counted. `price`, in US dollars per
    million tokens, is what costs are reckoned by."""
    status, stop_reason = COMPLETE, None
    if tally.get("unreadable"):
        status, stop_reason = FAILED, f"unreadable input: {'; '.join(tally['unreadable'])}"
    elif tally.get("unprocessed"):
        status, stop_reason = STOPPED, PILOT if header.get("pilot") else LIMIT
    if status == STOPPED and stop is not None:
        stop_reason = INTERRUPTED if stop["kind"] == INTERRUPTED else f"{stop['kind']}: {stop['message']}"
        status = FAILED if stop["kind"] in BROKEN else STOPPED
    counts = {
        key: tally.get(key, 0) for key in ("total", "skipped", "recovered", "ok", "failed", "unprocessed", "calls")
    }
    notes = dict(sorted(tally.get("notes", {}).items()))
    return {
        "run_id": header["run_id"],
        "status": status,
        "stop_reason": stop_reason,
        **counts,
        **{key: _known(tally, key) for key in ("prompt_tokens", "completion_tokens", "cost_usd")},
        "cost_unknown_rows": tally.get("cost_usd_unknown", 0),
        "maybe_billed_attempts": notes.pop(MAYBE_BILLED, 0),
        "price": header.get("price"),
        "failures_by_reason": dict(sorted(tally.get("failures_by_reason", {}).items())),
        "notes": notes,
        "started_at": header["started_at"],
        "finished_at": utc(time.time()),
        "config": header["config"],
        "task_hash": header["task_hash"],
        "task": header["task"],
        "carried": header.get("carried", {}),
        "command": header.get("command"),
    }


def spent_usd(layout: Layout) -> float:
    """US dollars that all runs into an output directory have cost, by their accounts, as far as it is known."""
    accounts = (files.read_json(path) for path in layout.accounts())
    return float(sum(account.get("cost_usd") or 0.0 for account in accounts))


def _known(tally: Tally, key: str) -> Any:
    unknown = tally.get(f"{key}_unknown", 0)
    amount = tally.get(key) if unknown else tally.get(key, 0)
    return round(amount, 9) if isinstance(amount, float) else amount  # a sum of many, with the noise of fractions

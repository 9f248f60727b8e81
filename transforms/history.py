"""All runs into an output directory, by their accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from transforms import files
from transforms.layout import Layout

Account = Mapping[str, Any]


class Amount(NamedTuple):
    """A sum of what is known, None where nothing is, and whether there is more that is not known."""

    known: float | None
    partial: bool


def read_accounts(layout: Layout) -> list[Account]:
    """The accounts, oldest run first. Raises OSError, or ValueError, naming the file, for one that is none."""
    found: list[Account] = []
    for path in layout.accounts():
        try:
            account = files.read_json(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if not isinstance(account, dict) or "run_id" not in account:
            raise ValueError(f"{path}: not the account of a run")
        found.append(account)
    return found


def amount(accounts: Sequence[Account], key: str) -> Amount:
    """The sum of an amount that may be unknown, e.g. `cost_usd`. A run without calls spent nothing."""
    values = [account.get(key) for account in accounts if account.get("calls") or account.get(key) is not None]
    known = [value for value in values if value is not None]
    partial = len(known) < len(values) or (key == "cost_usd" and count(accounts, "cost_unknown_rows") > 0)
    return Amount(float(sum(known)) if known or not values else None, partial)


def count(accounts: Sequence[Account], key: str) -> int:
    """The sum of a count over all runs, e.g. `calls`."""
    return sum(int(account.get(key) or 0) for account in accounts)


def notes(accounts: Sequence[Account]) -> dict[str, int]:
    """What runs noted beside their rows, each note with how often, the most frequent first."""
    sums: Counter[str] = Counter()
    for account in accounts:
        sums.update(account.get("notes") or {})
    return dict(sums.most_common())


def seconds(account: Account) -> float | None:
    """How long a run took. None where its times cannot be read or the clock was set back in between."""
    try:
        begun, ended = (datetime.fromisoformat(account[key].replace("Z", "+00:00")) for key in _TIMES)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    took = (ended - begun).total_seconds()
    return took if took >= 0 else None


_TIMES = ("started_at", "finished_at")

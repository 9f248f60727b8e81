"""The page: what the template is given, and the template."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from pipelines.report import figures, matrix
from pipelines.report.distributions import label_bars, latency_chart, number_chart, percentiles
from pipelines.report.quoted import BRIEF_CHARS, LABEL_CHARS, MESSAGE_CHARS, shown
from pipelines.report.reasons import reasons
from pipelines.report.timelines import cost_chart, rows_chart, spans
from transforms import history
from transforms.frequencies import Frequencies
from transforms.history import Account, Amount
from transforms.llm.secrets import masked
from transforms.statistics import Statistics

_SHOWN_RUNS = 50


class Contents(NamedTuple):
    """All that a page shows. `unfinished` are runs whose rows are not published: under way, or cut short."""

    root: str
    accounts: Sequence[Account]
    unfinished: Sequence[str]
    statistics: Statistics


def render(contents: Contents) -> str:
    """The page as HTML: whole in itself, without scripts, and nothing in it is loaded from anywhere."""
    environment = Environment(
        loader=PackageLoader("pipelines.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=figures.number,
        dollars=figures.dollars,
        percent=figures.percent,
        ms=figures.milliseconds,
        duration=figures.duration,
        moment=figures.moment,
        brief=lambda text: shown(text, BRIEF_CHARS),
        label=lambda text: shown(text, LABEL_CHARS),
    )
    return environment.get_template("report.html").render(_values(contents))


def _values(contents: Contents) -> dict[str, Any]:
    accounts, statistics = contents.accounts, contents.statistics
    last: Account = accounts[-1] if accounts else {}
    config = last.get("config") or {}
    task, model = config.get("task") or {}, config.get("model") or {}
    rows = statistics.ok + statistics.failed
    return {
        "root": masked(contents.root),
        "task_name": task.get("name") or "unknown task",
        "model": shown(model.get("name") or model.get("provider") or figures.UNKNOWN, LABEL_CHARS),
        "models": [(shown(name, LABEL_CHARS), count) for name, count in statistics.models.top(5)],
        "last": last,
        "reason": shown(last.get("stop_reason") or "", MESSAGE_CHARS),
        "unfinished": contents.unfinished,
        "ok": statistics.ok,
        "failed": statistics.failed,
        "left": int(last["unprocessed"]) if last else None,
        "success": statistics.ok / rows if rows else None,
        "cost": _amount(history.amount(accounts, "cost_usd"), figures.dollars),
        "prompt_tokens": _amount(history.amount(accounts, "prompt_tokens"), figures.number),
        "completion_tokens": _amount(history.amount(accounts, "completion_tokens"), figures.number),
        "tokens_together": _amount(_tokens(accounts), figures.brief),
        "calls": history.count(accounts, "calls"),
        "took": history.seconds(last),
        "took_all": sum(history.seconds(account) or 0.0 for account in accounts),
        "maybe_billed": history.count(accounts, "maybe_billed_attempts"),
        "cost_unknown": history.count(accounts, "cost_unknown_rows"),
        "again": statistics.attempts.count - _once(statistics),
        "most_attempts": statistics.attempts.largest if statistics.attempts.count else None,
        "notes": history.notes(accounts),
        "runs": [{**account, "took": history.seconds(account)} for account in accounts[: -_SHOWN_RUNS - 1 : -1]],
        "all_runs": len(accounts),
        "reasons": reasons(statistics, (config.get("input") or {}).get("text") or "text"),
        "config": _yaml(config),
        "price": _yaml(last.get("price")) if last.get("price") else "",
        "fingerprint": _yaml(last.get("task")) if last.get("task") else "",
        "task_hash": last.get("task_hash"),
        **_charts(statistics, accounts),
        **_answers(statistics),
        "quality": matrix.quality(statistics) if statistics.confusion.rows else None,
    }


def _charts(statistics: Statistics, accounts: Sequence[Account]) -> dict[str, Any]:
    began = {account["run_id"]: at for account in accounts if (at := _began(account)) is not None}
    runs = spans(statistics, began, 1 + max(0, len(accounts) - len(statistics.timelines)))
    tokens = []
    for name, bins in (("Prompt tokens", statistics.prompt), ("Completion tokens", statistics.completion)):
        if bins.count:
            chart, beyond = number_chart(name, "tokens a row", bins)
            tokens.append({"name": name, "chart": chart, "beyond": beyond, "largest": bins.largest, "bins": bins})
    spent = statistics.cost_usd > 0 or not statistics.cost_unknown
    return {
        "rows_chart": rows_chart(statistics, runs) if runs else None,
        "cost_chart": cost_chart(statistics, runs) if runs and spent else None,
        "rows_usd": statistics.cost_usd,
        "latency_chart": latency_chart(statistics.latency) if statistics.latency.count else None,
        "percentiles": percentiles(statistics.latency),
        "tokens": tokens,
    }


def _answers(statistics: Statistics) -> dict[str, Any]:
    labels, numbers, texts = [], [], []
    for name, values in statistics.answers.items():
        column = shown(name, LABEL_CHARS)
        if isinstance(values, Frequencies):
            if values.free_text:
                texts.append(column)
            elif values.total + values.nulls:
                labels.append({"name": column, "bars": label_bars(values)})
        elif values.count:
            chart, beyond = number_chart(column, column, values)
            numbers.append({"name": column, "chart": chart, "beyond": beyond, "largest": values.largest})
    return {"labels": labels, "numbers": numbers, "texts": texts}


def _amount(amount: Amount, format: Any) -> str:
    if amount.known is None:
        return figures.UNKNOWN
    return f"≥ {format(amount.known)}" if amount.partial else str(format(amount.known))


def _tokens(accounts: Sequence[Account]) -> Amount:
    parts = [history.amount(accounts, key) for key in ("prompt_tokens", "completion_tokens")]
    known = [part.known for part in parts if part.known is not None]
    return Amount(sum(known) if known else None, any(part.partial or part.known is None for part in parts))


def _once(statistics: Statistics) -> int:
    attempts = statistics.attempts
    return int(attempts.counts[attempts.starts <= 1].sum())


def _began(account: Account) -> float | None:
    try:
        return datetime.fromisoformat(account["started_at"].replace("Z", "+00:00")).timestamp() * 1000
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _yaml(value: Any) -> str:
    return shown(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100), 50_000) if value else ""

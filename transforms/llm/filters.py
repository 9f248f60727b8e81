"""What a provider's content filter reports, as Azure OpenAI does (learn.microsoft.com, content filtering)."""

from __future__ import annotations

from typing import Any


def categories(results: Any, form: str = "{}") -> str:
    """The categories that were filtered, put into `form`, e.g. "violence/medium, jailbreak/detected"; empty where
    `results` name none."""
    found = [
        f"{category}/{result.get('severity', 'detected')}"
        for category, result in (results.items() if isinstance(results, dict) else ())
        if isinstance(result, dict) and result.get("filtered")
    ]
    return form.format(", ".join(found)) if found else ""

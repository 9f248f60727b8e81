"""Images by URL, as each protocol wants them.

Sources: platform.openai.com/docs/guides/images-vision, docs.claude.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

import re
from typing import Any

_DATA = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})")
_URL = re.compile(r"https?://[^\s/]\S*")
_SHOWN = 60  # characters of a wrong value


def image_urls(value: Any, column: str) -> list[str]:
    """The URLs in a column's value: one, a list of them, or none where it is null or empty. Raises ValueError for
    what is no http(s) URL and no base64 data URL of an image."""
    urls = value if isinstance(value, list) else [] if value is None or value == "" else [value]
    for url in urls:
        if not isinstance(url, str) or not (_URL.fullmatch(url) or _DATA.fullmatch(url)):
            raise ValueError(f"column {column!r} holds {str(url)[:_SHOWN]!r}, which is no URL of an image")
    return urls


def image_part(url: str, provider: str) -> dict[str, Any]:
    """The part of a message that shows the image."""
    if provider != "anthropic":
        return {"type": "image_url", "image_url": {"url": url}}
    data = _DATA.fullmatch(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, content = data.groups()
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": content}}

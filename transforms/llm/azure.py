"""Azure OpenAI: OpenAI's chat completions behind another URL and another header.

Source: learn.microsoft.com/azure/ai-services/openai/reference. What is special in its errors and its content
filter is read where OpenAI's are (openai_errors.py, openai_reply.py): compatible gateways send them as well.
"""

from __future__ import annotations

from urllib.parse import quote

from transforms.llm.openai import OpenAIClient
from transforms.settings import Model


class AzureClient(OpenAIClient):
    """A client of one deployment, which is model.name, of the resource at `base_url`, e.g.
    https://NAME.openai.azure.com."""

    def _url(self, base_url: str, model: Model) -> str:
        root = base_url.rstrip("/").removesuffix("/openai")
        deployment = quote(model.name or "", safe="")
        version = quote(model.api_version, safe="")
        return f"{root}/openai/deployments/{deployment}/chat/completions?api-version={version}"

    def _key_header(self, api_key: str) -> dict[str, str]:
        return {"api-key": api_key}

"""HTTP to one URL: what every provider's client does to send a body and get one back.

One `post` is one HTTP request; whether it is repeated, and when, is decided in retries.py alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from transforms.llm.errors import TransientError
from transforms.llm.secrets import MASK, hide, masked
from transforms.llm.text import excerpt
from transforms.llm.transport_errors import transport_error
from transforms.settings import Limits

_SECRET_HEADER = re.compile("key|token|secret|auth|cookie|credential|password", re.IGNORECASE)
_TEXT_BYTES = 20_000  # of a body that is not JSON, which messages quote the beginning of


class Response(NamedTuple):
    """A response, whole. `headers` have names in lower case. `body` is the content as JSON; None if it is not JSON,
    or null, which says as little; `text` is then its beginning."""

    status: int
    headers: dict[str, str]
    body: Any
    text: str

    def unreadable(self) -> str:
        """A message for a body that is no JSON of ours: status, content type and how it begins."""
        kind = self.headers.get("content-type", "no content type")
        return f"HTTP {self.status} {kind}: {excerpt(self.text, 200) or 'empty body'}"

    def ok(self) -> bool:
        """Whether this is an answer to look into: False is an error. Raises TransientError (bad_response) for a
        success without JSON in it, as a proxy's page is."""
        if self.status == 200 and self.body is not None:
            return True
        if 200 <= self.status < 300:
            raise TransientError("bad_response", self.unreadable(), http_status=self.status)
        return False


class Transport:
    """The connections to one URL, shared by all threads of a process.

    All that is the same for every request is prepared here, once: headers, proxies, certificates. `pool_size` is
    how many connections stay open; more than that work, but are not kept. `use_environment=False` leaves the
    environment's proxies aside, for a server of our own. Raises ValueError, naming the setting, for a URL or
    headers that cannot be sent.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], limits: Limits, *, pool_size: int, use_environment: bool = True
    ) -> None:
        for name, value in headers.items():
            if _SECRET_HEADER.search(name):
                hide(value)
        standard = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": _user_agent()}
        prepared = _prepared(url, {**standard, **headers})
        self._url = str(prepared.url)
        self._headers = dict(prepared.headers)
        self._timeout = (limits.connect_timeout_seconds, limits.timeout_seconds)
        with requests.Session() as session:
            session.trust_env = use_environment
            # Read once: Session.request would look through the environment again for every call.
            found = session.merge_environment_settings(self._url, {}, False, None, None)
            self._settings: dict[str, Any] = dict(found)
        # The adapter itself, not the session: no redirects to follow, no jar of cookies that threads share.
        self._adapter = _OneUrl(pool_maxsize=pool_size, pool_block=False, max_retries=0)

    def request(self, body: bytes) -> requests.PreparedRequest:
        """The request that carries `body`, ready to be sent."""
        request = requests.PreparedRequest()
        request.method, request.url, request.body = "POST", self._url, body
        # A plain dict: nothing looks names up here, and CaseInsensitiveDict is slow to copy.
        request.headers = {**self._headers, "Content-Length": str(len(body))}  # type: ignore[assignment]
        return request

    def post(self, body: bytes) -> Response:
        """Make one request. Raises CallError where no whole response comes."""
        try:
            response = self._adapter.send(self.request(body), timeout=self._timeout, **self._settings)
            content = response.content
        except (OSError, HTTPError) as error:  # requests' are OSErrors; some of urllib3's pass it
            raise transport_error(error) from error
        parsed = _parsed(content)
        text = "" if parsed is not None else content[:_TEXT_BYTES].decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status_code, headers, parsed, text)

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()


class _OneUrl(HTTPAdapter):
    """An adapter for requests that differ in their bodies alone: what requests finds out for every one of them (the
    pool, whether its certificates are there, the path to ask for) is found out with the first. It was a fifth of the
    CPU time of a call."""

    _found: tuple[Any, str] | None = None

    def get_connection_with_tls_context(self, request: Any, verify: Any, proxies: Any = None, cert: Any = None) -> Any:
        if self._found is None:  # threads that come at once find the same
            pool = super().get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
            super().cert_verify(pool, request.url, verify, cert)  # type: ignore[no-untyped-call]
            self._found = pool, super().request_url(request, proxies)
        return self._found[0]

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        pass

    def request_url(self, request: Any, proxies: Any) -> str:
        assert self._found is not None
        return self._found[1]


def shown_header(name: str, value: str) -> str:
    """The value of a header as it may be shown: without what is secret in it."""
    scheme, space, _secret = value.partition(" ")
    if space and name.lower() == "authorization":
        return f"{scheme} {MASK}"
    shown = masked(value)
    return MASK if shown == value and _SECRET_HEADER.search(name) else shown


def _prepared(url: str, headers: Mapping[str, str]) -> requests.PreparedRequest:
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"model.base_url: {masked(url)!r} begins with neither http:// nor https://")
    try:
        parts = urlsplit(url)
        for secret in (parts.username, parts.password):  # either may hold one, and requests sends them
            hide(unquote(secret) if secret else None)
        # Prepared without a session, which would put a password from ~/.netrc in the place of the key.
        return requests.Request("POST", url, headers=dict(headers), data=b"{}").prepare()
    except requests.exceptions.InvalidHeader:
        # Not its own message, which quotes the value.
        raise ValueError("model.headers: a name or value that HTTP does not allow") from None
    except (requests.RequestException, ValueError) as error:
        raise ValueError(f"model.base_url: {masked(str(error))}") from None


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # a UnicodeDecodeError is a ValueError
        return None


def _user_agent() -> str:
    try:
        return f"paidonce/{metadata.version('paidonce')}"
    except metadata.PackageNotFoundError:  # run from a checkout
        return "paidonce/0"

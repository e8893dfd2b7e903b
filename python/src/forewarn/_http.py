"""JSON over HTTP to the management API."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Mapping, Optional

# Longer than any wait of the server.
REQUEST_TIMEOUT_SECS = 90.0


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, method: str, path: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class Http:
    def __init__(self, url: str, token: Optional[str], ca_file: Optional[str]) -> None:
        self.url = url.rstrip("/")
        self._token = token
        if token and not is_private(self.url):
            raise ValueError(f"a token cannot be sent to {self.url} without encryption; use https")
        context = ssl.create_default_context(cafile=ca_file)
        # The server is local or in the same network; proxies of the environment are for other destinations.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def call(
        self, method: str, path: str, body: Optional[Any] = None, query: Optional[Mapping[str, Any]] = None
    ) -> Any:
        url = f"{self.url}/api/v1{path}"
        pairs = {name: value for name, value in (query or {}).items() if value is not None}
        if pairs:
            url += "?" + urllib.parse.urlencode(pairs)
        headers: Dict[str, str] = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=REQUEST_TIMEOUT_SECS) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise read_error(method, path, refusal.code, refusal.read()) from None


def read_error(method: str, path: str, status: int, body: bytes) -> ApiError:
    try:
        error = json.loads(body)["error"]
        return ApiError(method, path, status, error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        return ApiError(method, path, status, "", body.decode(errors="replace"))


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return urllib.parse.quote(name, safe="")


def is_private(url: str) -> bool:
    """Whether requests to this URL cannot be read on the network: https, or http on this computer."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host in ("localhost", "::1") or host.startswith("127.")

"""JSON over HTTP to the management API."""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Mapping, Optional

# Longer than any wait of the server.
REQUEST_TIMEOUT_SECS = 90.0

# A server that takes longer to accept a connection is passed over.
CONNECT_TIMEOUT_SECS = 5.0


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, method: str, path: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class Http:
    """One server, or several servers of a cluster, whose addresses are separated by commas."""

    def __init__(self, url: str, token: Optional[str], ca_file: Optional[str]) -> None:
        self._urls: List[str] = [one.strip().rstrip("/") for one in url.split(",")]
        self._token = token
        for one in self._urls:
            if token and not is_private(one):
                raise ValueError(f"a token cannot be sent to {one} without encryption; use https")
        context = ssl.create_default_context(cafile=ca_file)
        # The server is local or in the same network; proxies of the environment are for other destinations.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    @property
    def url(self) -> str:
        """The server in use."""
        return self._urls[0]

    def _choose_server(self) -> None:
        """Use the next server that accepts a connection. Without one, the request to the present server fails.

        Servers are tried before a request, not with it, because a request that fails may have been carried out.
        """
        for _ in self._urls:
            if accepts_connections(self.url):
                return
            self._urls.append(self._urls.pop(0))

    def call(
        self, method: str, path: str, body: Optional[Any] = None, query: Optional[Mapping[str, Any]] = None
    ) -> Any:
        if len(self._urls) > 1:
            self._choose_server()
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


def accepts_connections(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), CONNECT_TIMEOUT_SECS).close()
    except OSError:
        return False
    return True


def is_private(url: str) -> bool:
    """Whether requests to this URL cannot be read on the network: https, or http on this computer."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host == "localhost" or is_loopback(host)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # A name, such as 127.example.com.

"""Protects a local server from other web pages: checks ``Host`` and ``Origin``, and adds security headers to every answer.

A foreign page can point its own domain name at this machine (DNS rebinding) and read what a server on localhost answers.
Its requests carry that name in ``Host``, so only known names are served. Without CORS a browser hides answers from other
pages; requests that they send anyway carry their ``Origin`` and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.server.requests import Refusal

LOCAL = ("localhost", "127.0.0.1", "[::1]")
ADDRESSES = "*"  # every numeric address: no DNS name is involved
HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.IGNORECASE)
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class HostGuard:
    """ASGI middleware; ``hosts`` are the accepted names of the server."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = LOCAL) -> None:
        self.app, self.hosts = app, frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self.refusal(Headers(scope=scope))
        if refused is None:
            await self.app(scope, receive, with_headers)
        else:
            await refused.response()(scope, receive, with_headers)

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why this request is refused, or None."""
        host = headers.get("host", "")
        if not self.knows(host):
            names = ", ".join(sorted(self.hosts - {ADDRESSES}))
            return Refusal(403, f"Host: expected a name of this server ({names}), found another", "Host")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return Refusal(403, "Origin: expected this server's own page, found another", "Origin")
        return None

    def knows(self, host: str) -> bool:
        """Whether a request's ``Host`` is one of the server's names.

        >>> guard = HostGuard(lambda *_: None)
        >>> guard.knows("127.0.0.1:8100"), guard.knows("evil.example")
        (True, False)
        """
        match = HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].lower()
        return name in self.hosts or (ADDRESSES in self.hosts and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def names_of(host: str) -> tuple[str, ...]:
    """The accepted names of a server that listens at ``host``.

    >>> names_of("127.0.0.1"), names_of("0.0.0.0")
    (('localhost', '127.0.0.1', '[::1]'), ('localhost', '127.0.0.1', '[::1]', '*'))
    """
    if _is_address(host) and ip_address(host).is_unspecified:
        return (*LOCAL, ADDRESSES)
    written = f"[{host}]" if ":" in host else host
    return LOCAL if written in LOCAL else (*LOCAL, written)

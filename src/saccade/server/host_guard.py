"""Who may come in: requests by the server's own names, from its own page; and what every answer tells a browser.

A page elsewhere can point a name of its own at this machine (DNS rebinding) and so read what a server on localhost says.
Its requests carry that name in ``Host``: only names that are known are served. Without CORS a browser shows answers to no
other page, and a request that such a page sends all the same carries its ``Origin``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.server.requests import Refusal

LOCAL = ("localhost", "127.0.0.1", "[::1]")
ADDRESSES = "*"  # every numeric address: what is asked for by its number was not asked for by another's name
HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.IGNORECASE)
TOLD = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class HostGuard:
    """Stands before the app; ``hosts`` are the names that the server goes by."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = LOCAL) -> None:
        self.app, self.hosts = app, frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(TOLD)
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self.refusal(Headers(scope=scope))
        if refused is None:
            await self.app(scope, receive, tell)
        else:
            await refused.response()(scope, receive, tell)

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why this request is not let in; None where it is."""
        host = headers.get("host", "")
        if not self.knows(host):
            names = ", ".join(sorted(self.hosts - {ADDRESSES}))
            return Refusal(403, f"Host: expected a name of this server ({names}), found another", "Host")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return Refusal(403, "Origin: expected this server's own page, found another", "Origin")
        return None

    def knows(self, host: str) -> bool:
        """Whether ``host``, as a request names it, is one of the server's names.

        >>> Door(lambda *_: None).knows("127.0.0.1:8100"), Door(lambda *_: None).knows("evil.example")
        (True, False)
        """
        found = HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower()
        return name in self.hosts or (ADDRESSES in self.hosts and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def names_of(host: str) -> tuple[str, ...]:
    """The names that a server which listens at ``host`` goes by.

    >>> names_of("127.0.0.1"), names_of("0.0.0.0")
    (('localhost', '127.0.0.1', '[::1]'), ('localhost', '127.0.0.1', '[::1]', '*'))
    """
    if _is_address(host) and ip_address(host).is_unspecified:
        return (*LOCAL, ADDRESSES)
    written = f"[{host}]" if ":" in host else host
    return LOCAL if written in LOCAL else (*LOCAL, written)

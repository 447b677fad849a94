"""Bounds connections: how many are open, how long they may be silent, and what they may write to the log.

uvicorn waits without end for a client that connects and sends nothing, sends a request's head slowly, or does not take the
answer. Each such client holds a file descriptor, and when these run out nobody is accepted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from saccade.server.requests import Limits, Refusal

RESERVED = 64  # file descriptors for what is not a connection
CHECKS = 4  # of a connection per ``limits.silence``


class BoundedConnection(H11Protocol):
    """A connection that is closed when it is silent for ``limits.silence`` seconds, or when too many others are open."""

    limits: Limits
    since: float  # when it began to be silent
    unsent = 0  # bytes of the answer that the client had not taken at the last check
    _check: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether the client is expected to send: the head of a request, or the rest of one that is already answered."""
        state = self.conn.their_state
        return state is h11.IDLE or (state is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    @property
    def waits_for_client(self) -> bool:
        """Whether the client must send the rest of a request; if not, the server is at work for it."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        if len(self.connections) > most_connections(self.limits):
            others = [other for other in self.connections if isinstance(other, BoundedConnection)]
            others = [other for other in others if other.waits_for_client]
            min(others, key=lambda other: other.since).abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        idle = self.idle
        super().data_received(data)
        if not (idle and self.idle):  # parts of a head do not count: it must be complete in time
            self.since = self.loop.time()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def abort(self) -> None:
        """Close without waiting for the client."""
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Close a silent connection, or look again later."""
        now, unsent = self.loop.time(), self.transport.get_write_buffer_size()
        if unsent < self.unsent:
            self.since = now
        self.unsent = unsent
        if (self.idle or unsent) and now - self.since > self.limits.silence:
            self.abort()
        else:
            self._check = self.loop.call_later(self.limits.silence / CHECKS, self._watch)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the JSON of every other error."""
        refusal = Refusal(400, "request: expected HTTP, found something else").response()
        headers = [*refusal.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=bytes(refusal.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def connections_of(limits: Limits) -> type[BoundedConnection]:
    """The class of a server's connections, for uvicorn, which makes them itself."""
    return type("Connection", (BoundedConnection,), {"limits": limits})


def most_connections(limits: Limits) -> int:
    """As many as the limits allow, and no more than there are file descriptors for."""
    try:
        import resource
    except ImportError:  # not on Windows
        return limits.connections
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limits.connections if files == resource.RLIM_INFINITY else max(1, min(limits.connections, files - RESERVED))


class BoundedLog(logging.Filter):
    """Lets at most ``most`` messages per minute pass, so that clients cannot fill a disk; then says how many it left out."""

    def __init__(self, most: int = 60) -> None:
        super().__init__()
        self.most, self.left_out, self._minute, self._count = most, 0, -1, 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            if self.left_out:
                record.msg, record.args = f"({self.left_out} messages were left out) {record.getMessage()}", ()
            self._minute, self._count, self.left_out = minute, 0, 0
        self._count += 1
        self.left_out += self._count > self.most
        return self._count <= self.most


def bound_logs(*names: str) -> None:
    """Bound the messages of these loggers, together."""
    bound: Any = BoundedLog()
    for name in names:
        log = logging.getLogger(name)
        if not any(isinstance(each, BoundedLog) for each in log.filters):
            log.addFilter(bound)

"""Runs the server: binds the socket, serves with uvicorn, and shuts down gracefully on Ctrl-C or SIGTERM.

On shutdown, in-flight requests get ``GRACE`` seconds, then 503.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.errors import SaccadeError
from saccade.server.app import create_app
from saccade.server.connections import bound_logs, connections_of
from saccade.server.host_guard import names_of
from saccade.server.requests import Limits, Refusal

if TYPE_CHECKING:
    from saccade.api import Bundle


HOST, PORT = "127.0.0.1", 8100
GRACE = 0.6  # seconds for in-flight requests at shutdown; the whole shutdown takes less than one
BACKSTOP = 3  # seconds after which uvicorn closes remaining connections


def run(
    bundles: Mapping[str, Bundle],
    host: str = HOST,
    port: int = PORT,
    open_page: bool = False,
    *,
    page: bool = True,
    inputs: Sequence[str] = (),
    limits: Limits | None = None,
) -> None:
    """Serve these models until Ctrl-C or SIGTERM.

    The server stops within a second; in-flight requests are answered if they finish in time. If a prediction is still
    running then, the process exits, and this call does not return.

    Args:
        bundles: the models by the names used in requests.
        host: the address to listen at; other machines are served only if it is not a local one.
        port: 0 picks a free one; the address is printed.
        open_page: open the page in a browser.
        page, inputs, limits: as :func:`saccade.server.create_app` takes them.
    """
    app = create_app(bundles, page=page, inputs=inputs, limits=limits, hosts=names_of(host))
    if page:
        _check_page()
    with _bound(host, port) as listening:
        address = _address(host, listening.getsockname()[1])
        print(f"{', '.join(bundles)}: {address} (Ctrl-C stops)", flush=True)
        if open_page and page:
            # A text browser would block this thread.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        _serve(app, listening, limits or Limits())
    print("stopped", flush=True)
    if app.state.busy():
        # A running prediction cannot be stopped, and PyTorch must not be unloaded under it.
        sys.stderr.flush()
        os._exit(0)


def _check_page() -> None:
    """Fail now if the explorer is not built, not when the page is opened."""
    from saccade.views.html.page import asset, chunks

    for name in chunks({"traces": [], "live": {}}):
        asset(f"{name}.js"), asset(f"{name}.css")


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    where = _address(host, port).removeprefix("http://").rstrip("/")
    if not 0 <= port <= 65535:
        raise SaccadeError(f"port: expected 0 to 65535, found {port}")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=128)
    except (socket.gaierror, UnicodeError):  # UnicodeError: a name that is invalid in an address
        raise SaccadeError(f"host: expected an address of this machine, found {host!r}") from None
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: "the port is in use (choose another one, or 0 for a free one)",
            errno.EACCES: "permission denied (ports below 1024 belong to the system: choose a higher one)",
            errno.EADDRNOTAVAIL: "this machine has no such address",
        }
        reason = reasons.get(error.errno or 0, error.strerror or "the system refused")
        raise SaccadeError(f"cannot listen at {where}: {reason}") from None
    with listening:
        yield listening


def _address(host: str, port: int) -> str:
    """The URL for a browser on this machine; a server that listens everywhere is reached at the loopback address."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, shutdown: Shutdown) -> None:
        super().__init__(config)
        self.graceful = shutdown

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.graceful.begin()


def _serve(app: FastAPI, listening: socket.socket, limits: Limits) -> None:
    log = logging.getLogger("saccade.server")
    if not log.handlers:
        log.addHandler(logging.StreamHandler())
    shutdown = Shutdown(app, GRACE)
    config = uvicorn.Config(
        shutdown, http=connections_of(limits), log_level="warning", access_log=False, server_header=False, ws="none",
        lifespan="on", timeout_keep_alive=5, timeout_graceful_shutdown=BACKSTOP,
    )  # fmt: skip
    bound_logs(log.name, "uvicorn.error", "asyncio")
    with _stoppable():
        _Server(config, shutdown).run(sockets=[listening])


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM both end the block quietly: uvicorn raises the signal again after it has shut down."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


class Shutdown:
    """Graceful shutdown around an app: in-flight requests get ``grace`` seconds, then 503."""

    def __init__(self, app: ASGIApp, grace: float) -> None:
        self.app, self.grace = app, grace
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Start the shutdown. Safe in a signal handler: it only schedules a callback on the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.call_later, self.grace, self._over.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def forward(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        answering = asyncio.ensure_future(self.app(scope, receive, forward))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait([answering, over], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            await _cancelled(answering)
            if not started:
                await Refusal(503, "the server is stopping").response()(scope, receive, send)
        finally:
            over.cancel()
            answering.cancel()


async def _cancelled(task: asyncio.Future[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

"""Running the server: a socket that is bound before anything is promised, uvicorn on it, a quick and quiet end on Ctrl-C or
SIGTERM."""

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
from saccade.server.host_guard import names_of
from saccade.server.requests import Limits, Refusal

if TYPE_CHECKING:
    from saccade.api import Bundle


HOST, PORT = "127.0.0.1", 8100
GRACE = 0.6  # seconds that answers under way are given when the server is asked to stop; with all else, below one
BACKSTOP = 3  # seconds after which uvicorn ends connections that go on nevertheless


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

    Answers that are nearly there are still given; after a second the server has stopped. A prediction that is at work even
    then ends with the process, which this call does not outlive in that case.

    Args:
        bundles: the models by the names that requests call them.
        host: where to listen; others than this machine are served only where it is not its own address.
        port: 0 takes a free one; the address is printed.
        open_page: show the page in a browser.
        page, inputs, limits: as :func:`saccade.server.create_app` takes them.
    """
    app = create_app(bundles, page=page, inputs=inputs, limits=limits, hosts=names_of(host))
    if page:
        _check_page()
    with _bound(host, port) as listening:
        address = _address(host, listening.getsockname()[1])
        print(f"{', '.join(bundles)}: {address} (Ctrl-C stops)", flush=True)
        if open_page and page:
            # A text browser would hold on to this thread.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        _serve(app, listening)
    print("stopped", flush=True)
    if app.state.busy():
        # Nothing takes back a prediction that has begun, and PyTorch must not be unloaded under it.
        sys.stderr.flush()
        os._exit(0)


def _check_page() -> None:
    """That the explorer is built is better known now than in a browser."""
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
    except (socket.gaierror, UnicodeError):  # a name that cannot be written in an address is none either
        raise SaccadeError(f"host: expected an address of this machine, found {host!r}") from None
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: "it is taken (choose another port, or 0 for a free one)",
            errno.EACCES: "this user may not (ports below 1024 belong to the system: choose a higher one)",
            errno.EADDRNOTAVAIL: "this machine has no such address",
        }
        reason = reasons.get(error.errno or 0, error.strerror or "the system refused")
        raise SaccadeError(f"cannot listen at {where}: {reason}") from None
    with listening:
        yield listening


def _address(host: str, port: int) -> str:
    """Where to point a browser: a server that listens everywhere is reached on this machine too."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ending: Shutdown) -> None:
        super().__init__(config)
        self.ending = ending

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.ending.begin()


def _serve(app: FastAPI, listening: socket.socket) -> None:
    log = logging.getLogger("saccade.server")
    if not log.handlers:
        log.addHandler(logging.StreamHandler())
    ending = Shutdown(app, GRACE)
    config = uvicorn.Config(
        ending, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="on",
        timeout_keep_alive=5, timeout_graceful_shutdown=BACKSTOP,
    )  # fmt: skip
    with _stoppable():
        _Server(config, ending).run(sockets=[listening])


@contextmanager
def _stoppable() -> Iterator[None]:
    """Both signals end the block in the same quiet way: uvicorn finishes, and then raises what it caught once more."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


# ----------------------------------------------------------------------------------------------------
# The end of a server: whoever is being answered gets a moment more, and then it is over, whatever is still at work.


class Shutdown:
    """Stands around an app. Once the end has begun, requests under way have ``grace`` seconds; those that are not answered
    by then are told that the server stops."""

    def __init__(self, app: ASGIApp, grace: float) -> None:
        self.app, self.grace = app, grace
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """The end has begun. A signal's handler may call it: it does nothing itself, and wakes the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.call_later, self.grace, self._over.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def tell(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        answering = asyncio.ensure_future(self.app(scope, receive, tell))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait([answering, over], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            await _given_up(answering)
            if not begun:
                await Refusal(503, "the server is stopping").response()(scope, receive, send)
        finally:
            over.cancel()
            answering.cancel()


async def _given_up(task: asyncio.Future[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

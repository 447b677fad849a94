"""The end of a server: whoever is being answered gets a moment more, and then it is over, whatever is still at work."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.server.refusal import Refusal


class Ending:
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

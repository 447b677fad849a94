"""One prediction at a time for each model, in a thread of its own: meanwhile the server goes on answering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TypeVar

from saccade.errors import SaccadeError
from saccade.parts import blame
from saccade.server.limits import Limits
from saccade.server.refusal import Refusal

T = TypeVar("T")
log = logging.getLogger("saccade.server")


class Worker:
    """Does what it is given in turn. Whoever waits too long is told so, and what was not begun is never begun."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.limits = limits
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"saccade-{name}")
        self._places = BoundedSemaphore(limits.waiting + 1)  # one is at work

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, within the deadline."""
        if not self._places.acquire(blocking=False):
            raise Refusal(503, f"{self.limits.waiting} requests wait for this model already: try again in a moment")
        try:
            future = self._thread.submit(work)
        except RuntimeError:
            self._places.release()
            raise Refusal(503, "the server is stopping") from None
        # A place is free when the work is over, which a deadline does not bring about.
        future.add_done_callback(lambda _: self._places.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.seconds)
        except TimeoutError:
            seconds = f"{self.limits.seconds:g}"
            hint = "ask for shorter or fewer inputs, or a narrower beam"
            raise Refusal(504, f"no answer within {seconds} seconds ({hint})") from None
        except (Refusal, SaccadeError):
            raise
        except Exception as error:
            own = blame(error)  # a user's own part failed: its file and line
            log.error("a request failed: %s", own or error, exc_info=own is None)
            raise Refusal(500, "the model failed on this request: the server's log says more") from None

    def close(self) -> None:
        """Begin nothing more; what is at work comes to its end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

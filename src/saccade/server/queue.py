"""One prediction at a time for each model, in a thread of its own: meanwhile the server goes on answering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, TypeVar

from saccade.errors import SaccadeError
from saccade.plugins import blame
from saccade.server.requests import Limits, Refusal

T = TypeVar("T")
log = logging.getLogger("saccade.server")


class Worker:
    """Does what it is given in turn. Whoever waits too long is told so, and what was not begun is never begun."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.busy = False
        self._asked: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._places = BoundedSemaphore(limits.waiting + 1)  # one is at work
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = False

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, within the deadline."""
        if not self._places.acquire(blocking=False):
            raise Refusal(503, f"{self.limits.waiting} requests wait for this model already: try again in a moment")
        future = self._begun(work)
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

    def _begun(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                self._places.release()
                raise Refusal(503, "the server is stopping")
            self._asked.put((future, work))
            if self._thread is None:
                # A daemon: the end of the process does not wait for a prediction that nobody will hear of.
                self._thread = Thread(target=self._work, name=f"saccade-{self.name}", daemon=True)
                self._thread.start()
        return future

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            future, work = asked
            if not future.set_running_or_notify_cancel():
                continue
            self.busy = True
            try:
                future.set_result(work())
            except BaseException as error:  # as much as the thread itself would not survive belongs to whoever asked
                future.set_exception(error)
            self.busy = False
            del asked, future, work  # an answer may be large, and the next question far

    def close(self) -> None:
        """Begin nothing more; what is at work comes to its end, or to the process's."""
        with self._lock:
            self._closed = True
            try:
                while (asked := self._asked.get_nowait()) is not None:
                    asked[0].cancel()
            except Empty:
                pass
            self._asked.put(None)

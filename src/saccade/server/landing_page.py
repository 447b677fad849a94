"""The first page: the explorer about an input that the model was not trained on, before anybody has typed anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from saccade.errors import SaccadeError
from saccade.server.errors import Refusal
from saccade.server.limits import Limits
from saccade.server.queue import Worker
from saccade.server.requests import Ask
from saccade.server.responses import noted, predict
from saccade.views.html import page as html

if TYPE_CHECKING:
    from saccade.api import Bundle
    from saccade.trace.maps import Trace

API = "/v1"
EXAMPLES = 5  # offered to click on
PATIENCE = 10.0  # seconds that a page waits for examples: where data is large, reading it again takes longer

log = logging.getLogger("saccade.server")


@dataclass(frozen=True)
class Page:
    """A page as HTML, and its Content-Security-Policy."""

    html: str
    policy: str


class LandingPage:
    """The page of one model; it is made when it is first asked for."""

    def __init__(self, name: str, bundle: Bundle, worker: Worker, limits: Limits, inputs: Sequence[str]) -> None:
        self.name, self.bundle, self.worker, self.limits = name, bundle, worker, limits
        self.inputs = tuple(inputs)
        self._found: Future[list[str]] | None = None
        self._page: Page | None = None

    @property
    def busy(self) -> bool:
        """Whether examples are still being looked for."""
        return self._found is not None and not self._found.done()

    async def page(self) -> Page:
        """The page, with the trace of the given inputs, of the first example, or of none where there is none to be had."""
        if self._page is not None:
            return self._page
        found = await self._examples()
        examples = found or []
        shown = self.inputs or tuple(examples[:1])
        live = {"model": self.name, "api": API, "examples": examples}
        made = await self.worker.do(lambda: self._made(shown, live))
        if found is not None:
            self._page = made
        return made

    async def _examples(self) -> list[str] | None:
        """The examples; None where they are not found in time: the next page may have them."""
        if self._found is None:
            self._found = _begun(self.bundle)
        await asyncio.wait([asyncio.wrap_future(self._found)], timeout=PATIENCE)
        return self._found.result() if self._found.done() else None

    def _made(self, shown: Sequence[str], live: Mapping[str, Any]) -> Page:
        traces = self._traces(shown)
        # That a page may stand in no frame only a header can say.
        page = html.page(traces, title=self.name, live=live)
        return Page(page, f"{html.policy_of(page)}; frame-ancestors 'none'")

    def _traces(self, inputs: Sequence[str]) -> list[Trace]:
        if not inputs:
            return []
        try:
            predictions = predict(self.bundle, Ask(tuple(inputs), trace=True), self.limits)
        except (SaccadeError, Refusal) as error:
            if self.inputs:  # somebody asked for these
                raise
            log.warning("no example on the first page: %s", error)
            return []
        return [trace for trace in map(noted, predictions) if trace is not None]


def _begun(bundle: Bundle) -> Future[list[str]]:
    """The examples to come. A server that is asked to stop does not wait for them."""
    found: Future[list[str]] = Future()
    found.set_running_or_notify_cancel()
    Thread(target=lambda: found.set_result(examples_of(bundle)), name="saccade-examples", daemon=True).start()
    return found


def examples_of(bundle: Bundle) -> list[str]:
    """Inputs worth looking at, as texts; none where the data they come from is not there."""
    try:
        found = bundle.examples(EXAMPLES)
    except Exception as error:  # a user's own task may fail in its own way; a page without examples is still a page
        log.info("no examples: %s", error)
        return []
    return [text for text in found if isinstance(text, str)]

"""The HTTP interface: it reads a request, asks a bundle, and writes JSON.

| request | answer |
|---|---|
| ``GET /`` | the explorer's page, live; ``/?model=NAME`` for another model |
| ``GET /health`` | ``{"status": "ok"}``, whatever else is at work |
| ``GET /v1/models`` | ``{"models": [{name, task, model, parameters, figures, limits, …}]}`` |
| ``POST /v1/models/NAME/predict`` | ``{"predictions": [{output, score, page, notes, …}]}`` |

A fault is ``{"error": {"message", "field"}}``, one line, whatever was wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from saccade.errors import InputError, SaccadeError
from saccade.server.host_guard import LOCAL, HostGuard
from saccade.server.queue import Worker
from saccade.server.requests import Ask, Limits, Refusal, read_ask
from saccade.server.responses import answer, described, noted, predict
from saccade.views.html import page as html

if TYPE_CHECKING:
    from saccade.api import Bundle
    from saccade.trace.maps import Trace

# The landing page -----------------------------------------------------------------------------------------------------

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


# The app --------------------------------------------------------------------------------------------------------------


def create_app(
    bundles: Mapping[str, Bundle],
    *,
    page: bool = True,
    inputs: Sequence[str] = (),
    limits: Limits | None = None,
    hosts: Collection[str] = LOCAL,
) -> FastAPI:
    """The server of these models as an ASGI app.

    Args:
        bundles: the models by the names that requests call them.
        page: whether ``GET /`` shows the explorer.
        inputs: what the page shows first; an example of the model's own data unless given.
        limits: how much a request may ask for.
        hosts: the names that the server goes by (``Host``); ``"*"`` stands for every numeric address.
    """
    _check_names(bundles)
    _check_inputs(bundles, inputs)
    limits = limits or Limits()
    workers = {name: Worker(name, limits) for name in bundles}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        for worker in workers.values():
            worker.close()

    app = FastAPI(title="saccade", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(HostGuard, hosts=hosts)
    _answer_faults(app)
    _serve_models(app, dict(bundles), workers, limits)
    fronts = {name: LandingPage(name, bundles[name], workers[name], limits, inputs) for name in bundles} if page else {}
    if fronts:
        _serve_page(app, fronts)
    at_work: tuple[Worker | LandingPage, ...] = (*workers.values(), *fronts.values())
    app.state.busy = lambda: any(each.busy for each in at_work)
    return app


def _check_names(bundles: Mapping[str, Bundle]) -> None:
    if not bundles:
        raise SaccadeError("expected a model to serve, or several, found none")
    for name in bundles:
        if name in ("", ".", "..") or "/" in name or not name.isprintable():
            expected = "a name that can stand in an address, without '/'"
            raise InputError("model", field="name", expected=expected, found=repr(name))


def _check_inputs(bundles: Mapping[str, Bundle], inputs: Sequence[str]) -> None:
    """That the first page can show what it is to show is better known now than in a browser."""
    for bundle in bundles.values():
        for refused in bundle.refusals(inputs).values():
            raise refused


def _serve_models(app: FastAPI, bundles: dict[str, Bundle], workers: dict[str, Worker], limits: Limits) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"models": [described(name, bundle, limits) for name, bundle in bundles.items()]})

    @app.post("/v1/models/{name}/predict")
    async def predict(name: str, request: Request) -> Response:
        if name not in bundles:
            raise _unknown(bundles)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # what another page may send unasked is never that
            raise Refusal(415, "Content-Type: expected application/json, found another", "Content-Type")
        ask = read_ask(await _body(request, limits), limits)
        made = await _while_there(request, workers[name], lambda: answer(bundles[name], ask, limits))
        return Response(made, media_type="application/json")


def _serve_page(app: FastAPI, fronts: dict[str, LandingPage]) -> None:
    @app.get("/")
    async def page(model: str | None = None) -> Response:
        name = next(iter(fronts)) if model is None else model
        if name not in fronts:
            raise _unknown(fronts)
        made = await fronts[name].page()
        return HTMLResponse(made.html, headers={"Content-Security-Policy": made.policy})


def _unknown(names: Collection[str]) -> Refusal:
    known = ", ".join(names)
    return Refusal(404, f"model: expected one of {known}, found another name", "model")


async def _body(request: Request, limits: Limits) -> bytes:
    """The request's body, if it is no larger than allowed: counted as it comes, before anything reads it."""
    too_large = Refusal(413, f"request: expected at most {limits.body:,} bytes, found more")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 18 or int(declared) > limits.body:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    raise too_large
    except TimeoutError:
        raise Refusal(408, f"request: expected its body within {limits.seconds:g} seconds") from None
    return bytes(body)


async def _while_there(request: Request, worker: Worker, work: Callable[[], bytes]) -> bytes:
    """The answer, unless whoever asked has gone: then what was not begun is left undone."""
    answering = asyncio.ensure_future(worker.do(work))
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer_faults(app: FastAPI) -> None:
    """Whatever goes wrong is told in one line of JSON."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> Response:
        return error.response()

    @app.exception_handler(SaccadeError)
    async def asked_wrongly(_: Request, error: SaccadeError) -> Response:
        return Refusal.of(error).response()

    @app.exception_handler(HTTPException)
    async def not_here(request: Request, error: HTTPException) -> Response:
        allowed = (error.headers or {}).get("Allow", "another method")
        told = {404: "there is nothing here: try / or /v1/models", 405: f"expected {allowed}, found {request.method}"}
        return Refusal(error.status_code, told.get(error.status_code, error.detail)).response()

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:  # uvicorn's log tells the rest
        return Refusal(500, "the server failed on this request: its log says more").response()

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return Refusal(499, "whoever asked has gone").response()

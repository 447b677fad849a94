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
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from saccade.errors import InputError, SaccadeError
from saccade.server.errors import Refusal
from saccade.server.host_guard import LOCAL, HostGuard
from saccade.server.landing_page import LandingPage
from saccade.server.limits import Limits
from saccade.server.queue import Worker
from saccade.server.requests import read_ask
from saccade.server.responses import answer, described

if TYPE_CHECKING:
    from saccade.api import Bundle


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

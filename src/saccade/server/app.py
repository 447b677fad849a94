"""The HTTP app: reads a request, queues it for a model, and answers with JSON.

| request | answer |
|---|---|
| ``GET /`` | the explorer's page, live; ``/?model=NAME`` for another model |
| ``GET /health`` | ``{"status": "ok"}``, even while models predict |
| ``GET /v1/models`` | ``{"models": [{name, task, model, parameters, figures, limits, …}]}`` |
| ``POST /v1/models/NAME/predict`` | ``{"predictions": [{output, score, page, notes, …}]}`` |
| ``POST /v1/models/NAME/truth`` | lines: ``{"done", "of"}`` …, then ``{"faithfulness": {sentence, figures, curves}}`` |

Every error is ``{"error": {"message", "field"}}``, in one line. Each model predicts one request at a time, in a thread of
its own, so that the server keeps answering.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from saccade.errors import InputError, SaccadeError
from saccade.explain import erasure
from saccade.kinds import InputKind
from saccade.plugins import blame
from saccade.server.budget import CHEAPER, Budget, Pace
from saccade.server.host_guard import LOCAL, HostGuard
from saccade.server.requests import Ask, Limits, Refusal, read_ask, read_measured, shortened
from saccade.server.responses import answer, described, noted, predict
from saccade.task import Scores
from saccade.views.html import page as html
from saccade.views.html.payload import plain

if TYPE_CHECKING:
    from saccade.api import Bundle
    from saccade.trace.maps import Trace

# The queue of a model -------------------------------------------------------------------------------------------------

T = TypeVar("T")
log = logging.getLogger("saccade.server")


class Worker:
    """Runs work in order, one at a time, each within its :class:`Budget`. Requests past their deadline get 504. Work that
    nobody waits for any more is not started, and is stopped at its next step if it runs."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.busy = False
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._places = BoundedSemaphore(limits.waiting + 1)  # one is running
        self._lock = Lock()
        self._pace = Pace()
        self._thread: Thread | None = None
        self._closed = False

    async def do(self, work: Callable[[], T]) -> T:
        """The result of ``work``, or its exception; 503 if the queue is full, 504 after the deadline."""
        if not self._places.acquire(blocking=False):
            raise Refusal(
                503, f"{self.limits.waiting} requests are already waiting for this model: try again in a moment"
            )
        budget = Budget(self.limits, self._pace)
        future = self._enqueue(lambda: budget.run(work))
        # Running work keeps its place until it has stopped.
        future.add_done_callback(lambda _: self._places.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.seconds)
        except TimeoutError:
            seconds = f"{self.limits.seconds:g}"
            raise Refusal(504, f"no answer within {seconds} seconds ({CHEAPER})") from None
        except (Refusal, SaccadeError):
            raise
        except Exception as error:
            own = blame(error)  # the user's own plugin failed: its file and line
            log.error("a request failed: %s", own or error, exc_info=own is None)
            raise Refusal(500, "the model failed on this request: see the server's log") from None
        finally:
            budget.abandoned = True

    def _enqueue(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                self._places.release()
                raise Refusal(503, "the server is stopping")
            self._queue.put((future, work))
            if self._thread is None:
                # A daemon thread: the process does not wait for a prediction when it exits.
                self._thread = Thread(target=self._work, name=f"saccade-{self.name}", daemon=True)
                self._thread.start()
        return future

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            self.busy = True
            try:
                future.set_result(work())
            except Exception as error:  # the thread must survive; the caller gets the error
                future.set_exception(error)
            except BaseException as error:  # a panic in a tokenizer (Rust), or an exit in a user's own part
                future.set_exception(
                    RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
                )
            self.busy = False
            del item, future, work  # frees a large answer before the next request

    def close(self) -> None:
        """Accept no more work and cancel what is queued; running work is not interrupted."""
        with self._lock:
            self._closed = True
            try:
                while (item := self._queue.get_nowait()) is not None:
                    item[0].cancel()
            except Empty:
                pass
            self._queue.put(None)


# The landing page -----------------------------------------------------------------------------------------------------

API = "/v1"
EXAMPLES = 5  # inputs that the page offers
PATIENCE = 10.0  # seconds that a page waits for examples; reading large data takes longer


@dataclass(frozen=True)
class Page:
    """A page's HTML and its Content-Security-Policy."""

    html: str
    policy: str


class LandingPage:
    """The explorer's page of one model, with the trace of a first input; made on the first request."""

    def __init__(self, name: str, bundle: Bundle, worker: Worker, limits: Limits, inputs: Sequence[str]) -> None:
        self.name, self.bundle, self.worker, self.limits = name, bundle, worker, limits
        self.inputs = tuple(inputs)
        self._reading: Future[list[Any]] | None = None
        self._page: Page | None = None

    @property
    def busy(self) -> bool:
        """Whether examples are still being read."""
        return self._reading is not None and not self._reading.done()

    async def page(self) -> Page:
        """The page with the traces of the given inputs, or of the first example if there is one."""
        if self._page is not None:
            return self._page
        ready = await self._examples()
        # The page offers texts; files are too large for it, but the first may be shown.
        examples = [example for example in ready or [] if isinstance(example, str)]
        shown = self.inputs or tuple((ready or [])[:1])
        measures = isinstance(self.bundle.task, Scores)
        kind = self.bundle.task.input.name
        live = {"model": self.name, "api": API, "examples": examples, "measures": measures, "input": kind}
        made = await self.worker.do(lambda: self._make(shown, live))
        if ready is not None:
            self._page = made
        return made

    async def _examples(self) -> list[Any] | None:
        """The examples, or None if they are not ready in time; the next request may have them."""
        if self._reading is None:
            self._reading = _read_examples(self.bundle)
        await asyncio.wait([asyncio.wrap_future(self._reading)], timeout=PATIENCE)
        return self._reading.result() if self._reading.done() else None

    def _make(self, shown: Sequence[Any], live: Mapping[str, Any]) -> Page:
        traces = self._traces(shown)
        page = html.page(traces, title=self.name, live=live)
        # frame-ancestors works only as a header, not in the page.
        return Page(page, f"{html.policy_of(page)}; frame-ancestors 'none'")

    def _traces(self, inputs: Sequence[Any]) -> list[Trace]:
        if not inputs:
            return []
        kind = self.bundle.task.input
        try:
            ask = Ask(tuple(inputs), trace=True)
            if self.inputs and kind.largest is not None:
                predictions = self.bundle.predict(_files(kind, self.inputs), lens=ask.lens(self.limits, kind))
            else:
                predictions = predict(self.bundle, ask, self.limits)
        except (SaccadeError, Refusal) as error:
            if self.inputs:  # the user asked for these
                raise
            log.warning("no example on the first page: %s", error)
            return []
        return [trace for trace in map(noted, predictions) if trace is not None]


def _read_examples(bundle: Bundle) -> Future[list[Any]]:
    """Read the examples in a daemon thread, which does not delay the server's shutdown."""
    examples: Future[list[Any]] = Future()
    examples.set_running_or_notify_cancel()
    Thread(target=lambda: examples.set_result(examples_of(bundle)), name="saccade-examples", daemon=True).start()
    return examples


def examples_of(bundle: Bundle) -> list[Any]:
    """Example inputs of the model's data that are texts or files; none if the data is missing."""
    try:
        examples = bundle.examples(EXAMPLES)
    except BaseException as error:  # the page works without examples, however a user's own task or a tokenizer fails
        log.info("no examples: %s", error)
        return []
    files = bundle.task.input.largest is not None
    return [example for example in examples if isinstance(example, str) or (files and isinstance(example, dict))]


# The app --------------------------------------------------------------------------------------------------------------


def create_app(
    bundles: Mapping[str, Bundle],
    *,
    page: bool = True,
    inputs: Sequence[str] = (),
    limits: Limits | None = None,
    hosts: Collection[str] = LOCAL,
) -> FastAPI:
    """Serve these models as an ASGI app.

    Args:
        bundles: the models by the names used in requests.
        page: whether ``GET /`` shows the explorer.
        inputs: what the page shows first; by default an example of the model's own data.
        limits: bounds on a request.
        hosts: accepted names in ``Host``; ``"*"`` means every numeric address.
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
    _answer_errors(app)
    _serve_models(app, dict(bundles), workers, limits)
    pages = {name: LandingPage(name, bundles[name], workers[name], limits, inputs) for name in bundles} if page else {}
    if pages:
        _serve_page(app, pages)
    busy: tuple[Worker | LandingPage, ...] = (*workers.values(), *pages.values())
    app.state.busy = lambda: any(each.busy for each in busy)
    return app


def _check_names(bundles: Mapping[str, Bundle]) -> None:
    if not bundles:
        raise SaccadeError("expected one or more models to serve, found none")
    for name in bundles:
        if name in ("", ".", "..") or "/" in name or not name.isprintable():
            expected = "a printable name without '/'"
            raise InputError("model", field="name", expected=expected, found=repr(name))


def _check_inputs(bundles: Mapping[str, Bundle], inputs: Sequence[str]) -> None:
    """Refuse inputs that the models cannot read now, not when the page is opened."""
    for bundle in bundles.values():
        kind = bundle.task.input
        for refused in bundle.refusals(inputs if kind.largest is None else _files(kind, inputs)).values():
            raise refused


def _files(kind: InputKind, inputs: Sequence[str]) -> list[Any]:
    """The files that a page shows first, by their names on the command line."""
    return [kind.from_argument(name, f"input {number}") for number, name in enumerate(inputs, start=1)]


def _serve_models(app: FastAPI, bundles: dict[str, Bundle], workers: dict[str, Worker], limits: Limits) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"models": [described(name, bundle, limits) for name, bundle in bundles.items()]})

    async def body_of(name: str, request: Request) -> bytes:
        if name not in bundles:
            raise _unknown(bundles)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # a foreign page cannot send this type without CORS
            raise Refusal(415, "Content-Type: expected application/json, found another type", "Content-Type")
        most = limits.body_of(bundles[name].task.input)
        return await _body(request, most, limits)

    @app.post("/v1/models/{name}/predict")
    async def predict(name: str, request: Request) -> Response:
        ask = read_ask(await body_of(name, request), limits)
        made = await _unless_disconnected(request, workers[name], lambda: answer(bundles[name], ask, limits))
        return Response(made, media_type="application/json")

    measuring: set[str] = set()

    @app.post("/v1/models/{name}/truth")
    async def truth(name: str, request: Request) -> Response:
        body = await body_of(name, request)
        given = read_measured(body, bundles[name].task.input, limits)
        if name in measuring:
            raise Refusal(503, "another measurement of this model is running: try again when it has ended")
        measuring.add(name)
        lines = _measured(bundles[name], given, workers[name], lambda: measuring.discard(name))
        first = await anext(lines)  # what cannot be measured is an error, before anything is sent
        return StreamingResponse(_after(first, lines), media_type="application/x-ndjson")


def _serve_page(app: FastAPI, pages: dict[str, LandingPage]) -> None:
    @app.get("/")
    async def page(model: str | None = None) -> Response:
        name = next(iter(pages)) if model is None else model
        if name not in pages:
            raise _unknown(pages)
        made = await pages[name].page()
        return HTMLResponse(made.html, headers={"Content-Security-Policy": made.policy})


async def _measured(bundle: Bundle, given: Any, worker: Worker, end: Callable[[], None]) -> AsyncGenerator[bytes]:
    """The lines of a measurement. Each step is a request of its own in the queue, so that others are answered in between;
    when nobody reads the lines any more, no further step is taken."""
    steps = erasure.measurement(bundle, given)
    until = time.monotonic() + worker.limits.measuring

    def step() -> dict[str, Any]:
        try:
            done, of = next(steps)
            return {"done": done, "of": of}
        except StopIteration as ended:  # which may not leave a future
            return {"faithfulness": plain(ended.value)}

    started = False
    try:
        while True:
            try:
                line = await worker.do(step)
                if time.monotonic() > until and "faithfulness" not in line:
                    raise Refusal(504, f"not measured within {worker.limits.measuring:g} seconds: try a shorter input")
            except (Refusal, SaccadeError) as error:
                if not started:
                    raise
                refusal = error if isinstance(error, Refusal) else Refusal.of(error)
                line = {"error": {"message": shortened(refusal.message), "field": refusal.field}}
            started = True
            yield json.dumps(line, allow_nan=False).encode() + b"\n"
            if "done" not in line:
                return
    finally:
        end()


async def _after(first: bytes, lines: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(lines):
        yield first
        async for line in lines:
            yield line


def _unknown(names: Collection[str]) -> Refusal:
    known = ", ".join(names)
    return Refusal(404, f"model: expected one of {known}, found another name", "model")


async def _body(request: Request, most: int, limits: Limits) -> bytes:
    """The request's body; 413 as soon as it has more bytes than ``most``, before it is parsed; 408 if it comes too slowly."""
    too_large = Refusal(413, f"request: expected at most {most:,} bytes, found more")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 18 or int(declared) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds), asyncio.timeout(limits.silence) as silence:
            async for part in request.stream():
                silence.reschedule(asyncio.get_running_loop().time() + limits.silence)
                body += part
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        slow = f"within {limits.seconds:g} seconds, and never {limits.silence:g} seconds without a part of it"
        raise Refusal(408, f"request: expected its body {slow}") from None
    return bytes(body)


async def _unless_disconnected(request: Request, worker: Worker, work: Callable[[], bytes]) -> bytes:
    """The answer. If the client disconnects, the work is cancelled: queued or running."""
    answering = asyncio.ensure_future(worker.do(work))
    disconnect = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait([answering, disconnect], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return answering.result()
    finally:
        answering.cancel()
        disconnect.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer_errors(app: FastAPI) -> None:
    """Answer every error with one line of JSON."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> Response:
        return error.response()

    @app.exception_handler(SaccadeError)
    async def bad_request(_: Request, error: SaccadeError) -> Response:
        return Refusal.of(error).response()

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        allowed = (error.headers or {}).get("Allow", "another method")
        messages = {404: "not found: try / or /v1/models", 405: f"expected {allowed}, found {request.method}"}
        return Refusal(error.status_code, messages.get(error.status_code, error.detail)).response()

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:  # uvicorn logs the traceback
        return Refusal(500, "the server failed on this request: see its log").response()

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return Refusal(499, "the client disconnected").response()

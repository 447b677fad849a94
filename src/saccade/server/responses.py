"""Answers requests: a bundle's predictions as JSON, and its description for ``GET /v1/models``."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError, SaccadeError
from saccade.progress import report
from saccade.server.requests import WHERE, Ask, Limits, Refusal, inputs_of, search_of
from saccade.task import Searches, Steers
from saccade.views.html.payload import page_data, plain

if TYPE_CHECKING:
    from saccade.api import Bundle
    from saccade.task import Prediction
    from saccade.trace.maps import Trace


def answer(bundle: Bundle, ask: Ask, limits: Limits) -> bytes:
    """The predictions of a request, as the body of the response."""
    predictions = predict(bundle, ask, limits)
    rows = []
    for prediction in predictions:
        report()
        rows.append(_row(prediction, traced=ask.trace))
    return json.dumps({"predictions": rows}, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def predict(bundle: Bundle, ask: Ask, limits: Limits) -> list[Prediction]:
    """The bundle's predictions with the request's lens, search and prefix."""
    if ask.prefix is not None and not isinstance(bundle.task, Steers):
        found = f"a text, where the task {bundle.task.name} has no beginning to choose"
        raise InputError(WHERE, field="prefix", expected="null", found=found)
    inputs, search = inputs_of(ask, bundle.task.input, limits), search_of(ask, bundle, limits)
    try:
        return bundle.predict(inputs, lens=ask.lens(limits, bundle.task.input), search=search, prefix=ask.prefix)
    except InputError:
        raise
    except SaccadeError as error:
        raise Refusal(422, str(error), "edits" if ask.edits else None) from None
    except OverflowError:
        if not ask.search:
            raise
        raise InputError(WHERE, field="search", expected="finite numbers", found="one that is too large") from None


def _row(prediction: Prediction, *, traced: bool) -> dict[str, Any]:
    row = {**_output(prediction), "notes": list(prediction.notes)}
    if prediction.alternatives:
        row["alternatives"] = [_output(each) for each in prediction.alternatives]
    trace = noted(prediction) if traced else None
    return row | {"page": None if trace is None else page_data(trace).to_json()}


def _output(prediction: Prediction) -> dict[str, Any]:
    row: dict[str, Any] = plain(prediction.to_json())
    return row


def noted(prediction: Prediction) -> Trace | None:
    """The prediction's trace with its notes (cut inputs, unknown words) in ``about``, for the page."""
    trace = prediction.trace
    if trace is None or not prediction.notes:
        return trace
    return replace(trace, about={**trace.about, "notes": list(prediction.notes)})


def described(name: str, bundle: Bundle, limits: Limits) -> dict[str, Any]:
    """What a client needs to know about a model."""
    recipe, task = bundle.recipe, bundle.task
    data = recipe.data
    row: dict[str, Any] = plain(
        {
            "name": name,
            "recipe": recipe.name,
            "task": recipe.task,
            "model": recipe.model_name,
            "parameters": bundle.parameters,
            "figures": bundle.figures,
            "metrics": recipe.metrics,
            "input": task.input.name,
            "output": task.output,
            "languages": (),
            **task.describe(),
            "prefix": isinstance(task, Steers),
            "search": asdict(recipe.search) if isinstance(task, Searches) else None,
            "limits": asdict(limits)
            | {"body": limits.body_of(task.input), "tokens": getattr(data, "max_length", None)},
        }
    )
    return row

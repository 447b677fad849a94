"""Reads and checks requests: their limits, the refusals that answer bad ones, and the JSON body.

    {"inputs": ["text", …], "trace": false, "edits": [{"edit": "mask", …}, …], "prefix": null, "search": {"beam": 5}}

Every error is one line that names the field; unknown fields are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse
from pydantic_core import from_json

from saccade.errors import InputError, SaccadeError
from saccade.kinds import InputKind, json_name, size_of
from saccade.nn.search.beam_search import Search
from saccade.recipes.located import locate, quote
from saccade.recipes.schema import build, to_plain
from saccade.trace.edits import EDITS, Edit, edit_from_json
from saccade.trace.lens import DETAILS, Lens

if TYPE_CHECKING:
    from saccade.api import Bundle

# Limits ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """Bounds on one request; ``GET /v1/models`` reports them.

    Attributes:
        body: bytes of a request, checked before the JSON is parsed; a model of images or sounds takes one file more.
        inputs: texts per request; ``traced``: texts per request with traces.
        characters: per input; ``prefix``: of the required beginning of outputs.
        dense: up to this many characters in the longest input, a trace keeps every weight; above, the 16 largest per row.
        edits: edits of the attention.
        beam: beam size, or number of samples.
        seconds: from request to answer, including the time in the queue; also the work of a request, as estimated when it has
            begun.
        memory: bytes that the work of a request may hold: estimated for a search's longest outputs and for attention, and
            measured.
        waiting: queued requests per model; more get 503.
        measuring: seconds for a measurement of how faithful weights are, of an input of at most ``dense`` characters.
        connections: open at the same time; when there are more, the one that has been silent longest is closed.
        silence: seconds after which a connection is closed that does not complete the head of a request, sends nothing of its
            body, or takes nothing of an answer.
    """

    body: int = 1_000_000
    inputs: int = 64
    traced: int = 8
    characters: int = 20_000
    prefix: int = 2_000
    dense: int = 4_000
    edits: int = 1_000
    beam: int = 64
    seconds: float = 60.0
    memory: int = 2_000_000_000
    waiting: int = 16
    measuring: float = 120.0
    connections: int = 128
    silence: float = 10.0

    def __post_init__(self) -> None:
        for limit in fields(self):
            if not getattr(self, limit.name) > 0:
                raise ValueError(f"{limit.name} must be positive: got {getattr(self, limit.name)}")

    def body_of(self, kind: InputKind) -> int:
        """Bytes of a request to a model that reads this kind of inputs: with room for one of the largest files, in base64."""
        return self.body + (0 if kind.largest is None else -(-kind.largest // 3) * 4)


# Refusals -------------------------------------------------------------------------------------------------------------

LONGEST = 400  # characters of an error message, which may quote the request
INPUT = re.compile(r"input (\d+)")


class Refusal(Exception):
    """A request that is refused: an HTTP status, and ``{"error": {"message", "field"}}`` in one line."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field

    @classmethod
    def of(cls, error: SaccadeError) -> Refusal:
        """A :class:`SaccadeError` as a bad request (422)."""
        field = None
        if isinstance(error, InputError):
            place = INPUT.fullmatch(str(error.where))
            field = error.field or (f"inputs[{int(place[1]) - 1}]" if place else None)
        return cls(422, str(error), field)

    def response(self) -> JSONResponse:
        headers = {"Retry-After": "1"} if self.status == 503 else None
        return JSONResponse(
            {"error": {"message": shortened(self.message), "field": self.field}}, self.status, headers=headers
        )


def shortened(message: str) -> str:
    """At most ``LONGEST`` printable characters: the beginning and the end, where an error often says what it expects."""
    line = "".join(letter if letter.isprintable() else " " for letter in message)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]} … {line[-(LONGEST // 2 - 3) :]}"


# The request ----------------------------------------------------------------------------------------------------------

WHERE = "request"
FIELDS = ("inputs", "trace", "edits", "prefix", "search")


@dataclass(frozen=True)
class Ask:
    """A checked request: what to predict, and how."""

    inputs: tuple[Any, ...]  # JSON values; the model's task defines their kind
    trace: bool = False
    edits: tuple[Edit, ...] = ()
    prefix: str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)

    def lens(self, limits: Limits, kind: InputKind) -> Lens | None:
        """The lens for this request; None if it asks for no trace and has no edits."""
        if not self.trace:
            return Lens("statistics", edits=self.edits) if self.edits else None
        longest = max(map(size_of, self.inputs))
        whole = kind.largest is not None or longest <= limits.dense  # the bytes of a file say nothing of its positions
        return Lens("all" if whole else "top", edits=self.edits, detail=DETAILS)


def read_ask(body: bytes, limits: Limits) -> Ask:
    """Parse and check a request's body."""
    given = _mapping(body, FIELDS)
    trace = given.get("trace", False)
    if not isinstance(trace, bool):
        raise InputError(WHERE, field="trace", expected="true or false", found=json_name(trace))
    inputs = _inputs(given.get("inputs"), limits.traced if trace else limits.inputs)
    return Ask(inputs, trace, _edits(given.get("edits"), limits), _prefix(given.get("prefix"), limits), _search(given))


def read_measured(body: bytes, kind: InputKind, limits: Limits) -> Any:
    """The one input of a request to measure how faithful the weights are: ``{"inputs": ["text"]}``."""
    (value,) = _inputs(_mapping(body, FIELDS[:1]).get("inputs"), 1)
    if kind.largest is None and (size := size_of(value)) > limits.dense:
        expected = f"at most {limits.dense:,} characters to measure"
        raise InputError(WHERE, field="inputs[0]", expected=expected, found=f"{size:,}")
    return inputs_of(Ask((value,)), kind, limits)[0]


def _mapping(body: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        given = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(400, f"{WHERE}: expected JSON, found {quote(str(error))}") from None
    if not isinstance(given, dict):
        raise InputError(WHERE, expected="a mapping with inputs", found=json_name(given))
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(WHERE, expected=f"any of {', '.join(names)}", found=quote(unknown[0]))
    return given


def _inputs(given: Any, most: int) -> tuple[Any, ...]:
    if not isinstance(given, list):
        raise InputError(WHERE, field="inputs", expected="a list of inputs", found=json_name(given))
    if not 1 <= len(given) <= most:
        raise InputError(WHERE, field="inputs", expected=f"1 to {most} inputs", found=str(len(given)))
    return tuple(given)


def inputs_of(ask: Ask, kind: InputKind, limits: Limits) -> list[Any]:
    """The inputs of a request as the model's task takes them."""
    inputs = []
    for number, value in enumerate(ask.inputs):
        try:
            inputs.append(kind.from_json(value, WHERE, limits.characters))
        except InputError as error:
            field = ".".join(filter(None, (f"inputs[{number}]", error.field)))
            raise InputError(WHERE, field=field, expected=error.expected, found=error.found) from None
    return inputs


def _text(given: Any, name: str, most: int) -> str:
    if not isinstance(given, str):
        raise InputError(WHERE, field=name, expected="a text", found=json_name(given))
    if len(given) > most:
        raise InputError(WHERE, field=name, expected=f"at most {most:,} characters", found=f"{len(given):,}")
    return given


def _prefix(given: Any, limits: Limits) -> str | None:
    return None if given is None else _text(given, "prefix", limits.prefix) or None


def _search(given: dict[str, Any]) -> dict[str, Any]:
    search = given.get("search")
    if search is None:
        return {}
    if not isinstance(search, dict):
        raise InputError(
            WHERE, field="search", expected="a mapping, such as {'beam': 5}, or null", found=json_name(search)
        )
    return search


# Edits ----------------------------------------------------------------------------------------------------------------


def _edits(given: Any, limits: Limits) -> tuple[Edit, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise InputError(WHERE, field="edits", expected="a list of edits", found=json_name(given))
    if len(given) > limits.edits:
        raise InputError(WHERE, field="edits", expected=f"at most {limits.edits:,} edits", found=f"{len(given):,}")
    return tuple(_edit(each, f"edits[{number}]") for number, each in enumerate(given))


def _edit(given: Any, name: str) -> Edit:
    if not isinstance(given, dict):
        raise InputError(WHERE, field=name, expected="an edit, {'edit': 'mask', …}", found=json_name(given))
    _check_fields(given, name)
    for part in ("keys", "row"):
        numbers = given.get(part, [])
        wrong = [each for each in numbers if not _is_number(each)] if isinstance(numbers, list) else [numbers]
        if wrong:
            raise InputError(WHERE, field=f"{name}.{part}", expected="a list of numbers", found=_among(numbers, wrong))
    factor = given.get("factor", 1)
    if not _is_number(factor):
        raise InputError(WHERE, field=f"{name}.factor", expected="a number", found=json_name(factor))
    try:
        return edit_from_json(given)
    except SaccadeError as error:
        raise Refusal(422, f"{WHERE}: {name}: {error}", name) from None
    except OverflowError:
        raise Refusal(
            422, f"{WHERE}: {name}: expected numbers that a float can hold, found a larger one", name
        ) from None


def _check_fields(given: dict[str, Any], name: str) -> None:
    """Raise unless an edit is of a known kind and has exactly the fields of its kind."""
    kind = given.get("edit")
    if not isinstance(kind, str) or kind not in EDITS:
        found = quote(kind) if isinstance(kind, str) else json_name(kind)
        raise InputError(WHERE, field=f"{name}.edit", expected=f"one of {', '.join(EDITS)}", found=found)
    known = {each.name: each.default is MISSING for each in fields(EDITS[kind])}
    unknown = [each for each in given if each not in known and each != "edit"]
    if unknown:
        expected = f"any of {', '.join(known)} in a {kind}"
        raise InputError(WHERE, field=name, expected=expected, found=quote(unknown[0]))
    missing = [each for each, needed in known.items() if needed and each not in given]
    if missing:
        raise InputError(WHERE, field=f"{name}.{missing[0]}", expected="numbers", found="nothing")


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _among(numbers: Any, wrong: list[Any]) -> str:
    return f"{json_name(wrong[0])} among them" if isinstance(numbers, list) else json_name(numbers)


# The search -------------------------------------------------------------------------------------------------------------


def search_of(ask: Ask, bundle: Bundle, limits: Limits) -> Search | None:
    """The recipe's search with the request's changes; None if the request changes nothing."""
    given = dict(ask.search)
    if not given:
        return None
    if "lm" in given:
        expected = "nothing: the recipe names the run of a language model, a request cannot"
        raise InputError(WHERE, field="search.lm", expected=expected, found=json_name(given["lm"]))
    own = to_plain(bundle.recipe.search)
    wanted = given.get("n_best", own["n_best"])
    for name, expected in bundle.task.unused_settings({"n_best": wanted, **given}).items():
        raise InputError(WHERE, field=f"search.{name}", expected=expected, found=json_name(given.get(name)))
    if given.get("sample") is not None:
        own |= {"beam": 1, "diverse": None}
    elif "beam" not in given and isinstance(given.get("n_best"), int):
        own["beam"] = max(own["beam"], given["n_best"])
    asked = own | given
    for name in ("beam", "n_best"):
        if isinstance(asked[name], int) and asked[name] > limits.beam:
            expected = f"at most {limits.beam}"
            raise InputError(WHERE, field=f"search.{name}", expected=expected, found=f"{asked[name]:,}")
    return build(Search, locate(asked, WHERE), "search")

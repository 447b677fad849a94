"""Finds scores, normalisers and windows by name: the package's own, and those that a user wrote.

A user's part is named ``package.module:Name``. Requirements:

| part | a class derived from torch.nn.Module | or |
|---|---|---|
| score | made by ``(query_width, key_width)``; ``forward(query, key)`` → scores | |
| normaliser | made by ``()``; ``forward(scores)`` → weights | a function of scores |
| window | made by ``(query_width)``; ``forward(query, lengths)`` → a :class:`Window` | a :class:`Window` |

A score may have ``prepare(key)``, which computes once what depends on the keys alone; ``forward`` then gets its result as
the key. Parameters are trained, saved and loaded with the network that contains the part.

Legend: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention.normalise import Normaliser, entmax15, softmax, sparsemax
from saccade.attention.scores import Prepared
from saccade.attention.windows import Window
from saccade.kernels.choose import Choice
from saccade.plugins import FORM, PartError, call, is_own, kind_of, load, load_class

NORMALISERS: dict[str, Normaliser] = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}


@dataclass(frozen=True)
class Choices:
    """Allowed values of a Config field: ``shipped`` parts, or a user's, which ``own`` loads and checks.

    ``score: Annotated[str, Choices(("dot", "general"), own_score)] = "dot"``
    """

    shipped: tuple[str, ...]
    own: Callable[[str], Any]

    def check(self, name: str) -> None:
        if not isinstance(name, str):
            raise PartError(repr(name), expected=f"one of {', '.join(self.shipped)}", found=type(name).__name__)
        if is_own(name):
            self.own(name)
        elif name not in self.shipped:
            close = difflib.get_close_matches(name, self.shipped, n=1)
            expected = f"one of {', '.join(self.shipped)}, or your own ({FORM})"
            raise PartError(
                name, expected=expected, found=repr(name), hint=f"did you mean {close[0]!r}?" if close else None
            )


def own_score(name: str) -> type[nn.Module]:
    """A user's score class."""
    score: type[nn.Module] = load_class(name, nn.Module, "torch.nn.Module")
    _check_made_by(name, score, "query_width", "key_width")
    return score


def own_normaliser(name: str) -> Any:
    """A user's normaliser: a class derived from nn.Module, or a function."""
    found = load(name)
    if not callable(found) or (isinstance(found, type) and not issubclass(found, nn.Module)):
        raise PartError(
            name, expected="a function of scores, or a class derived from torch.nn.Module", found=kind_of(found)
        )
    _check_made_by(name, found)
    return found


def own_window(name: str) -> Any:
    """A user's window: a class derived from nn.Module that makes one, or the window itself."""
    found = load(name)
    if not isinstance(found, Window) and not (isinstance(found, type) and issubclass(found, nn.Module)):
        expected = "a Window, or a class derived from torch.nn.Module that makes one"
        raise PartError(name, expected=expected, found=kind_of(found))
    _check_made_by(name, found, "query_width")
    return found


def _check_made_by(name: str, part: Any, *widths: str) -> None:
    """Fail early if the class cannot be constructed from these widths."""
    if not isinstance(part, type):
        return
    try:
        inspect.signature(part).bind(*widths)
    except TypeError:
        found = f"{part.__name__}{inspect.signature(part)}"
        raise PartError(name, expected=f"a class made by ({', '.join(widths)})", found=found) from None


NormaliserName = Annotated[str, Choices(tuple(NORMALISERS), own_normaliser)]


def normaliser(name: str) -> Normaliser:
    """The normaliser of this name; a user's is a layer, which owns its parameters."""
    return OwnNormaliser(name) if is_own(name) else NORMALISERS[name]


class OwnPart(nn.Module):
    """Wraps a user's part. ``part`` is what they wrote; ``name`` is its name in errors."""

    name: str
    part: Any

    def _take(self, part: Any, find: Callable[[str], Any], **widths: int) -> None:
        """Set ``part`` from its name, its class, or the object itself."""
        found = find(part) if isinstance(part, str) else part
        self.name = part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)
        if isinstance(found, type):
            given = ", ".join(f"{name}={width}" for name, width in widths.items())
            found = call(self.name, found, *widths.values(), expected=f"a class made by ({given})")
        self.part = found

    def _run(self, expected: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return call(self.name, function, *arguments, expected=expected)


class OwnScore(OwnPart):
    """A user's score with the interface of the package's scores. ``part``: its name, its class, or the module itself."""

    def __init__(self, part: str | type[nn.Module] | nn.Module, query_width: int, key_width: int) -> None:
        super().__init__()
        expected = "a torch.nn.Module, its class, or its name"
        if not isinstance(part, str | nn.Module) and not (isinstance(part, type) and issubclass(part, nn.Module)):
            raise PartError("score", expected=expected, found=kind_of(part))
        self._take(part, own_score, query_width=query_width, key_width=key_width)

    def prepare(self, key: Float[Tensor, "*batch S Dk"]) -> Prepared:
        if not hasattr(self.part, "prepare"):
            return Prepared(key)
        ready = self._run("prepare(key) to work", self.part.prepare, key)
        if not isinstance(ready, Tensor) or ready.dim() < 2 or ready.shape[:-1] != key.shape[:-1]:
            expected = f"prepare(key) to return {[*key.shape[:-1], '…']}, one vector per key"
            raise PartError(self.name, expected=expected, found=_shape(ready))
        return Prepared(ready)

    def forward(
        self, query: Float[Tensor, "*batch T Dq"], key: Float[Tensor, "*batch S Dk"] | Prepared
    ) -> Float[Tensor, "*batch T S"]:
        ready = key.key if isinstance(key, Prepared) else self.prepare(key).key
        scores = self._run("forward(query, key) to work", self.part, query, ready)
        expected = (*query.shape[:-1], ready.shape[-2])
        if not isinstance(scores, Tensor) or scores.shape != expected:
            raise PartError(self.name, expected=f"scores {list(expected)}", found=_shape(scores))
        return scores

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        return Choice("own", self.part, (f"{self.name} computes its scores itself",))


class OwnNormaliser(OwnPart):
    """A user's normaliser. ``part``: its name, its class, the module itself, or a function."""

    def __init__(self, part: str | type[nn.Module] | Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._take(part, own_normaliser)

    def forward(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        weights = self._run("a function of scores", self.part, scores)
        if not isinstance(weights, Tensor) or weights.shape != scores.shape:
            raise PartError(self.name, expected=f"weights {list(scores.shape)}, as the scores", found=_shape(weights))
        return weights


class OwnWindow(OwnPart):
    """A user's window, which may depend on the queries and the items' lengths. ``part``: its name, its class, the module
    itself, or a window."""

    def __init__(self, part: str | type[nn.Module] | nn.Module | Window, query_width: int) -> None:
        super().__init__()
        self._take(part, own_window, query_width=query_width)

    def forward(self, query: Float[Tensor, "B T D"], lengths: Int[Tensor, " B"]) -> Window:
        if isinstance(self.part, Window):
            return self.part
        window = self._run("forward(query, lengths) to work", self.part, query, lengths)
        if not isinstance(window, Window):
            raise PartError(self.name, expected="forward(query, lengths) to return a Window", found=kind_of(window))
        return window


def shipped_parameters(network: nn.Module) -> Iterator[nn.Parameter]:
    """The network's own parameters, without those of users' parts, which initialise themselves."""
    own = {id(parameter) for part in network.modules() if isinstance(part, OwnPart) for parameter in part.parameters()}
    return (parameter for parameter in network.parameters() if id(parameter) not in own)


def _shape(found: Any) -> str:
    return str(list(found.shape)) if isinstance(found, Tensor) else kind_of(found)

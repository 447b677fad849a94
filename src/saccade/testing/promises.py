"""Building blocks of contract tests: promises (a sentence and a function that raises if it is broken), checks of tensors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.models import network_class
from saccade.plugins import EVERYTHING, searching

Promises = Mapping[str, Callable[[Any], None]]
EXACT: Mapping[str, float] = {"rtol": 1e-7, "atol": 1e-9}  # float64, computed in another order
OURS = ("saccade", "torch")


class ContractBroken(AssertionError):
    """A part breaks promises of its kind; the message lists each broken promise with numbers."""


def keep(name: str, subject: Any, promises: Promises, *, needed: int = 1) -> tuple[str, ...]:
    """Check all promises and return them; raise if any is broken.

    The others build on the first ``needed``: if one of these is broken, those after it are not checked.
    """
    __tracebackhide__ = True
    broken: dict[str, str] = {}
    for number, (promise, check) in enumerate(promises.items()):
        try:
            check(subject)
        except ContractBroken as fault:
            broken[promise] = str(fault)
        except Exception as fault:
            broken[promise] = str(fault) if isinstance(fault, SaccadeError) else f"it raised {_describe(fault)}"
        if broken and number < needed:
            break
    if broken:
        lines = [f"  - {promise}: {found}" for promise, found in broken.items()]
        count = f"{len(broken)} of {len(promises)} promises"
        raise ContractBroken("\n".join([f"{name} breaks {count}:", *lines]))
    return tuple(promises)


def network_under(network: Any, base: type, config: Any = None) -> tuple[Any, Any]:
    """The class of a network, given by itself or by its name, and its config.

    It must derive from ``base``, which is public as ``saccade.nn.NAME``; ``config`` is ``config_class()`` by default.
    """
    __tracebackhide__ = True
    with searching(trust=EVERYTHING):  # a test names what it tries
        kind = network_class(network) if isinstance(network, str) else network
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise ContractBroken(f"{name_of(network)} is not a class derived from saccade.nn.{base.__name__}")
    make_config = getattr(kind, "config_class", None)
    if make_config is None:
        raise ContractBroken(f"{name_of(network)} has no config_class, the dataclass of its fields")
    return kind, make_config() if config is None else config


def demand(kept: bool | Tensor, found: str) -> None:
    """Raise with what was found unless the promise is kept."""
    if not bool(kept):
        raise ContractBroken(found)


def same(
    found: Tensor, expected: Tensor, what: str, *, rtol: float = EXACT["rtol"], atol: float = EXACT["atol"]
) -> None:
    """Raise with the largest difference and its place if two tensors differ by more than rounding."""
    if found.shape != expected.shape:
        raise ContractBroken(f"{what}: expected {list(expected.shape)}, found {list(found.shape)}")
    wide, wanted = found.detach().double(), expected.detach().double()
    alike = torch.isclose(wide, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if bool(alike.all()):
        return
    distance = (wide - wanted).abs().nan_to_num(nan=torch.inf).masked_fill(alike, -1.0)
    place = [int(part) for part in torch.unravel_index(distance.argmax(), distance.shape)]
    values = wanted[tuple(place)].item(), wide[tuple(place)].item()
    count = int((~alike).sum())
    at = f" at {place}" if place else ""
    raise ContractBroken(
        f"{what}: {count} of {alike.numel()} numbers differ, most{at}: expected {values[0]:.6g}, found {values[1]:.6g}"
    )


def numbers(found: Tensor, what: str) -> None:
    """Raise if a tensor is not finite."""
    wrong = ~found.isfinite()
    demand(not wrong.any(), f"{what}: {int(wrong.sum())} of {found.numel()} are NaN or infinite")


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal random numbers that depend on the seed alone."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def reached(parameters: Iterable[tuple[str, Tensor]]) -> None:
    """Raise for a parameter without a gradient, with one that is not a number, or with nothing but zeros."""
    for name, parameter in parameters:
        demand(parameter.grad is not None, f"{name} {list(parameter.shape)} got none")
        gradient = parameter.grad if parameter.grad is not None else parameter
        numbers(gradient, f"the gradient of {name}")
        demand(gradient.any(), f"the gradient of {name} {list(parameter.shape)} is 0 everywhere")


def name_of(part: Any) -> str:
    return part if isinstance(part, str) else getattr(part, "__name__", None) or type(part).__name__


def _describe(error: BaseException) -> str:
    """An error in one line, with the last frame that is the user's own."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    steps = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in OURS
    ]
    return f"{text} ({steps[-1][0]}, line {steps[-1][1]})" if steps else text

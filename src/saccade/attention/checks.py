"""Checks the arguments of the attention functions and layers: an error names the argument, what it must be and what it is."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError


def check_parts(**parts: Any) -> None:
    """Raise if a ``score``, ``normalise`` or ``window`` is a name or a class: recipes take names, functions take values."""
    modules = {"score": ("scores", "prepare"), "window": ("windows", "visible"), "normalise": ("normalise", "__call__")}
    for name, part in parts.items():
        module, method = modules[name]
        if not hasattr(part, method) or isinstance(part, type | str):
            found = repr(part) if isinstance(part, str) else getattr(part, "__qualname__", type(part).__name__)
            hint = f": pass saccade.attention.{module}.{part}" if isinstance(part, str) and part.isidentifier() else ""
            raise SaccadeError(f"{name}: expected a value of saccade.attention.{module}, found {found}{hint}")


def check_size(**sizes: Any) -> None:
    """Raise unless each size is a whole number of at least 1."""
    for name, size in sizes.items():
        if not is_whole(size):
            raise SaccadeError(f"{name} must be a whole number: got {size!r:.60}")
        if size < 1:
            raise SaccadeError(f"{name} must be at least 1: got {size}")


def check_given_size(**sizes: Any) -> None:
    """The same for sizes that may be None."""
    check_size(**{name: size for name, size in sizes.items() if size is not None})


def check_flag(**flags: Any) -> None:
    """Raise unless each is True or False: a text such as "no" would count as True."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise SaccadeError(f"{name} must be True or False: got {flag!r:.60}")


def check_one_of(allowed: Sequence[str], **names: Any) -> None:
    """Raise unless each is one of these names."""
    for option, name in names.items():
        if not isinstance(name, str) or name not in allowed:
            listed = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
            raise SaccadeError(f"{option} must be {listed}: got {name!r:.60}")


def is_whole(number: Any) -> bool:
    """Whether it is a whole number; True and False are not."""
    return isinstance(number, int | torch.SymInt) and not isinstance(number, bool)


def check_radius(radius: Any, least: int) -> None:
    """Raise unless a window's radius is a whole number of at least ``least``."""
    if not is_whole(radius):
        raise SaccadeError(f"radius must be a whole number: got {radius!r}")
    if radius < least:
        least_said = "not be negative" if least == 0 else f"be at least {least}"
        raise SaccadeError(f"radius must {least_said}: got {radius}")


def check_dropout(dropout: Any) -> None:
    """Raise unless ``dropout`` is a probability."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise SaccadeError(f"dropout must lie between 0 and 1: got {dropout!r}")


def check_offset(offset: Any) -> None:
    """Raise unless ``offset`` is None or the position of a query."""
    # While a step is recorded for replay, the offset is a placeholder.
    if isinstance(offset, bool | float | Sized | type) or (isinstance(offset, int) and offset < 0):
        raise SaccadeError(f"offset must be 0 or a positive whole number: got {offset!r:.60}")


def check_states(width: int | None = None, **states: Any) -> None:
    """Raise unless each is a tensor of numbers [*, N, D], with ``width`` as its D where that is given."""
    for name, tensor in states.items():
        if not isinstance(tensor, Tensor) or tensor.is_sparse:
            raise SaccadeError(f"{name}: expected a tensor [batch, positions, width], found {_called(tensor)}")
        if not tensor.is_floating_point():
            hint = "embed token numbers first" if not tensor.is_complex() else "attention is defined on real numbers"
            raise SaccadeError(f"{name}: expected floating-point numbers, found {tensor.dtype}: {hint}")
        if tensor.dim() < 2:
            raise SaccadeError(f"{name}: expected [batch, positions, width], found {list(tensor.shape)}")
        if width is not None and tensor.shape[-1] != width:
            raise SaccadeError(f"{name}: expected a width of {width}, found {list(tensor.shape)}")


def check_rows(width: int, **rows: Any) -> None:
    """Raise unless each is a tensor of numbers [B, N, width]."""
    check_states(width, **rows)
    for name, tensor in rows.items():
        if tensor.dim() != 3:
            raise SaccadeError(f"{name}: expected [batch, positions, {width}], found {list(tensor.shape)}")


def check_alike(**states: Tensor) -> None:
    """Raise unless the tensors are on one device and their batches (and heads) are of the same size, or 1."""
    (name, first), *others = states.items()
    for other, tensor in others:
        if tensor.device != first.device:
            raise SaccadeError(f"{other} is on {tensor.device}, {name} on {first.device}: move them to one device")
        sizes = zip(first.shape[-3::-1], tensor.shape[-3::-1], strict=False)
        if first.dim() != tensor.dim() or any(1 not in pair and pair[0] != pair[1] for pair in sizes):
            shapes = f"{name} {list(first.shape)} and {other} {list(tensor.shape)}"
            raise SaccadeError(f"expected the same batch and heads in {name} and {other}, found {shapes}")


def tensor_of(value: Any, name: str, expected: str) -> Tensor:
    """A tensor from a tensor, a list or an array; a tensor stays on its device, whatever PyTorch's default one is."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, str | bytes) or value is None:
        raise SaccadeError(f"{name}: expected {expected}, found {_called(value)}")
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SaccadeError(f"{name}: expected {expected}, found {_called(value)} ({str(error)[:80]})") from None


def check_lengths(lengths: Any, batch: int, size: int) -> None:
    """Raise unless they are the lengths of ``batch`` rows, [B]; on the CPU also unless they lie in 0 … ``size``."""
    if torch.compiler.is_compiling():
        return
    whole = isinstance(lengths, Tensor) and not (
        lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool
    )
    if not whole or list(lengths.shape) != [batch]:
        found = f"{list(lengths.shape)} of {lengths.dtype}" if isinstance(lengths, Tensor) else _called(lengths)
        raise SaccadeError(f"lengths: expected a tensor of whole numbers [{batch}], one per row, found {found}")
    if lengths.device.type == "cpu" and type(lengths) is Tensor:  # a GPU is not waited for
        wrong = [length for length in lengths.tolist() if not 0 <= length <= size]
        if wrong:
            raise SaccadeError(f"lengths: expected 0 to {size}, as many as the rows have places, found {wrong[0]}")


def check_weights(**weights: Any) -> None:
    """Raise unless each parameter is a tensor of numbers: a vector (v and bias, or one per head), or a matrix."""
    for name, weight in weights.items():
        if not isinstance(weight, Tensor) or weight.is_sparse:
            raise SaccadeError(f"{name}: expected a tensor of parameters, found {_called(weight)}")
        if not weight.is_floating_point():
            raise SaccadeError(f"{name}: expected floating-point numbers, found {weight.dtype}")
        vector = name in ("v", "bias")
        if weight.dim() < 1 if vector else weight.dim() != 2:
            expected = "a vector" if vector else "a matrix"
            raise SaccadeError(f"{name}: expected {expected} of parameters, found {list(weight.shape)}")


def check_given_weights(**weights: Any) -> None:
    """The same for parameters that may be None."""
    check_weights(**{name: weight for name, weight in weights.items() if weight is not None})


def check_scores(scores: Any) -> None:
    """Raise unless they are a tensor of numbers, as normalisers take them."""
    if not isinstance(scores, Tensor) or scores.is_sparse or not scores.is_floating_point():
        dense = isinstance(scores, Tensor) and not scores.is_sparse
        found = str(scores.dtype) if dense else _called(scores)
        raise SaccadeError(f"scores: expected a tensor of floating-point numbers, found {found}")


def check_normalised(weights: Any, scores: Tensor) -> None:
    """Raise unless a normaliser made weights of the scores' shape."""
    if not isinstance(weights, Tensor) or weights.shape != scores.shape:
        found = list(weights.shape) if isinstance(weights, Tensor) else _called(weights)
        raise SaccadeError(f"normalise: expected weights {list(scores.shape)}, as the scores, found {found}")


def check_fits(window: object, part: Tensor, scores: Tensor) -> None:
    """Raise unless a window's mask or gain lines up with the scores; a batch of 1 may serve several items."""
    sizes = zip(part.shape[::-1], scores.shape[::-1], strict=False)
    if part.dim() > max(3, scores.dim()) or any(1 not in pair and pair[0] != pair[1] for pair in sizes):
        raise SaccadeError(
            f"window: expected one for scores {list(scores.shape)} (batch, heads, queries, keys), found {window!r} with a "
            f"mask or gain {list(part.shape)}"
        )


def check_beta(beta: Any) -> None:
    """Raise unless β is a positive number or a tensor of numbers."""
    number = isinstance(beta, int | float) and not isinstance(beta, bool)
    tensor = isinstance(beta, Tensor) and not beta.is_sparse and beta.is_floating_point()
    if not tensor and not (number and 0 < beta < math.inf):
        raise SaccadeError(f"beta must be positive: got {beta!r:.60}")


def _called(value: Any) -> str:
    if isinstance(value, Tensor) and value.is_sparse:
        return "a sparse tensor"
    return repr(value)[:60] if isinstance(value, str) or value is None else f"a {type(value).__name__}"

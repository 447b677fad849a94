"""Launch every Triton program of the package, and compare what it gives with the reference: a line a program.

    python benchmarks/kernels/every_program.py [--only additive,local]

Programs are found by walking saccade.kernels: each Triton function that no other one calls. The cases of `program_cases`
launch them forward and backward at odd sizes, with lengths, mask and band, in float32, bfloat16 and float16; every answer is
compared with the reference's in float64. Exit status 1, with their names, where a program was never launched or an answer
is not the reference's. Without a GPU the programs run in Triton's interpreter, at tiny sizes. `sanitised.sh` runs this under
NVIDIA's compute-sanitizer.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import math
import os
import pkgutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is first imported

from program_cases import CASES, INTERPRETED, ON_A_GPU, Answer, Case, Draw
from triton.compiler import CompiledKernel
from triton.runtime.jit import KernelInterface

import saccade.kernels

WIDTH = 47  # of a program's name in its line


@dataclass
class Program:
    """A Triton function that the host launches, and what came of it."""

    function: Any
    launches: int = 0
    dtypes: dict[torch.dtype, None] = field(default_factory=dict)  # of the cases, in their order
    worst: float = 0.0  # error over what is allowed
    faults: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return _name(self.function)

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def verdict(self) -> str:
        if not self.launches:
            return "NEVER LAUNCHED"
        return f"DISAGREES: {'; '.join(self.faults)}" if self.faults else "ok"

    def __str__(self) -> str:
        dtypes = ", ".join(_short(dtype) for dtype in self.dtypes) or "–"
        return f"{self.name:<{WIDTH}} {self.launches:>3} launches  {dtypes:<27} {self.worst:>6.3f}  {self.verdict}"


def _name(function: Any) -> str:
    return f"{function.fn.__module__.removeprefix('saccade.kernels.')}.{function.fn.__name__}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ---- Which there are


def programs(functions: Sequence[Any] | None = None) -> list[Program]:
    """The Triton functions of the package, or of these, that none of them calls: only a host can launch those."""
    functions = every_function() if functions is None else functions
    called = {id(each) for function in functions for each in _called_by(function)}
    return [Program(function) for function in functions if id(function) not in called]


def every_function() -> list[Any]:
    """The Triton functions of saccade.kernels, each where it is defined."""
    found = []
    for info in pkgutil.walk_packages(saccade.kernels.__path__, "saccade.kernels."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if isinstance(value, KernelInterface) and value.fn.__module__ == info.name:
                found.append(value)
    return found


def _called_by(function: Any) -> Iterator[Any]:
    written = ast.parse(textwrap.dedent(inspect.getsource(function.fn)))
    for node in ast.walk(written):
        if isinstance(node, ast.Call):
            called = _resolved(node.func, function.fn.__globals__)
            if isinstance(called, KernelInterface) and called is not function:
                yield called


def _resolved(node: ast.expr, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return getattr(_resolved(node.value, names), node.attr, None) if isinstance(node, ast.Attribute) else None


# ---- Launching them


@contextmanager
def noting(kinds: set[type], note: Callable[[Any], None]) -> Iterator[None]:
    """Every launch of functions of these kinds is noted, be it by Triton's own road or of what is compiled already."""

    def watched(kind: type, method: str, launched: Callable[[Any], Any]) -> Any:
        plain = getattr(kind, method)

        def instead(self: Any, *args: Any, **options: Any) -> Any:
            note(launched(self))
            return plain(self, *args, **options)

        return patch.object(kind, method, instead)

    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(watched(kind, "run", lambda function: function))
        stack.enter_context(watched(CompiledKernel, "__getitem__", lambda compiled: compiled.src.fn))
        yield


def examine(known: Sequence[Program], cases: Sequence[Case], device: str) -> list[str]:
    """Run the cases, tell the programs what came of it, and return what went wrong."""
    by_function = {id(program.function): program for program in known}
    launched: list[Program] = []

    def note(function: Any) -> None:
        if id(function) in by_function:
            launched.append(by_function[id(function)])

    wrong: list[str] = []
    kinds = {type(program.function) for program in known}
    # The interpreter computes with numpy, which would warn of each infinity that a GPU passes over.
    with noting(kinds, note), np.errstate(all="ignore"):
        for case in cases:
            for dtype in case.dtypes:
                wrong += _examine_one(case, dtype, device, launched)
    return wrong


def _examine_one(case: Case, dtype: torch.dtype, device: str, launched: list[Program]) -> list[str]:
    """One case in one dtype. ``launched`` fills as programs are launched; each answer is theirs who came since the last."""
    wrong: list[str] = []
    parts = case.parts(Draw(device, dtype, ON_A_GPU if device == "cuda" else INTERPRETED))
    while True:
        launched.clear()
        fault, worst, ended = "", 0.0, False
        try:
            found, exact = next(parts)
            worst, fault = _worst(found, exact, case.allowed[dtype])
        except StopIteration:
            ended = True
        except Exception as error:  # whatever it is, it is told with the programs that were launched before it
            fault, ended = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}", True
        told = f"{case.name}, {_short(dtype)}"
        for program in launched:
            program.launches += 1
            program.dtypes[dtype] = None
            program.worst = max(program.worst, worst)
        for program in {id(each): each for each in launched}.values():
            program.faults += [told] if fault else []
        wrong += [f"{case.family}, {told}: {fault}"] if fault else []
        if ended:
            return wrong


def _worst(found: Answer, exact: Answer, allowed: float) -> tuple[float, str]:
    """The largest error of an answer's tensors over what is allowed, and what is wrong with them."""
    worst, faults = 0.0, []
    if found.keys() != exact.keys():
        return math.inf, f"expected {', '.join(exact)}, found {', '.join(found)}"
    for name, expected in exact.items():
        error = _error(found[name].detach().cpu().double(), expected.detach()) / allowed
        worst = max(worst, error)
        if not error <= 1:
            faults.append(f"{name} is off by {error * allowed:.2g} of its largest number, allowed {allowed:.2g}")
    return worst, "; ".join(faults)


def _error(found: Tensor, exact: Tensor) -> float:
    """The largest difference over the largest number; infinite where one is infinite and the other is not."""
    if found.shape != exact.shape or not torch.equal(found.isinf(), exact.isinf()) or bool(found.isnan().any()):
        return math.inf
    found, exact = (each.masked_fill(exact.isinf(), 0.0) for each in (found, exact))
    largest = max(exact.abs().max().item(), 1e-3)
    return (found - exact).abs().max().item() / largest


# ---- The command


def main() -> None:
    families = sorted({case.family for case in CASES})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="families, with commas between them")
    only = parser.parse_args().only
    wanted = families if only is None else only.split(",")
    if unknown := set(wanted) - set(families):
        sys.exit(f"--only: expected some of {', '.join(families)}, found {', '.join(sorted(unknown))}")
    known = [program for program in programs() if only is None or program.family in wanted]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wrong = examine(known, [case for case in CASES if case.family in wanted], device)
    idle = [program.name for program in known if not program.launches]
    print(f"{'program':<{WIDTH}} {'':<12}  {'inputs':<27}  error (1: all that is allowed)")
    print(*known, sep="\n")
    if wrong or idle:
        sys.exit(
            "\n".join([*wrong, *(f"{name} was never launched: program_cases needs a case for it" for name in idle)])
        )
    print(f"{len(known)} programs, all launched, all answers the reference's")


if __name__ == "__main__":
    main()

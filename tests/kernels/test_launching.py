"""A program that was launched before is launched again without being looked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from saccade.kernels import launching
from saccade.kernels.launching import launch


class Compiled:
    packed_metadata = ()

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        return lambda *arguments: self.launches.append((grid, arguments))


class Program:
    """What Triton shows of a program: a grid, then a call that gives what was compiled."""

    arg_names = ("x", "out", "size", "BLOCK")

    def __init__(self) -> None:
        self.searches = 0
        self.compiled = Compiled()

    def __getitem__(self, grid: tuple[int]) -> Any:
        def call(*arguments: Any, **constants: Any) -> Compiled:
            self.searches += 1
            return self.compiled

        return call


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(launching, "_compiled", {})
    return Program()


def test_the_second_launch_of_the_same_kind_passes_pointers_and_constants(program: Program) -> None:
    x, out = torch.zeros(64), torch.zeros(64)
    for _ in range(3):
        launch(program, 5, (x, out), (64,), BLOCK=16, num_warps=4)
    assert program.searches == 1
    assert program.compiled.launches == [((5, 1, 1), (x.data_ptr(), out.data_ptr(), 64, 16))] * 2


@pytest.mark.parametrize("other", ["dtype", "number", "constant", "option"])
def test_another_type_number_constant_or_option_is_looked_for(program: Program, other: str) -> None:
    x = torch.zeros(64)
    launch(program, 5, (x, x), (64,), BLOCK=16, num_warps=4)
    launch(
        program,
        5,
        (x, x.half() if other == "dtype" else x),
        (63 if other == "number" else 64,),
        BLOCK=32 if other == "constant" else 16,
        num_warps=8 if other == "option" else 4,
    )
    assert program.searches == 2
    assert not program.compiled.launches


def test_a_tensor_that_begins_elsewhere_never_takes_a_program_made_for_aligned_ones(program: Program) -> None:
    x = torch.zeros(64)
    for tensor in (x, x[1:33], x[1:33], x):
        launch(program, 5, (x, tensor), (64,), BLOCK=16)
    assert program.searches == 3
    assert len(program.compiled.launches) == 1


def test_what_is_remembered_is_bounded(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_MOST_COMPILED", 3)
    x = torch.zeros(64)
    for size in range(10):
        launch(program, 5, (x, x), (size,), BLOCK=16)
    assert len(launching._compiled) <= 3

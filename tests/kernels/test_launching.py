"""A program that was launched before is launched again without being looked for; where none can be, none is asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from saccade.kernels import launching
from saccade.kernels.launching import has_fused, launch


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


# ---- Whether Triton serves


class OnGpu:
    is_cuda, device = True, torch.device("cuda", 0)


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """As at the start of a process with Triton and a GPU; where a program is tried is written down."""
    trial = pytest.importorskip("saccade.kernels.programs", exc_type=ImportError)
    tried: list[torch.device] = []
    monkeypatch.setattr(launching, "_tried", {})
    monkeypatch.setattr(launching, "_TRITON_FOUND", True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(trial, "launched", tried.append)
    return tried


def test_a_gpu_is_tried_once_and_then_served(untried: list[torch.device]) -> None:
    on_gpu: Any = OnGpu()
    assert [has_fused(on_gpu) for _ in range(3)] == [True] * 3
    assert untried == [OnGpu.device]


def test_where_triton_finds_no_compiler_it_does_not_serve_and_that_is_said_once(
    untried: list[torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(device: torch.device) -> None:
        untried.append(device)
        raise RuntimeError("Failed to find C compiler.\nPlease specify via CC")

    monkeypatch.setattr("saccade.kernels.programs.launched", fail)
    on_gpu: Any = OnGpu()
    with pytest.warns(
        UserWarning, match="slower kernels serve .* RuntimeError: Failed to find C compiler. Please"
    ) as said:
        assert [has_fused(on_gpu) for _ in range(3)] == [False] * 3
    assert len(said) == len(untried) == 1


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate …"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
)
def test_a_full_gpu_is_not_taken_for_one_without_a_compiler(
    untried: list[torch.device], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(device: torch.device) -> None:
        raise error

    monkeypatch.setattr("saccade.kernels.programs.launched", fail)
    on_gpu: Any = OnGpu()
    with pytest.raises(type(error), match="out of memory"):
        has_fused(on_gpu)
    assert not launching._tried


def test_each_gpu_is_tried_by_itself(untried: list[torch.device], monkeypatch: pytest.MonkeyPatch) -> None:
    def launched(device: torch.device) -> None:
        if device.index == 0:
            raise RuntimeError("an old card")

    monkeypatch.setattr("saccade.kernels.programs.launched", launched)
    first, second = OnGpu(), OnGpu()
    second.device = torch.device("cuda", 1)
    with pytest.warns(UserWarning, match="an old card"):
        assert [has_fused(each) for each in (first, second, first)] == [False, True, False]  # type: ignore[arg-type]


def test_what_only_stands_for_a_tensor_is_not_tried(
    untried: list[torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert has_fused(torch.empty(3, device="cuda"))
    assert not untried


def test_while_a_graph_is_recorded_nothing_is_tried(
    untried: list[torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    on_gpu: Any = OnGpu()
    assert has_fused(on_gpu)
    assert not untried


def test_a_cpu_is_never_tried(untried: list[torch.device]) -> None:
    assert not has_fused(torch.zeros(1, device="cpu"))
    assert not untried

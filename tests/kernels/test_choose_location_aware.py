from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from saccade.kernels import launching
from saccade.kernels.choose import choose_location_aware
from saccade.kernels.location import blocked, reference


def test_a_cpu_is_served_by_the_reference_and_told_why() -> None:
    on_cpu = [torch.empty(shape, device="cpu") for shape in ((2, 1, 5), (2, 7, 5), (5,), (3, 5))]
    choice = choose_location_aware(*on_cpu)
    assert choice.function is reference.location_aware_scores
    assert str(choice).startswith("location_aware.reference: location_aware.fused cannot serve: the tensors are on cpu")


def test_a_cpu_is_served_in_tiles_where_that_pays() -> None:
    large = [torch.empty(shape, device="cpu") for shape in ((9, 1, 40), (9, 97, 40), (40,), (3, 5))]
    choice = choose_location_aware(*large)
    assert choice.function is blocked.location_aware_scores
    assert str(choice) == "location_aware.blocked: 34,920 numbers in q + k, in tiles in the CPU's cache."
    several = large[0].expand(9, 2, 40)
    assert choose_location_aware(several, *large[1:]).kernel == "location_aware.reference"


def test_everything_that_stands_in_the_way_is_named() -> None:
    query, key = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(1, 7, 5)
    said = str(choose_location_aware(query, key, torch.randn(5), torch.randn(65, 5)))
    for reason in ("3 queries", "shared by several items", "float64", "65 filters"):
        assert reason in said


def test_a_step_on_a_gpu_is_one_launch() -> None:
    on_gpu = [torch.empty(shape, device="meta") for shape in ((2, 1, 5), (2, 7, 5), (5,), (3, 5))]
    assert "not on a CUDA device" in str(choose_location_aware(*on_gpu))
    if torch.cuda.is_available():
        choice = choose_location_aware(*(torch.empty_like(tensor, device="cuda") for tensor in on_gpu))
        assert choice.kernel == "location_aware.fused"


def test_where_triton_cannot_compile_the_reference_serves_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "triton_installed", lambda: True)
    monkeypatch.setattr(launching, "has_fused", lambda tensor: False)
    with FakeTensorMode():
        on_gpu = [torch.empty(shape, device="cuda") for shape in ((2, 1, 5), (2, 7, 5), (5,), (3, 5))]
        said = str(choose_location_aware(*on_gpu))
    assert said == "location_aware.reference: location_aware.fused cannot serve: triton cannot compile here."

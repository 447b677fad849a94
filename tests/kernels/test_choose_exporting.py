"""An export is told from a compilation, also by a PyTorch that takes the one for the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.kernels import choose


class Told(torch.nn.Module):
    """Three times its input where it is exported, twice elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * x if choose.is_exporting() else 2 * x


@pytest.fixture(params=[True, False], ids=["told apart", "taken for each other"])
def _told_apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not choose.TELLS_APART:
        pytest.skip("this PyTorch says under torch.compile that it exports")
    monkeypatch.setattr(choose, "TELLS_APART", request.param)
    torch._dynamo.reset()


@pytest.mark.usefixtures("_told_apart")
def test_a_compiled_call_is_not_an_export() -> None:
    x = torch.ones(5)
    torch.testing.assert_close(torch.compile(Told(), backend="eager", fullgraph=True)(x), 2 * x)
    torch.testing.assert_close(Told()(x), 2 * x)


@pytest.mark.usefixtures("_told_apart")
def test_an_export_is_known() -> None:
    x = torch.ones(5)
    exported = torch.export.export(Told(), (x,), strict=False)
    torch.testing.assert_close(exported.module()(x), 3 * x)


@pytest.mark.parametrize("compiling", [True, False])
def test_where_pytorch_says_that_it_exports_while_it_compiles_the_compilation_counts(
    compiling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "TELLS_APART", False)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: compiling)
    assert choose.is_exporting() is not compiling

"""Where a kernel serves, ``attend`` gives what the composition gives; elsewhere none serves."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from saccade.attention.core import attend, explain_choice, look
from saccade.attention.fast import steps_over
from saccade.attention.normalise import softmax
from saccade.attention.scores import Dot, Prepared, Score, additive, dot, scaled_dot
from saccade.attention.windows import Extent, Padding, Window, band, everywhere, gaussian, mask, padding
from saccade.errors import SaccadeError
from saccade.trace import Lens

B, H, T, S, D, E = 3, 2, 5, 17, 4, 6


pytestmark = pytest.mark.usefixtures("kernels_serve_small_sizes")


def sequences(*batch: int) -> list[Tensor]:
    return [torch.randn(*batch, *each, dtype=torch.float64).requires_grad_() for each in ((T, D), (S, D), (S, E))]


def served(given: list[Tensor], score: Score, window: Window = everywhere) -> str:
    """The kernel's name, once its contexts and gradients have been found to be the composition's."""
    found = attend(*given, score=score, window=window)
    _, expected = look(*given, score=score, window=window)
    torch.testing.assert_close(found, expected)
    each = [torch.autograd.grad(context.pow(2).sum(), given) for context in (found, expected)]
    for ours, theirs in zip(*each, strict=True):
        torch.testing.assert_close(ours, theirs)
    return explain_choice(*given, score=score, window=window).partition(":")[0]


# Windows and scores of one's own ----------------------------------------------------------------------------------------


class Even(Window):
    def visible(self, extent: Extent) -> Tensor:
        return extent.key_positions % 2 == 0  # [S]


class Beyond(Padding):
    def visible(self, extent: Extent) -> Tensor:
        return ~super().visible(extent)


class Opposite(Dot):
    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        return -super().__call__(query, key)


@pytest.mark.parametrize("score", [scaled_dot, additive(torch.randn(D, dtype=torch.float64))], ids=repr)
@pytest.mark.parametrize("batch", [(B,), (B, H)])
def test_a_window_that_names_keys_alone_is_served(score: Score, batch: tuple[int, ...]) -> None:
    for window in (Even(), Even() & padding(torch.tensor([17, 0, 9]))):
        assert served(sequences(*batch), score, window).endswith(".attention")


def test_what_derives_from_a_shipped_window_or_score_is_asked_and_not_the_shipped_one() -> None:
    lengths = torch.tensor([3, 0, 9])
    for window in (Beyond(lengths), band(1) & Beyond(lengths)):
        assert served(sequences(B), scaled_dot, window) == "dot.attention"
    assert served(sequences(B), Opposite()) == "dot.reference"


# Shapes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((1, D), "attention"), ((H, D), "attention"), ((B, H, D), "attention"), ((B, 1, D), "blocked")],
)
def test_each_head_and_item_has_its_own_v(shape: tuple[int, ...], kernel: str) -> None:
    assert served(sequences(B, H), additive(torch.randn(shape, dtype=torch.float64))) == f"additive.{kernel}"


def test_a_length_for_all_items_or_for_each_head_means_what_it_means_to_the_composition(shapes_unchecked: None) -> None:
    for lengths in (torch.tensor(3), torch.tensor([3]), torch.randint(0, S, (B, H))):
        for score in (scaled_dot, additive(torch.randn(D, dtype=torch.float64))):
            for window in (padding(lengths), band(1) & padding(lengths)):
                served(sequences(B, H), score, window)


def test_batches_that_broadcast_are_left_to_the_composition(shapes_unchecked: None) -> None:
    given = sequences(B)
    for score in (scaled_dot, additive(torch.randn(D, dtype=torch.float64))):
        for window in (everywhere, band(1), gaussian(torch.rand(B, T) * S, 2)):
            assert "one batch" in explain_choice(given[0], given[1][:1], given[2], score=score, window=window)
            served([given[0][:1].detach().requires_grad_(), *given[1:]], score, window)
            served([each[0].detach().requires_grad_() for each in given], score, band(1))
        wider = mask(torch.rand(B, T, S) > 0.5)
        served([each[:1].detach().requires_grad_() for each in given], score, wider)


def test_a_decoders_steps_over_keys_and_values_of_other_batches_are_left_to_the_composition() -> None:
    key, value = torch.randn(B, S, D), torch.randn(B, S, E)
    options = {"score": dot, "normalise": softmax, "steps": 2}
    assert steps_over(Prepared(key), value, window=everywhere, **options) is not None  # type: ignore[arg-type]
    assert steps_over(Prepared(key), value, window=padding(torch.tensor([3])), **options) is None  # type: ignore[arg-type]
    assert steps_over(Prepared(key[:1]), value, window=everywhere, **options) is None  # type: ignore[arg-type]


# Derivatives, dtypes, dropout -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(B,), (B, H)])
@pytest.mark.parametrize("window", [everywhere, band(1), padding(torch.tensor([17, 0, 9]))], ids=repr)
@pytest.mark.parametrize("name", ["dot", "additive"])
def test_second_derivatives_are_right_where_keys_are_values_and_queries_come_of_keys(
    name: str, window: Window, batch: tuple[int, ...]
) -> None:
    score = scaled_dot if name == "dot" else additive(torch.randn(D))
    key = torch.randn(*batch, S, D).requires_grad_()
    seconds = []
    for function in (attend, lambda *args, **options: look(*args, **options)[1]):
        context = function(key[..., :T, :].tanh(), key, key, score=score, window=window)
        (first,) = torch.autograd.grad(context.pow(2).sum(), key, create_graph=True)
        seconds.append((first, *torch.autograd.grad(first.pow(2).sum(), key)))
    for ours, theirs in zip(*seconds, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


def test_a_backward_pass_inside_autocast_gives_the_gradients_of_one_outside() -> None:
    v, grads = torch.randn(D), []
    given = [each.detach().float().requires_grad_() for each in sequences(B)]
    for inside in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            context = attend(*given, score=additive(v))
            if inside:
                grads.append(torch.autograd.grad(context.float().sum(), given))
        if not inside:
            grads.append(torch.autograd.grad(context.float().sum(), given))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("score", [dot, additive(torch.randn(D, dtype=torch.float64))], ids=repr)
def test_dropping_every_weight_leaves_zeros_and_other_probabilities_are_refused(score: Score) -> None:
    given = sequences(B)
    context = attend(*given, score=score, dropout=1.0)
    assert bool((context == 0).all())
    assert all(bool((grad == 0).all()) for grad in torch.autograd.grad(context.sum(), given))
    for wrong in (1.5, -0.1):
        with pytest.raises(SaccadeError, match="dropout must lie between 0 and 1"):
            attend(*given, score=score, dropout=wrong)


# Devices, lenses, graphs ------------------------------------------------------------------------------------------------


def test_a_device_that_no_kernel_was_tried_on_has_the_composition() -> None:
    query, key, value = (torch.empty(B, *each, device="meta") for each in ((T, D), (S, D), (S, E)))
    for score in (dot, additive(torch.empty(D, device="meta"))):
        assert attend(query, key, value, score=score).shape == (B, T, E)


@pytest.mark.parametrize("keep", ["top", "statistics"])
def test_a_narrow_band_is_counted_without_its_whole_weights(keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sequences(B)
    assert explain_choice(*given, score=scaled_dot, window=band(1)).startswith("local.")
    expected = attend(*given, score=scaled_dot, window=band(1))
    monkeypatch.setattr(Lens, "observe", None)  # which takes whole weights
    lens = Lens(keep, k=3)  # type: ignore[arg-type]
    torch.testing.assert_close(attend(*given, score=scaled_dot, window=band(1), lens=lens), expected)
    assert len(lens.traces) == B


EXPORTED = """
import torch
from saccade import attend
from saccade.attention.scores import additive

class Look(torch.nn.Module):
    def forward(self, query, key, value):
        return attend(query, key, value, score=additive(torch.ones(32)))

inputs = tuple(torch.randn(2, *each) for each in ((67, 32), (131, 32), (131, 5)))
graph = torch.export.export(Look(), inputs)
assert not any("saccade" in str(node.target) for node in graph.graph.nodes), graph.graph
torch.testing.assert_close(graph.module()(*inputs), Look()(*inputs))
"""


def test_an_exported_graph_knows_only_pytorchs_own_operators() -> None:
    # In a process of its own: torch.export cannot record through the checks of shapes that every test runs under.
    done = subprocess.run([sys.executable, "-c", EXPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

"""The core's own promises; what holds for every combination is in tests/contracts/test_attention.py."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from saccade.attention.core import attend, explain_choice, look, read, weigh
from saccade.attention.normalise import Normaliser, entmax15, sharpened, smoothed, softmax, sparsemax
from saccade.attention.scores import additive, dot, general, scaled_dot
from saccade.attention.windows import Extent, Window, band, causal, everywhere, gaussian, mask, padding
from saccade.errors import SaccadeError
from saccade.kernels.additive import reference
from saccade.trace import Boost, Lens, Mask, Set, Site

B, H, T, S, D, E = 2, 3, 5, 7, 4, 6


def sequences(heads: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    batch = (B, H) if heads else (B,)
    return torch.randn(*batch, T, D), torch.randn(*batch, S, D), torch.randn(*batch, S, E)


def looked(lens: Lens, item: int = 0, head: int = 0) -> Tensor:
    return lens.traces[item].map(head=head).weights


# Composition ------------------------------------------------------------------------------------------------------------


def test_weights_then_values_is_attention() -> None:
    query, key, value = sequences()
    weights = weigh(query, key, score=dot)
    expected = torch.stack([sum(weights[:, t, s, None] * value[:, s] for s in range(S)) for t in range(T)], dim=1)
    torch.testing.assert_close(read(weights, value), expected)
    torch.testing.assert_close(attend(query, key, value, score=dot), expected)


@pytest.mark.parametrize("heads", [False, True])
def test_reading_for_one_query_has_the_gradients_of_the_product(heads: bool) -> None:
    batch = (2, 3) if heads else (3,)
    weights, value = torch.randn(*batch, 1, 7).double(), torch.randn(*batch, 7, 5).double()
    inputs, grad = (weights.requires_grad_(), value.requires_grad_()), torch.randn(*batch, 1, 5).double()
    found, expected = (torch.autograd.grad(context, inputs, grad) for context in (read(*inputs), weights @ value))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.autograd.gradgradcheck(read, inputs)


def test_a_query_that_sees_nothing_gets_zeros() -> None:
    query, key, value = sequences()
    context = attend(query, key, value, score=scaled_dot, window=padding(torch.tensor([4, 0])))
    assert bool((context[0] != 0).any())
    torch.testing.assert_close(context[1], torch.zeros(T, E), rtol=0, atol=0)


def test_the_gain_multiplies_after_normalising_and_is_not_normalised_away() -> None:
    query, key, _ = sequences()
    centre = torch.full((B, T), 3.0)
    plain = weigh(query, key, score=dot, window=band(2, centre))
    weights = weigh(query, key, score=dot, window=gaussian(centre, 2))
    gain = torch.exp(-((torch.arange(S) - 3.0) ** 2) / 2)
    torch.testing.assert_close(weights, plain * gain)
    assert bool((weights.sum(-1) < 0.999).all())


class HalfGain(Window):
    """A window of one's own: the even keys, with half the weight."""

    def visible(self, extent: Extent) -> Tensor:
        return extent.key_positions % 2 == 0  # [S]

    def gain(self, extent: Extent) -> Tensor:
        return torch.full((extent.keys,), 0.5)


def test_a_window_of_ones_own_composes_with_the_others() -> None:
    query, key, _ = sequences(heads=True)
    weights = weigh(query, key, score=dot, window=HalfGain() & padding(torch.tensor([7, 3])))
    torch.testing.assert_close(weights.sum(-1), torch.full((B, H, T), 0.5))
    assert bool((weights[..., 1::2] == 0).all())
    assert bool((weights[1, ..., 3:] == 0).all())


def test_windows_of_an_item_and_of_a_head_meet_on_the_right_axes() -> None:
    """[B, T, S] beside [B, H, T, S] with B = H: a mask that fell on the heads would still broadcast."""
    query, key = torch.randn(3, 3, T, D), torch.randn(3, 3, S, D)
    weights = weigh(query, key, score=dot, window=padding(torch.tensor([1, 4, 7])))
    for item, length in enumerate([1, 4, 7]):
        assert bool((weights[item, :, :, :length] > 0).all())
        assert bool((weights[item, :, :, length:] == 0).all())
    centre = torch.tensor([0.0, 3.0, 6.0]).view(1, 3, 1).expand(3, 3, T)  # one a head
    both = weigh(query, key, score=dot, window=gaussian(centre, 1) & padding(torch.tensor([1, 4, 7])))
    assert bool((both[0, 0, :, :1] > 0).all())
    assert bool((both[0, 1:] == 0).all())  # heads 1 and 2 look at keys 2 … 7, of which the first item has none
    assert bool((both[2, 1, :, 2:5] > 0).all())


# Dropout ----------------------------------------------------------------------------------------------------------------


def test_the_lens_sees_weights_before_dropout() -> None:
    query, key, value = sequences()
    lens = Lens()
    dropped = attend(query, key, value, score=dot, dropout=0.5, lens=lens)
    torch.testing.assert_close(looked(lens), weigh(query, key, score=dot)[0], rtol=0, atol=0)
    assert not torch.allclose(dropped, attend(query, key, value, score=dot))


def test_dropout_drops_weights_and_scales_up_the_rest() -> None:
    query, key = torch.randn(1, 200, D), torch.randn(1, 50, D)
    kept = attend(query, key, torch.eye(50).unsqueeze(0), score=dot, dropout=0.25)  # values that show the weights
    weights = weigh(query, key, score=dot)
    left = kept != 0
    torch.testing.assert_close(kept[left], weights[left] / 0.75)
    assert 0.23 < 1 - left.float().mean() < 0.27


# Edits ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [False, True])
def test_a_mask_narrows_the_window_and_the_rest_is_normalised_again(heads: bool) -> None:
    query, key, value = sequences(heads)
    lens = Lens(edits=[Mask(keys=(1, 4))])
    context = attend(query, key, value, score=dot, lens=lens)
    keep = torch.ones(B, S, dtype=torch.bool)
    keep[:, [1, 4]] = False
    torch.testing.assert_close(context, attend(query, key, value, score=dot, window=padding(keep)))


def test_a_mask_over_all_that_is_visible_leaves_zeros_and_finite_gradients() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in sequences())
    lens = Lens(edits=[Mask(keys=(0, 1), step=2)])
    context = attend(query, key, value, score=dot, window=padding(torch.tensor([2, 7])), lens=lens)
    torch.testing.assert_close(context[0, 2], torch.zeros(E), rtol=0, atol=0)
    context.sum().backward()
    assert all(bool(tensor.grad.isfinite().all()) for tensor in (query, key, value))


def test_a_boost_multiplies_the_odds_before_normalising() -> None:
    query, key, _ = sequences()
    lens = Lens(edits=[Boost(keys=(2,), factor=3.0)])
    weights, plain = weigh(query, key, score=dot, lens=lens), weigh(query, key, score=dot)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, T))
    odds = (weights[..., 2] / weights[..., 5]) / (plain[..., 2] / plain[..., 5])
    torch.testing.assert_close(odds, torch.full((B, T), 3.0))


def test_a_boost_cannot_show_what_the_window_hides() -> None:
    query, key, _ = sequences()
    lens = Lens(edits=[Boost(keys=(6,), factor=1e6)])
    weights = weigh(query, key, score=dot, window=padding(torch.tensor([7, 3])), lens=lens)
    assert bool((weights[0, :, 6] > 0.5).all())
    assert bool((weights[1, :, 3:] == 0).all())


def test_a_row_that_is_set_stands_as_it_is_after_normalising_and_gain() -> None:
    query, key, value = sequences()
    row = (0.0, 0.5, 0.0, 0.25, 0.0, 0.0, 0.125)  # it sums to 0.875, and stays so
    lens = Lens(edits=[Set(row=row, step=3)])
    window = gaussian(torch.full((B, T), 2.0), 2)
    context = attend(query, key, value, score=dot, window=window, lens=lens)
    plain = attend(query, key, value, score=dot, window=window)
    torch.testing.assert_close(context[:, 3], torch.tensor(row) @ value)
    others = [0, 1, 2, 4]
    torch.testing.assert_close(context[:, others], plain[:, others], rtol=0, atol=0)
    torch.testing.assert_close(looked(lens)[3], torch.tensor(row), rtol=0, atol=0)


def test_an_edit_applies_at_its_site_head_and_step_alone() -> None:
    query, key, _ = sequences(heads=True)
    lens = Lens(edits=[Mask(keys=(0,), site="there", head=1, step=9)])
    plain = weigh(query, key, score=dot)
    elsewhere = weigh(query, key, score=dot, offset=6, lens=lens, site="here")
    torch.testing.assert_close(elsewhere, plain, rtol=0, atol=0)
    with pytest.raises(SaccadeError, match="never applied"):
        lens.check()
    there = weigh(query, key, score=dot, offset=6, lens=lens, site=Site("there", "words", "words"))
    lens.check()
    changed = (there != plain).any(-1)  # [B, H, T]
    expected = torch.zeros(B, H, T, dtype=torch.bool)
    expected[:, 1, 9 - 6] = True
    assert torch.equal(changed, expected)
    assert bool((there[:, 1, 3, 0] == 0).all())


def test_scores_are_recorded_as_the_network_computed_them_behind_its_window_and_before_edits() -> None:
    query, key, _ = sequences()
    lens = Lens(detail=["scores"], edits=[Mask(keys=(3,))])
    weigh(query, key, score=dot, window=padding(torch.tensor([6, 7])), lens=lens)
    scores = lens.traces[0].map().tensors["scores"]
    expected = query[0] @ key[0].mT
    expected[:, 6] = -torch.inf  # padding; key 3 is hidden by the edit alone
    torch.testing.assert_close(scores, expected)


def test_the_context_is_kept_when_asked_for() -> None:
    query, key, value = sequences()
    lens, quiet = Lens(detail=["context"]), Lens()
    for t in range(T):
        attend(query[:, t : t + 1], key, value, score=dot, offset=t, lens=lens, site=Site("look", "target", "source"))
        attend(query[:, t : t + 1], key, value, score=dot, offset=t, lens=quiet)
    context = attend(query, key, value, score=dot)
    signal = lens.traces[1].signals["look.context"]
    assert (signal.axis, signal.step) == ("target", 0)
    torch.testing.assert_close(signal.values, context[1])
    assert not quiet.traces[1].signals


@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_every_head_keeps_its_own_context_when_asked_for(keep: str) -> None:
    query, key, value = sequences(heads=True)
    lens, quiet = Lens(keep, detail=["context"]), Lens(keep)
    site = Site("look", "target", "source")
    for t in range(T):
        found = attend(query[:, :, t : t + 1], key, value, score=dot, offset=t, lens=lens, site=site)
        plain = attend(query[:, :, t : t + 1], key, value, score=dot, offset=t, lens=quiet, site=site)
        torch.testing.assert_close(found, plain, rtol=0, atol=0)
    context = attend(query, key, value, score=dot)  # [B, H, T, E]
    signal = lens.traces[1].signals["look.context"]
    assert (signal.axis, signal.step) == ("target", 0)
    assert signal.values.shape == (T, context.shape[1], E)
    for head in range(context.shape[1]):
        torch.testing.assert_close(signal.values[:, head], context[1, head])
    assert not quiet.traces[1].signals


def test_gradients_flow_through_a_lens() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in sequences())
    attend(query, key, value, score=dot, lens=Lens(edits=[Boost(keys=(1,), factor=2.0)])).square().sum().backward()
    assert all(bool((tensor.grad != 0).any()) for tensor in (query, key, value))


def test_steps_become_the_rows_of_one_map() -> None:
    query, key, _ = sequences(heads=True)
    lens, whole = Lens(), weigh(query, key, score=dot, window=causal("top-left"))
    for t in range(T):
        weigh(query[:, :, t : t + 1], key, score=dot, window=causal, offset=t, lens=lens, site="self")
    assert [map.head for map in lens.traces[0].maps] == [0, 1, 2]
    torch.testing.assert_close(looked(lens, item=1, head=2), whole[1, 2])


# Kernels ----------------------------------------------------------------------------------------------------------------


def test_the_blocked_kernel_serves_large_calls_with_the_same_outputs_and_gradients() -> None:
    v = torch.randn(33, requires_grad=True)
    query, key = torch.randn(2, 129, 33, requires_grad=True), torch.randn(2, 67, 33, requires_grad=True)
    value = torch.randn(2, 67, 5)
    window = padding(torch.tensor([67, 31]))
    assert explain_choice(query, key, score=additive(v)).startswith("additive.blocked:")
    scores = reference.additive_scores(query, key, v).masked_fill(
        ~window.visible(Extent(129, 67, None, v.device, v.dtype)), -torch.inf
    )
    expected = torch.softmax(scores, -1) @ value
    context = attend(query, key, value, score=additive(v), window=window)
    torch.testing.assert_close(context, expected, rtol=1e-4, atol=1e-5)
    direction = torch.randn_like(context)
    ours = torch.autograd.grad(context, (query, key, v), direction)
    theirs = torch.autograd.grad(expected, (query, key, v), direction)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_choice_says_which_kernel_and_why() -> None:
    query, key, _ = sequences()
    said = explain_choice(query, key, score=additive(torch.randn(D)))
    assert said.startswith("additive.reference:")
    assert "additive.blocked" in said  # the faster one, and why not
    assert explain_choice(query, key, score=dot).startswith("dot.reference:")


# Shapes -----------------------------------------------------------------------------------------------------------------


def test_shapes_are_checked_against_the_signatures_under_test() -> None:
    query, key, value = sequences()
    with pytest.raises(TypeCheckError, match="'value'"):
        attend(query, key, value[:, :-1], score=dot)  # fewer values than keys
    with pytest.raises(TypeCheckError, match="'key'"):
        weigh(query, key[:1], score=dot)  # it would broadcast


def test_no_keys_at_all_give_a_context_of_zeros() -> None:
    context = attend(torch.randn(2, 3, 4), torch.randn(2, 0, 4), torch.randn(2, 0, 6), score=scaled_dot, lens=Lens())
    torch.testing.assert_close(context, torch.zeros(2, 3, 6), rtol=0, atol=0)


COMPILED = """
import torch
from saccade import attend
from saccade.attention.scores import additive
from saccade.attention.windows import padding

torch.manual_seed(1)
inputs = [torch.randn(2, *each).requires_grad_() for each in ((67, 32), (131, 32), (131, 5))]
v, window, seen = torch.randn(32), padding(torch.tensor([131, 60])), []

def record(graph, example):
    seen.extend(str(node.target) for node in graph.graph.nodes)
    return graph

def look(query, key, value):
    return attend(query, key, value, score=additive(v), window=window)

found, expected = torch.compile(look, backend=record, fullgraph=True)(*inputs), look(*inputs)
assert any("additive_attention" in target for target in seen), seen
torch.testing.assert_close(found, expected)
for ours, theirs in zip(*(torch.autograd.grad(each.pow(2).sum(), inputs) for each in (found, expected))):
    torch.testing.assert_close(ours, theirs)
"""


def test_torch_compile_takes_additive_attention_as_one_operator_with_the_same_gradients() -> None:
    # In a process of its own: torch.compile cannot record through the checks of shapes that every test runs under.
    done = subprocess.run([sys.executable, "-W", "error", "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_part_that_is_not_a_value_is_named() -> None:
    query, key, value = sequences()
    for options, message in (
        ({"score": "dot"}, "score: expected a value of saccade.attention.scores, found 'dot'"),
        ({"score": additive}, "score: expected a value of saccade.attention.scores, found additive"),
        ({"score": dot, "window": "causal"}, "window: expected a value of saccade.attention.windows, found 'causal'"),
    ):
        for call in (lambda **given: attend(query, key, value, **given), lambda **given: weigh(query, key, **given)):
            with pytest.raises(SaccadeError, match=message):
                call(**options)
    with pytest.raises(SaccadeError, match="value: expected one for each of the 7 keys, found 5"):
        attend(query, key, value[:, :5], score=dot)


def test_a_trace_knows_by_which_score_and_normaliser_each_site_looked():
    query, key = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    lens = Lens(detail=["context"])
    attend(query, key, key, score=scaled_dot, lens=lens, site="plain")
    weigh(query, key, score=general(torch.eye(8)), normalise=sparsemax, lens=lens, site="sparse")
    assert lens.trace.about == {
        "scores": {"plain": "scaled_dot", "sparse": "general"},
        "normalise": {"sparse": "sparsemax"},
    }
    counted = Lens("top")
    attend(query, key, key, score=dot, lens=counted, site="counted")
    assert counted.trace.about == {"scores": {"counted": "dot"}}


def halved(scores: Tensor) -> Tensor:
    """A user's normaliser whose rows sum to a half."""
    return softmax(scores) / 2


NORMALISERS = [softmax, sharpened(2.5), sharpened(0.5), smoothed, sparsemax, entmax15, halved]


@pytest.mark.parametrize("factor", [7.0, 0.125])
@pytest.mark.parametrize("normalise", NORMALISERS, ids=lambda each: getattr(each, "__name__", repr(each)))
def test_boost_multiplies_by_its_factor_under_every_normaliser(normalise: Normaliser, factor: float) -> None:
    query, key, _ = (tensor.double() for tensor in sequences())
    centre = torch.full((B, T), 2.3, dtype=torch.float64)
    for window, hidden in (
        (everywhere, everywhere),
        (padding([6, 7]), padding([6, 7])),
        (gaussian(centre, 3), band(3, centre)),  # a gain multiplies what was boosted and divided by its sum
    ):
        plain = weigh(query, key, score=scaled_dot, normalise=normalise, window=hidden)
        factors = torch.ones(T, S, dtype=torch.float64)
        factors[2, [1, 4]] = factor
        expected = factors * plain * plain.sum(-1, keepdim=True) / (factors * plain).sum(-1, keepdim=True)
        gain = window.gain(Extent(T, S, None, query.device, query.dtype))
        lens = Lens(edits=[Boost(keys=(1, 4), factor=factor, step=2)])
        weights = weigh(query, key, score=scaled_dot, normalise=normalise, window=window, lens=lens)
        torch.testing.assert_close(weights, expected if gain is None else expected * gain)
        torch.testing.assert_close(lens.traces[1].map().weights, weights[1])


@pytest.mark.parametrize("normalise", NORMALISERS, ids=lambda each: getattr(each, "__name__", repr(each)))
def test_no_factor_overflows_and_gradients_of_a_boost_are_finite(normalise: Normaliser) -> None:
    query, key, value = (tensor.requires_grad_() for tensor in sequences())
    seen = torch.ones(B, T, S, dtype=torch.bool)
    seen[0, 3] = False  # a query that sees nothing
    for factor in (1e300, 1e-300):
        lens = Lens(edits=[Boost(keys=(2,), factor=factor)])
        weights, context = look(query, key, value, score=dot, normalise=normalise, window=mask(seen), lens=lens)
        assert weights.isfinite().all() and not weights[0, 3].any()
        gradients = torch.autograd.grad(context.square().sum(), (query, key, value))
        assert all(gradient.isfinite().all() for gradient in gradients)

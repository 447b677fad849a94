"""The self-attention block of SAGAN (Zhang et al. 2019): what its paper and its authors' code fix.

Legend: B batch, C channels, H height, W width, N places.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn import SelfAttention2d
from saccade.trace import Lens
from saccade.trace.axes import Grid
from saccade.trace.edits import Mask


def block(channels: int = 16, gamma: float = 1.0, **options) -> SelfAttention2d:
    made = SelfAttention2d(channels, **options)
    nn.init.constant_(made.gamma, gamma)
    return made


def test_the_authors_code_has_81921_parameters_at_256_channels() -> None:
    made = SelfAttention2d(256, keys="pooled")
    assert (
        sum(parameter.numel() for parameter in made.parameters()) == 2 * 256 * 32 + 256 * 128 + 128 * 256 + 1 == 81_921
    )


def test_a_fresh_block_is_the_identity_and_only_gamma_learns_at_first() -> None:
    made, x = SelfAttention2d(16), torch.randn(2, 16, 5, 7)
    assert torch.equal(made(x), x)
    made(x).square().sum().backward()
    assert made.gamma.grad is not None and made.gamma.grad != 0
    for part in (made.query, made.key, made.value, made.output):
        assert not part.weight.grad.any()


def test_without_queries_and_keys_every_place_gets_the_mean_of_the_values() -> None:
    made, x = block(), torch.randn(2, 16, 5, 7)
    nn.init.zeros_(made.query.weight)
    nn.init.zeros_(made.key.weight)
    mean = made.output(made.value(x).mean(dim=(2, 3), keepdim=True))
    torch.testing.assert_close(made(x) - x, mean.expand_as(x))


def test_it_is_the_paper_equation_written_out() -> None:
    made, x = block(gamma=0.7), torch.randn(2, 16, 3, 5)
    f, g, h = (part(x).flatten(2) for part in (made.key, made.query, made.value))  # [B, ·, N]
    s = f.mT @ g  # s[i, j] = f(x_i)ᵀ g(x_j)
    beta = torch.softmax(s, dim=1)  # over i, for each j
    o = made.output((h @ beta).unflatten(2, (3, 5)))  # Σ_i h(x_i) β_{j,i}
    torch.testing.assert_close(made(x), 0.7 * o + x)


def test_the_lens_sees_a_row_a_place_that_sums_to_1() -> None:
    made, lens = block(), Lens()
    x = torch.randn(1, 16, 3, 5)
    plain = made(x)
    torch.testing.assert_close(made(x, lens=lens, site="mid"), plain)
    weights = lens.trace.map("mid").weights
    assert weights.shape == (15, 15)
    torch.testing.assert_close(weights.sum(-1), torch.ones(15))
    expected = torch.softmax((made.query(x).flatten(2).mT @ made.key(x).flatten(2))[0], dim=-1)
    torch.testing.assert_close(weights, expected)


def test_moving_places_moves_the_output_alike() -> None:
    made, x = block(), torch.randn(2, 16, 3, 5)
    order = torch.randperm(15)
    moved = x.flatten(2)[:, :, order].unflatten(2, (3, 5))
    torch.testing.assert_close(made(moved), made(x).flatten(2)[:, :, order].unflatten(2, (3, 5)))


def test_pooled_keys_are_the_maximum_of_two_by_two_places() -> None:
    made, x, lens = block(keys="pooled"), torch.randn(1, 16, 4, 7), Lens()
    found = made(x, lens=lens)
    key, value = (functional.max_pool2d(part(x), 2).flatten(2) for part in (made.key, made.value))
    weights = torch.softmax(made.query(x).flatten(2).mT @ key, dim=-1)
    assert weights.shape == (1, 28, 6)
    torch.testing.assert_close(lens.trace.map("self").weights, weights[0])
    torch.testing.assert_close(found, made.output((weights @ value.mT).mT.unflatten(2, (4, 7))) + x)


def test_a_trace_is_labelled_with_the_grid_and_drawn(tmp_path) -> None:
    made, lens = block(keys="pooled"), Lens()
    made(torch.randn(1, 16, 4, 6), lens=lens)
    trace = lens.trace.labelled(made.axes(4, 6))
    query, key = (trace.axes[name] for name in ("self:query", "self:key"))
    assert isinstance(query, Grid) and (query.height, query.width, key.height, key.width) == (4, 6, 2, 3)
    assert query.labels[7] == "1,1"
    assert trace.save(tmp_path / "map.png").stat().st_size > 1000


def test_an_edit_takes_places_out_of_sight() -> None:
    made, x = block(), torch.randn(1, 16, 3, 5)
    lens = Lens(edits=[Mask(site="self", keys=(4,))])
    assert not torch.allclose(made(x, lens=lens), made(x))
    assert not lens.trace.map("self").weights[:, 4].any()


def test_spectral_norm_holds_every_convolution_to_1() -> None:
    made = SelfAttention2d(16, spectral=True).train()
    for _ in range(30):
        made(torch.randn(1, 16, 3, 5))
    for part in (made.query, made.key, made.value, made.output):
        assert float(torch.linalg.matrix_norm(part.weight.detach().flatten(1), 2)) == pytest.approx(1.0, abs=1e-3)


def test_gradients_reach_every_part_once_gamma_is_not_0() -> None:
    made = block(16, 0.5, bias=True)
    made(torch.randn(2, 16, 3, 5)).square().sum().backward()
    for name, parameter in made.named_parameters():
        # A bias of the keys shifts all scores of a row alike.
        if name != "key.bias":
            assert parameter.grad is not None and bool(parameter.grad.any()), name


@pytest.mark.parametrize(
    ("made", "shape", "message"),
    [
        (lambda: SelfAttention2d(16), (1, 8, 3, 5), "expected a feature map of 16 channels, found 8"),
        (
            lambda: SelfAttention2d(16, keys="pooled"),
            (1, 16, 1, 5),
            "pooled keys need a map of 2 × 2 at least: got 1 × 5",
        ),
        (lambda: SelfAttention2d(16), (16, 3, 5), r"expected a feature map \[B, 16, H, W\], found \[16, 3, 5\]"),
        (lambda: SelfAttention2d(16), (16,), r"expected a feature map \[B, 16, H, W\], found \[16\]"),
        (lambda: SelfAttention2d(0), (1, 0, 3, 5), "channels must be at least 1: got 0"),
        (lambda: SelfAttention2d(-8), (1, 8, 3, 5), "channels must be at least 1: got -8"),
        (lambda: SelfAttention2d(16, reduced=-1), (1, 16, 3, 5), "reduced must be at least 1: got -1"),
        (lambda: SelfAttention2d(16, keys="half"), (1, 16, 3, 5), "keys must be every or pooled: got 'half'"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(made, shape, message, shapes_unchecked) -> None:
    with pytest.raises(SaccadeError, match=message):
        made()(torch.randn(shape))

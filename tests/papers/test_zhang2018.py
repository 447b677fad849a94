"""SAGAN (Zhang et al. 2018, ICML 2019): its generator and discriminator, their losses and their spectral norm.

The attention block alone is in tests/papers/test_zhang2019.py.

Legend: B batch, C channels, H, W height and width, N places.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.spatial import SelfAttention2d
from saccade.errors import SaccadeError
from saccade.models.sagan import Config, DownBlock, Sagan, UpBlock, map_sizes
from saccade.nn.gan import discriminator_loss, generator_loss
from saccade.trace import Lens
from tests.written_out import close

CLASSES = 3
SMALL = {"channels": 5, "most_channels": 13, "noise": 7, "attention": 7}


def made(seed: int = 1, size: int = 28, **settings) -> Sagan:
    torch.manual_seed(seed)
    network = Sagan(Config(**{**SMALL, **settings}), size, CLASSES).double()
    with torch.no_grad():  # no norm and no gain of a class is what it was at first
        for name, parameter in network.named_parameters():
            if "gain" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) / 2)
    for part in (network.generator, network.discriminator):
        if part.attention is not None:
            nn.init.constant_(part.attention.gamma, 0.7)
    return network


def given(network: Sagan, count: int = 5) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(4)
    noise = torch.randn(count, network.noise, generator=draw, dtype=torch.float64)
    return noise, torch.arange(count) % CLASSES


# The block, place by place ------------------------------------------------------------------------------------------------


def test_the_block_is_the_paper_written_out_place_by_place() -> None:
    torch.manual_seed(3)
    block = SelfAttention2d(16, values=6).double()
    nn.init.constant_(block.gamma, -0.6)
    x = torch.randn(2, 16, 3, 5, dtype=torch.float64)
    f, g, h, v = (part.weight.flatten(1) for part in (block.key, block.query, block.value, block.output))
    found = block(x)
    for picture, written in zip(x, found, strict=True):
        places = picture.flatten(1).T  # [N, C]
        for j in range(15):
            scores = torch.stack([(f @ places[i]) @ (g @ places[j]) for i in range(15)])
            beta = scores.exp() / scores.exp().sum()
            o = v @ sum(beta[i] * (h @ places[i]) for i in range(15))
            close(written[:, j // 5, j % 5], block.gamma * o + places[j])


def test_at_gamma_0_the_gradient_of_gamma_is_that_of_the_paper_and_the_convolutions_have_none() -> None:
    torch.manual_seed(3)
    block, x = SelfAttention2d(16).double(), torch.randn(2, 16, 3, 5, dtype=torch.float64)
    pull = torch.randn_like(x)
    (pull * block(x)).sum().backward()
    with torch.no_grad():
        nn.init.constant_(block.gamma, 1.0)
        close(block.gamma.grad, (pull * (block(x) - x)).sum())  # dy/dγ = o
    for part in (block.query, block.key, block.value, block.output):
        assert not part.weight.grad.any()


# Losses -----------------------------------------------------------------------------------------------------------------


def test_the_hinge_losses_are_those_of_the_paper() -> None:
    real, generated = torch.tensor([1.5, 0.25, -2.0, 1.0]), torch.tensor([-1.5, 0.25, 2.0, -1.0])
    expected = -torch.minimum(torch.zeros(4), -1 + real) - torch.minimum(torch.zeros(4), -1 - generated)
    torch.testing.assert_close(discriminator_loss(real, generated), expected)
    assert expected.tolist() == [0.0, 2.0, 6.0, 0.0]
    assert generator_loss(generated).tolist() == [1.5, -0.25, -2.0, 1.0]


# Spectral norm ------------------------------------------------------------------------------------------------------------


def test_every_weight_of_both_networks_is_divided_by_its_largest_singular_value() -> None:
    network = made().train()
    layers = {
        name: layer
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear | nn.Embedding) and not name.endswith(("gain", "bias"))
    }
    assert len(layers) == 1 + 2 * 3 + 1 + 4 + 3 * 3 - 1 + 4 + 2, "generator; discriminator; four of each block"
    with torch.no_grad():
        for layer in layers.values():
            layer.parametrizations.weight.original.mul_(torch.randint(2, 9, ()))
        noise, labels = given(network)
        for _ in range(60):  # one power iteration each
            network.discriminator(network.generator(noise, labels), labels)
        for name, layer in layers.items():
            own = layer.parametrizations.weight.original.flatten(1)
            largest = torch.linalg.svdvals(own)[0]
            assert largest > 1.2, f"{name} would not tell"
            torch.testing.assert_close(layer.weight.flatten(1), own / largest, rtol=1e-3, atol=1e-4)


# The networks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "sizes"), [(28, [28, 14, 7]), (32, [32, 16, 8, 4]), (12, [12, 6]), (22, [22, 11])])
def test_pictures_have_the_size_that_was_asked_for(size: int, sizes: list[int]) -> None:
    assert map_sizes(size) == sizes
    for attention in (*sizes[1:], None):
        network = made(size=size, attention=attention)
        noise, labels = given(network)
        pictures = network(noise, labels)
        assert pictures.shape == (5, 3, size, size) and float(pictures.detach().abs().max()) < 1
        assert network.discriminator(pictures, labels).shape == (5,)


def test_a_picture_of_128_has_the_channels_of_the_paper() -> None:
    with torch.device("meta"):
        network = Sagan(Config(attention=32), 128, 10)
    ups = [(block.first.in_channels, block.first.out_channels) for block in network.generator.blocks]
    assert ups == [*pairwise([1024 * 2 >> 1, 1024, 512, 256, 128, 64])][: len(ups)]
    assert network.generator.attention.channels == 256, "the paper's 32 × 32"


def test_an_up_block_normalises_by_class_and_doubles_rows_and_columns() -> None:
    torch.manual_seed(2)
    block = UpBlock(5, 3, CLASSES).double().train()
    for norm in (block.before, block.between):
        nn.init.normal_(norm.gain.weight)
        nn.init.normal_(norm.bias.weight)
    x, labels = torch.randn(4, 5, 3, 3, dtype=torch.float64), torch.tensor([2, 0, 1, 2])

    def normed(features: Tensor, norm: nn.Module) -> Tensor:
        mean, variance = features.mean((0, 2, 3), keepdim=True), features.var((0, 2, 3), unbiased=False, keepdim=True)
        gain, bias = (part.weight[labels][:, :, None, None] for part in (norm.gain, norm.bias))
        return functional.relu(gain * (features - mean) / (variance + 1e-5).sqrt() + bias)

    def doubled(features: Tensor) -> Tensor:
        return features.repeat_interleave(2, 2).repeat_interleave(2, 3)

    found = block(x, labels)
    block.eval()  # no more power iterations: the weights are those of the call above
    convolutions = [(part.weight, part.bias) for part in (block.first, block.second, block.shortcut)]
    (first, second, shortcut) = convolutions
    changed = functional.conv2d(doubled(normed(x, block.before)), *first, padding=1)
    changed = functional.conv2d(normed(changed, block.between), *second, padding=1)
    close(found, changed + doubled(functional.conv2d(x, *shortcut)))


@pytest.mark.parametrize("first", [True, False])
def test_a_down_block_pools_both_ways_and_reads_pixels_as_they_are(first: bool) -> None:
    torch.manual_seed(2)
    block = DownBlock(5, 3, first=first).double().eval()
    x = torch.randn(4, 5, 6, 6, dtype=torch.float64)
    changed = block.second(functional.relu(block.first(x if first else x.clamp(min=0))))
    expected = functional.avg_pool2d(changed, 2) + block.shortcut(functional.avg_pool2d(x, 2))
    close(block(x), expected)


def test_the_discriminator_adds_the_projection_of_the_class() -> None:
    network = made().eval()
    discriminator, pictures = network.discriminator, torch.rand(5, 3, 28, 28, dtype=torch.float64)
    kept = []
    discriminator.score.register_forward_hook(lambda layer, inputs, output: kept.append(inputs[0]))
    one, other = (discriminator(pictures, torch.full((5,), number)) for number in (0, 2))
    h = kept[0]  # Σ over places of ReLU
    e = discriminator.projection.weight
    close(one - other, h @ (e[0] - e[2]))
    close(one, h @ discriminator.score.weight[0] + discriminator.score.bias + h @ e[0])


def test_at_gamma_0_both_networks_are_those_without_attention() -> None:
    network, plain = made().eval(), made(attention=None).eval()
    for part in (network.generator, network.discriminator):
        nn.init.zeros_(part.attention.gamma)
    left = network.load_state_dict({**network.state_dict(), **plain.state_dict()})
    assert not left.unexpected_keys
    noise, labels = given(network)
    pictures = network(noise, labels)
    close(pictures, plain(noise, labels))
    close(network.discriminator(pictures, labels), plain.discriminator(pictures, labels))
    nn.init.constant_(network.generator.attention.gamma, 0.5)
    assert not torch.allclose(network(noise, labels), pictures)


@pytest.mark.parametrize(("keys", "axis", "count"), [("every", "image", 196), ("pooled", "pooled", 49)])
def test_a_lens_sees_the_map_of_the_generator_over_its_picture(keys, axis, count) -> None:
    network, lens = made(attention=14, keys=keys).eval(), Lens()
    noise, labels = given(network, 1)
    picture = network(noise, labels, lens=lens)
    assert torch.equal(picture, network(noise, labels))
    trace = lens.trace.labelled(network.axes())
    found = trace.map("generator")
    assert (found.query, found.key, list(found.weights.shape)) == ("image", axis, [196, count])
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(196, dtype=torch.float64))
    assert network.monitored() == {"gamma_generator": 0.7, "gamma_discriminator": 0.7}


def test_the_settings_of_both_phases_are_those_of_the_paper() -> None:
    network = made(lr_discriminator=3e-4, steps=5)
    assert (network.discriminator_settings, network.every) == ({"lr": 3e-4}, 5)
    assert Config().lr_discriminator == 4e-4 and Config().steps == 1


@pytest.mark.parametrize(
    ("settings", "size", "message"),
    [
        ({"attention": 16}, 28, r"feature map of pictures of 28 × 28 \(14, 7\), or null: got 16"),
        ({"attention": 28}, 28, r"\(14, 7\), or null: got 28"),
        ({}, 15, "multiple of 2, and at least 8, for sagan: got 15"),
        ({}, 6, "multiple of 2, and at least 8, for sagan: got 6"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(settings, size, message) -> None:
    with pytest.raises(SaccadeError, match=message):
        made(size=size, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"channels": 0}, "channels"), ({"lr_discriminator": 0.0}, "lr_discriminator"), ({"keys": "all"}, "keys")],
)
def test_a_config_that_makes_no_network_is_refused(settings, message, shapes_unchecked) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**settings)

"""The layers of the Transformer, against their equations and against PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from saccade.attention.windows import padding
from saccade.nn.transformer import Decoder, Encoder, EncoderLayer, FeedForward, Layout, Residual
from saccade.trace import Lens

B, S, T, D, H = 3, 7, 5, 8, 2
LENGTHS = torch.tensor([7, 3, 5])


def layout(**options: Any) -> Layout:
    return Layout(D, H, 12, **options)


def copied(layer: EncoderLayer, other: nn.TransformerEncoderLayer) -> None:
    """Our weights in PyTorch's layer."""
    attention = layer.attention
    with torch.no_grad():
        parts = (attention.query, attention.key, attention.value)
        other.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        other.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    for ours, theirs in (
        (attention.output, other.self_attn.out_proj), (layer.feed_forward.inner, other.linear1),
        (layer.feed_forward.outer, other.linear2), (layer.attention_residual.norm, other.norm1),
        (layer.feed_forward_residual.norm, other.norm2),
    ):  # fmt: skip
        theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_pytorchs(norm: Any, activation: Any) -> None:
    ours = EncoderLayer(layout(norm=norm, activation=activation, epsilon=1e-3)).double().eval()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    theirs = nn.TransformerEncoderLayer(
        D, H, 12, 0.0, activation, layer_norm_eps=1e-3, batch_first=True, norm_first=norm == "pre"
    ).double()
    copied(ours, theirs)
    states = torch.randn(B, S, D).double()
    hidden = torch.arange(S) >= LENGTHS.unsqueeze(1)
    found, expected = ours(states, window=padding(LENGTHS)), theirs(states, src_key_padding_mask=hidden)
    torch.testing.assert_close(found[~hidden], expected[~hidden])


def test_norms_stand_where_the_paper_or_its_successors_put_them() -> None:
    states, change = torch.randn(B, T, D), torch.randn(B, T, D)
    post, pre = Residual(layout()), Residual(layout(norm="pre"))
    assert post.enter(states) is states
    torch.testing.assert_close(post.leave(states, change), post.norm(states + change))
    torch.testing.assert_close(pre.enter(states), pre.norm(states))
    torch.testing.assert_close(pre.leave(states, change), states + change)
    assert isinstance(Encoder(2, layout(norm="pre")).norm, nn.LayerNorm)
    assert isinstance(Encoder(2, layout()).norm, nn.Identity)


def test_dropout_acts_in_the_documented_places() -> None:
    states = torch.ones(B, T, D)
    assert (Residual(layout(norm="pre", dropout=0.5)).leave(torch.zeros(B, T, D), states) == 0).any()
    inside = FeedForward(layout(hidden_dropout=0.5))
    assert not torch.allclose(inside(states), inside(states))
    looks = EncoderLayer(layout(attention_dropout=0.5))
    varied = torch.randn(B, T, D)
    assert not torch.allclose(looks(varied, window=padding(torch.tensor([5, 5, 5]))),
                              looks(varied, window=padding(torch.tensor([5, 5, 5]))))  # fmt: skip
    for layer in (inside, looks):
        layer.eval()
    torch.testing.assert_close(inside(states), inside(states), rtol=0, atol=0)


def test_the_fused_path_keeps_what_the_weights_would_have_given() -> None:
    """With top or statistics no weights are held; what is kept is the same, padding and all."""
    encoder = Encoder(1, Layout(16, H, 12)).eval()
    states, lengths = torch.randn(B, 40, 16), torch.tensor([40, 3, 25])
    lenses = {keep: Lens(keep, k=4) for keep in ("all", "top", "statistics")}
    outputs = [encoder(states, lengths, lens=lens) for lens in lenses.values()]
    for row, length in enumerate(lengths.tolist()):
        for output in outputs[1:]:
            torch.testing.assert_close(output[row, :length], outputs[0][row, :length], rtol=1e-4, atol=1e-5)
        dense, top, counts = (lens.traces[row].map(head=1) for lens in lenses.values())
        torch.testing.assert_close(top.tensors["weights"], dense.weights.topk(4).values, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(counts.tensors["received"], dense.weights.sum(0), rtol=1e-4, atol=1e-5)
        assert not counts.tensors["received"][length:].any()
        assert counts.tensors["received"].sum() == pytest.approx(length, rel=1e-4)  # what padding looks at is nobody's


def test_no_weights_are_held_where_only_the_top_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import saccade.attention.core as core

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the weights were materialised")

    monkeypatch.setattr(core, "weigh", refused)
    encoder, lengths = Encoder(2, Layout(16, H, 12)).eval(), torch.tensor([40, 25, 31])
    lens = Lens("top", k=3)
    encoder(torch.randn(B, 40, 16), lengths, lens=lens)
    decoder = Decoder(2, Layout(16, H, 12)).eval()
    crossed = decoder.cross(torch.randn(B, 40, 16), lengths)
    decoder(torch.randn(B, 33, 16), crossed=crossed, lens=lens)
    decoder(torch.randn(B, 33, 16), crossed=crossed)  # and none without a lens
    assert len(lens.traces[0].maps) == (2 + 4) * H


def test_sites_are_named_by_layer_and_kind_in_the_order_of_looking() -> None:
    assert [site.name for site in Encoder(2, layout()).sites] == ["encoder.0.self", "encoder.1.self"]
    names = ["decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert [site.name for site in Decoder(2, layout()).sites] == names
    alone = Decoder(2, layout(), axes=("output", "input", None))
    assert [(site.name, site.query, site.key) for site in alone.sites] == [
        ("decoder.0.self", "output", "input"), ("decoder.1.self", "output", "input"),
    ]  # fmt: skip
    assert not any("cross" in name for name, _ in alone.named_parameters())

"""look() at torch.nn: MultiheadAttention and what is made of it, with the fast path of eval mode out of the way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import saccade
from saccade.errors import SaccadeError
from saccade.trace import Lens, Mask


def own_weights(module: nn.MultiheadAttention, states: Tensor, memory: Tensor | None = None, **masks: Tensor) -> Tensor:
    """[B, H, T, S] as the module itself gives them."""
    memory = states if memory is None else memory
    with torch.no_grad():
        return module(states, memory, memory, average_attn_weights=False, **masks)[1]


@pytest.mark.parametrize(
    "options", [{}, {"kdim": 10, "vdim": 6}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}]
)
@pytest.mark.parametrize("batch_first", [True, False])
def test_weights_and_output_are_those_of_the_module(options, batch_first):
    module = nn.MultiheadAttention(12, 3, batch_first=batch_first, **options).eval()
    query, key, value = torch.randn(1, 5, 12), torch.randn(1, 7, module.kdim), torch.randn(1, 7, module.vdim)
    parts = [each if batch_first else each.transpose(0, 1) for each in (query, key, value)]
    with torch.no_grad():
        expected, weights = module(*parts, average_attn_weights=False)
    found = []
    handle = module.register_forward_hook(lambda *given: found.append(given[-1]))
    trace = saccade.look(module, None, tuple(parts))
    handle.remove()
    assert torch.allclose(found[0][0], expected, atol=1e-6)
    assert torch.allclose(found[0][1], weights.mean(1), atol=1e-6)
    for head in range(3):
        assert torch.allclose(trace.map("encoder.self", head=head).weights, weights[0, head], atol=1e-6)


@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_every_head_s_context_is_kept_when_asked_for(keep):
    module = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    states = torch.randn(1, 5, 12)
    trace = saccade.look(module, None, (states,) * 3, lens=Lens(keep, detail=["context"]))
    with torch.no_grad():
        expected = module(states, states, states)[0]
        contexts = trace.signals["encoder.self.context"].values  # [T, H, d]
        assert contexts.shape == (5, 3, 4)
        assert torch.allclose(module.out_proj(contexts.flatten(1)), expected[0], atol=1e-6)


def test_an_encoder_in_eval_mode_is_seen_layer_by_layer():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 20, batch_first=True), 3).eval()
    states = torch.randn(1, 5, 12)
    with torch.no_grad():
        expected, first = encoder(states), own_weights(encoder.layers[0].self_attn, states)
    outputs = []
    handle = encoder.register_forward_hook(lambda *given: outputs.append(given[-1]))
    trace = saccade.look(encoder, None, states, axes={"input": ["to", "be", "or", "not", "to"]})
    handle.remove()
    assert {map.site for map in trace.maps} == {f"encoder.{layer}.self" for layer in range(3)}
    assert torch.allclose(trace.map("encoder.0.self", head=1).weights, first[0, 1], atol=1e-6)
    assert torch.allclose(outputs[0], expected, atol=1e-5)
    assert trace.axes["input"].labels == ("to", "be", "or", "not", "to")
    assert torch.backends.mha.get_fastpath_enabled()
    assert "forward" not in vars(encoder.layers[0].self_attn)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_padding_does_not_lead_an_encoder_onto_its_fast_path():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 20, batch_first=True), 2).eval()
    states, padding = torch.randn(1, 7, 12), torch.arange(7)[None] >= 5
    expected = own_weights(encoder.layers[0].self_attn, states, key_padding_mask=padding)
    trace = saccade.look(encoder, None, states, src_key_padding_mask=padding)
    assert torch.allclose(trace.map("encoder.0.self", head=1).weights, expected[0, 1], atol=1e-6)


@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_causal_masks_and_padding_hide_keys(keep):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 20, batch_first=True), 1).eval()
    states = torch.randn(1, 70, 12)
    causal = nn.Transformer.generate_square_subsequent_mask(70)
    padding = torch.zeros(1, 70).masked_fill(torch.arange(70) >= 66, -torch.inf)
    expected = own_weights(encoder.layers[0].self_attn, states, attn_mask=causal, key_padding_mask=padding)
    masks = {"mask": causal, "src_key_padding_mask": padding}
    trace = saccade.look(encoder, None, states, lens=Lens(keep, k=70), **masks)
    found = trace.map("encoder.0.self", head=1)
    if keep == "statistics":
        assert torch.allclose(found.tensors["received"], expected[0, 1].sum(0), atol=1e-4)
    else:
        assert torch.allclose(found.weights, expected[0, 1], atol=1e-5)


def test_a_float_mask_that_is_more_than_yes_and_no_is_added():
    module = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    states, slopes = torch.randn(1, 5, 12), torch.randn(5, 5)
    expected = own_weights(module, states, attn_mask=slopes)
    for keep in ("all", "top"):
        trace = saccade.look(module, None, (states, states, states), lens=Lens(keep, k=5), attn_mask=slopes)
        assert torch.allclose(trace.map("encoder.self", head=2).weights, expected[0, 2], atol=1e-6)


MASKS_OF_ANOTHER_SHAPE = [
    ("attn_mask", (5, 5)),
    ("attn_mask", (5, 11)),  # too many keys
    ("attn_mask", (6, 7)),  # too many queries
    ("attn_mask", (1, 7)),
    ("attn_mask", (7,)),
    ("attn_mask", (1, 5, 7)),
    ("attn_mask", (6, 5, 7)),  # for two items
    ("attn_mask", (3, 5, 8)),
    ("attn_mask", (1, 3, 5, 7)),
    ("key_padding_mask", (1, 4)),
    ("key_padding_mask", (1, 9)),
    ("key_padding_mask", (2, 7)),
    ("key_padding_mask", (7,)),
]


@pytest.mark.parametrize(("name", "shape"), MASKS_OF_ANOTHER_SHAPE)
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_mask_of_another_shape_is_refused_as_by_the_module(name, shape, options, batch_first):
    module = nn.MultiheadAttention(12, 3, batch_first=batch_first, **options).eval()
    query, memory = torch.randn(1, 5, 12), torch.randn(1, 7, 12)
    if not batch_first:
        query, memory = query.transpose(0, 1), memory.transpose(0, 1)
    for mask in (torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)):
        with pytest.raises((AssertionError, RuntimeError)):
            module(query, memory, memory, **{name: mask})
        expected = r"\[5, 7\] or \[3, 5, 7\]" if name == "attn_mask" else r"\[1, 7\]"
        found = str(list(shape)).replace("[", r"\[")
        with pytest.raises(
            SaccadeError, match=rf"^MultiheadAttention: {name}: expected {expected} \(.*, found {found}$"
        ):
            saccade.look(module, None, (query, memory, memory), **{name: mask})


@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7)])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_masks_of_every_shape_that_the_module_takes_hide_what_they_hide_there(shape, options):
    module = nn.MultiheadAttention(12, 3, **options).eval()
    hidden, padding = torch.rand(shape) > 0.6, torch.arange(7) == 4
    hidden[..., 0] = False
    query, memory = torch.randn(5, 12), torch.randn(7, 12)  # without a batch
    expected = own_weights(module, query, memory, attn_mask=hidden, key_padding_mask=padding)
    trace = saccade.look(module, None, (query, memory, memory), attn_mask=hidden, key_padding_mask=padding)
    for head in range(3):
        assert torch.allclose(trace.map("encoder.self", head=head).weights, expected[head], atol=1e-6)
    with pytest.raises(SaccadeError, match=r"key_padding_mask: expected \[7\] \(keys\), found \[1, 7\]"):
        saccade.look(module, None, (query, memory, memory), key_padding_mask=padding[None])


def test_a_mask_of_numbers_that_are_not_fractions_is_refused_by_name():
    module, states = nn.MultiheadAttention(12, 3, batch_first=True), torch.randn(1, 5, 12)
    with pytest.raises(SaccadeError, match=r"attn_mask: expected bool .*, found torch\.int64"):
        saccade.look(module, None, (states,) * 3, attn_mask=torch.zeros(5, 5, dtype=torch.int64))
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 1)
    with pytest.raises(SaccadeError, match="only bool and floating types of mask"):
        saccade.look(encoder, None, states, mask=torch.zeros(5, 5, dtype=torch.int64))


def test_queries_with_a_batch_beside_keys_without_one_are_refused():
    module = nn.MultiheadAttention(12, 3, batch_first=True)
    for query, memory in ((torch.randn(1, 5, 12), torch.randn(7, 12)), (torch.randn(5, 12), torch.randn(1, 7, 12))):
        with pytest.raises(SaccadeError, match="query, key and value: expected three of"):
            saccade.look(module, None, (query, memory, memory))


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("mask", (8, 8), r"mask \(attn_mask of layers\.0\.self_attn\): expected \[5, 5\] or \[3, 5, 5\]"),
        ("mask", (4, 4), r"mask \(attn_mask of layers\.0\.self_attn\): expected \[5, 5\] or \[3, 5, 5\]"),
        ("src_key_padding_mask", (1, 3), r"src_key_padding_mask \(key_padding_mask of .*\): expected \[1, 5\]"),
    ],
)
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_an_encoder_s_mask_of_another_shape_is_refused_by_the_name_it_was_given_by(name, shape, said, kind):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 2)
    found = str(list(shape)).replace("[", r"\[")
    with pytest.raises(SaccadeError, match=rf"^TransformerEncoder: {said} \(.*\), found {found}$"):
        saccade.look(encoder, None, torch.randn(1, 5, 12), **{name: torch.zeros(shape, dtype=kind)})


@pytest.mark.parametrize(
    ("name", "wrong", "right", "path"),
    [
        ("src_mask", (5, 5), (7, 7), "encoder.layers.0.self_attn"),
        ("src_mask", (9, 9), (7, 7), "encoder.layers.0.self_attn"),
        ("tgt_mask", (7, 7), (5, 5), "decoder.layers.0.self_attn"),
        ("memory_mask", (7, 5), (5, 7), "decoder.layers.0.multihead_attn"),
        ("memory_mask", (5, 5), (5, 7), "decoder.layers.0.multihead_attn"),
        ("src_key_padding_mask", (1, 5), (1, 7), "encoder.layers.0.self_attn"),
        ("tgt_key_padding_mask", (1, 7), (1, 5), "decoder.layers.0.self_attn"),
        ("memory_key_padding_mask", (1, 5), (1, 7), "decoder.layers.0.multihead_attn"),
    ],
)
def test_each_mask_of_a_transformer_has_its_own_shape(name, wrong, right, path):
    model = nn.Transformer(12, 3, 1, 1, 20, batch_first=True)
    pair = torch.randn(1, 7, 12), torch.randn(1, 5, 12)
    saccade.look(model, None, pair, **{name: torch.zeros(right)})
    with pytest.raises(SaccadeError) as error:
        saccade.look(model, None, pair, **{name: torch.zeros(wrong)})
    own = "key_padding_mask" if "padding" in name else "attn_mask"
    assert f"Transformer: {name} ({own} of {path}): expected {list(right)}" in str(error.value)
    assert str(error.value).endswith(f"found {list(wrong)}")


def test_a_hint_that_a_mask_is_causal_is_refused_where_there_is_no_mask():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 1)
    states, memory = torch.randn(1, 5, 12), torch.randn(1, 7, 12)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        encoder(states, is_causal=True)
    with pytest.raises(SaccadeError, match=r"is_causal of layers\.0\.self_attn: expected a mask \[5, 5\] beside it"):
        saccade.look(encoder, None, states, is_causal=True)
    with pytest.raises(SaccadeError, match=r"MultiheadAttention: is_causal: expected a mask \[5, 7\] beside it"):
        saccade.look(encoder.layers[0].self_attn, None, (states, memory, memory), is_causal=True)
    model = nn.Transformer(12, 3, 1, 1, 20, batch_first=True)
    for name in ("src_is_causal", "tgt_is_causal", "memory_is_causal"):
        with pytest.raises(SaccadeError, match=rf"Transformer: {name} \(is_causal of .*\): expected a mask"):
            saccade.look(model, None, (memory, states), **{name: True})


def test_beside_a_hint_that_it_is_causal_the_mask_decides():
    module, states = nn.MultiheadAttention(12, 3, batch_first=True).eval(), torch.randn(1, 5, 12)
    for mask in (torch.ones(5, 5, dtype=torch.bool).triu(1), torch.ones(5, 5, dtype=torch.bool).triu(2)):
        with torch.no_grad():
            expected = module(states, states, states, attn_mask=mask, is_causal=True, average_attn_weights=False)[1]
        trace = saccade.look(module, None, (states,) * 3, attn_mask=mask, is_causal=True)
        assert torch.allclose(trace.map("encoder.self", head=1).weights, expected[0, 1], atol=1e-6)


def test_a_transformer_is_seen_at_its_three_kinds_of_sites():
    model = nn.Transformer(12, 2, 2, 2, 20, batch_first=True).eval()
    source, target = torch.randn(1, 7, 12), torch.randn(1, 5, 12)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        expected = model(source, target, tgt_mask=mask)
    outputs = []
    handle = model.register_forward_hook(lambda *given: outputs.append(given[-1]))
    trace = saccade.look(model, None, (source, target), tgt_mask=mask)
    handle.remove()
    assert torch.allclose(outputs[0], expected, atol=1e-5)
    sites = {f"{site}.{layer}.{kind}" for layer in range(2)
             for site, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))}  # fmt: skip
    assert {map.site for map in trace.maps} == sites
    cross, own = trace.map("decoder.1.cross", head=0), trace.map("decoder.1.self", head=0)
    assert (cross.query, cross.key, cross.weights.shape) == ("target", "input", (5, 7))
    assert bool((own.weights.triu(1) == 0).all())


def test_modules_that_hold_attention_somewhere_are_seen_and_edited():
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.MultiheadAttention(12, 3)

        def forward(self, states: Tensor) -> Tensor:  # [S, D], without a batch
            return self.mix(states, states, states, need_weights=False)[0].mean(0)

    model, states = Pooled(), torch.randn(5, 12)
    trace = saccade.look(model, None, states, edits=[Mask(keys=(3,))])
    assert bool((trace.map("encoder.self", head=0).weights[:, 3] == 0).all())
    assert model.training and model.mix.training


def test_a_decoder_alone_is_seen_as_one():
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, 20, batch_first=True), 2)
    trace = saccade.look(decoder, None, (torch.randn(1, 5, 12), torch.randn(1, 7, 12)))
    assert list(trace.sites) == ["decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    across = trace.map("decoder.1.cross", head=1)
    assert (across.query, across.key, across.weights.shape) == ("target", "input", (5, 7))


def test_attention_past_the_modules_is_refused_beside_attention_that_is_seen():
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.MultiheadAttention(12, 3, batch_first=True)

        def forward(self, states: Tensor) -> Tensor:
            states = self.mix(states, states, states)[0]
            return nn.functional.scaled_dot_product_attention(states, states, states)

    model, states = Mixed(), torch.randn(1, 5, 12)
    for keep in ("all", "top"):
        with pytest.raises(SaccadeError, match=r"Mixed: .*scaled_dot_product_attention"):
            saccade.look(model, None, states, keep=keep)
    assert model(states).shape == (1, 5, 12)  # without a look it is none of our business


def test_arguments_that_are_missing_are_named_as_the_module_s_own():
    with pytest.raises(SaccadeError, match=r"MultiheadAttention\.forward\(\) missing .* 'key' and 'value'"):
        saccade.look(nn.MultiheadAttention(12, 3), None, torch.randn(5, 12))


def test_everything_is_as_before_after_an_exception():
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.MultiheadAttention(12, 3)

        def forward(self, states: Tensor) -> Tensor:
            self.mix(states, states, states)
            raise KeyError("broken")

    model = Broken()
    with pytest.raises(KeyError):
        saccade.look(model, None, torch.randn(5, 12))
    assert torch.backends.mha.get_fastpath_enabled() and "forward" not in vars(model.mix)
    assert not model.mix._forward_pre_hooks and model.mix.training


def test_a_model_without_attention_is_an_error():
    with pytest.raises(SaccadeError, match="Linear: no attention ran"):
        saccade.look(nn.Linear(3, 5), None, torch.randn(2, 3))


def test_a_batch_is_an_error_that_says_what_to_do():
    module = nn.TransformerEncoderLayer(12, 2, 20, batch_first=True)
    with pytest.raises(
        SaccadeError, match="expected one input, found attention over 3 at once: pass inputs one at a time"
    ):
        saccade.look(module, None, torch.randn(3, 5, 12))

"""look() at models of transformers: every weight as eager attention gives it, and the model as it was."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import saccade
from saccade.errors import SaccadeError
from saccade.trace import Boost, Grid, Lens, Mask, Set, Trace
from tests.foreign.tiny_models import TEXT, tiny, tokenizer
from tests.kernels.live import LiveMemory

TARGET = "a mat and its own tail"


def differences(trace: Trace, expected: Any, part: str) -> float:
    """The greatest difference from weights [B, H, T, S], one tensor a layer."""
    worst = 0.0
    stack, kind = part.split(".")
    for layer, weights in enumerate(expected):
        for head in range(weights.shape[1]):
            found = trace.map(f"{stack}.{layer}.{kind}", head=head).weights
            assert found.shape == weights.shape[2:]
            worst = max(worst, float((found - weights[0, head].detach()).abs().max()))
    return worst


def ids(text: str = TEXT) -> Tensor:
    return tokenizer()(text, return_tensors="pt")["input_ids"]


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("bert", "encoder.self"),
        ("gpt2", "decoder.self"),
        ("llama", "decoder.self"),
        ("mistral", "decoder.self"),
        ("gemma2", "decoder.self"),
        ("gpt_oss", "decoder.self"),
    ],
)
def test_weights_are_those_of_eager_attention(kind, part):
    model = tiny(kind)
    expected = model(ids(), output_attentions=True).attentions
    trace = saccade.look(model, tokenizer(), TEXT)
    assert differences(trace, expected, part) < 1e-6
    assert expected[0].std() > 0.05  # flat weights would agree with anything
    assert trace.axes["input"].labels == ("[CLS]", "the", "cat", "looked", "at", "a", "mat", "[SEP]")
    assert trace.axes["input"].special == (0, 7)
    assert len(trace.maps) == sum(each.shape[1] for each in expected)


@pytest.mark.parametrize(
    ("kind", "score", "normalise"),
    [
        ("bert", "scaled_dot", None),
        ("gpt2", "scaled_dot", None),
        ("gemma2", None, None),
        ("gpt_oss", "scaled_dot", "softmax with a sink"),
    ],
)
def test_a_score_is_named_where_it_is_one_that_has_a_name(kind, score, normalise):
    trace = saccade.look(tiny(kind), tokenizer(), TEXT)
    for told, expected in (("scores", score), ("normalise", normalise)):
        assert trace.about.get(told) == (None if expected is None else dict.fromkeys(trace.sites, expected))


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "mistral", "gemma2", "gpt_oss", "t5"])
@pytest.mark.parametrize("keep", ["top", "statistics"])
def test_what_is_kept_is_kept_of_the_same_weights(kind, keep):
    model = tiny(kind)
    options = {"target": TARGET} if kind == "t5" else {}
    whole = saccade.look(model, tokenizer(), TEXT, **options)
    kept = saccade.look(model, tokenizer(), TEXT, lens=Lens(keep, k=3), **options)
    for dense, map in zip(whole.maps, kept.maps, strict=True):
        assert (dense.site, dense.head, map.kind) == (map.site, map.head, keep)
        weights = dense.weights
        if keep == "top":
            expected = weights.topk(3).values
            assert torch.allclose(map.tensors["weights"], expected, atol=1e-5)
            assert torch.allclose(map.tensors["residual"], weights.sum(-1) - expected.sum(-1), atol=1e-5)
        else:
            assert torch.allclose(map.tensors["received"], weights.sum(0), atol=1e-5)
            assert torch.allclose(map.tensors["entropy"], torch.special.entr(weights).sum(-1), atol=1e-5)


def test_an_encoder_and_a_decoder_are_seen_at_their_three_kinds_of_sites():
    for kind in ("t5", "bart"):
        model = tiny(kind)
        output = model(ids(), labels=ids(TARGET), output_attentions=True)
        trace = saccade.look(model, tokenizer(), TEXT, target=TARGET)
        assert differences(trace, output.encoder_attentions, "encoder.self") < 1e-6
        assert differences(trace, output.decoder_attentions, "decoder.self") < 1e-6
        assert differences(trace, output.cross_attentions, "decoder.cross") < 1e-6
        cross = trace.map("decoder.1.cross", head=2)
        assert (cross.query, cross.key) == ("target", "input")
        assert trace.axes["target"].labels[1:4] == ("a", "mat", "and")  # a row is known by what it writes
        assert trace.axes["prefix"].labels[2:4] == ("a", "mat")  # and a key by what was read


def test_a_speech_model_is_seen_with_its_tensors_as_they_are():
    model, sound = tiny("whisper"), torch.randn(1, 8, 30)
    output = model(sound, decoder_input_ids=ids(), output_attentions=True)
    trace = saccade.look(model, None, {"input_features": sound, "decoder_input_ids": ids()})
    assert differences(trace, output.encoder_attentions, "encoder.self") < 1e-6
    assert differences(trace, output.cross_attentions, "decoder.cross") < 1e-6
    assert len(trace.axes["input"]) == 15


def test_patches_of_an_image_are_a_grid_with_the_image():
    model, pixels = tiny("vit"), torch.randn(1, 3, 12, 12)
    expected = model(pixels, output_attentions=True).attentions
    trace = saccade.look(model, None, pixels)
    assert differences(trace, expected, "encoder.self") < 1e-6
    assert trace.axes["image"].labels[:3] == ("[CLS]", "0,0", "0,1")
    grid = trace.axes["patches"]
    assert isinstance(grid, Grid) and (grid.height, grid.width) == (3, 3) and grid.image.shape == (12, 12, 3)
    assert torch.equal(trace.map("encoder.1.self.patches", head=0).weights, expected[1][0, 0, :, 1:])


def test_of_the_greatest_weights_those_over_patches_are_kept_apart():
    model, pixels = tiny("vit"), torch.randn(1, 3, 12, 12)
    top = saccade.look(model, None, pixels, keep="top", k=4)
    whole, patches = top.map("encoder.0.self", head=1), top.map("encoder.0.self.patches", head=1)
    assert torch.equal(patches.weights, whole.weights[:, 1:])
    total = patches.tensors["weights"].sum(-1) + patches.tensors["residual"]
    assert torch.allclose(total, torch.ones(10), atol=1e-5)
    assert bool((patches.tensors["weights"].diff(dim=-1) <= 0).all())


def test_layers_that_share_a_module_are_seen_pass_by_pass():
    model = tiny("albert")
    expected = model(ids(), output_attentions=True).attentions
    trace = saccade.look(model, tokenizer(), TEXT)
    assert torch.equal(trace.map("encoder.0.self", head=1).weights, expected[0][0, 1])
    assert torch.equal(trace.map("encoder.0.self#2", head=1).weights, expected[1][0, 1])


def test_padding_is_not_looked_at():
    model = tiny("bert")
    padded = tokenizer()(TEXT, return_tensors="pt", padding="max_length", max_length=11)
    expected = model(**padded, output_attentions=True).attentions
    for keep in ("all", "top"):
        trace = saccade.look(model, tokenizer(), dict(padded), lens=Lens(keep, k=11))
        found = trace.map("encoder.1.self", head=2).weights
        assert torch.allclose(found, expected[1][0, 2], atol=1e-6)
        assert bool((found[:, 8:] == 0).all())


@pytest.mark.parametrize("kind", ["bert", "llama", "mistral"])
def test_texts_in_a_list_give_a_trace_each(kind):
    model = tiny(kind)
    traces = saccade.look(model, tokenizer(), [TEXT, "a mat"])
    alone = saccade.look(model, tokenizer(), "a mat")
    assert [len(trace.axes["input"]) for trace in traces] == [8, 4]
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(traces[1].maps, alone.maps))


def test_texts_may_come_from_a_generator_a_series_or_an_array():
    model, texts = tiny("bert"), [TEXT, "a mat"]
    for given in ((text for text in texts), pd.Series(texts), np.array(texts)):
        assert [len(trace.axes["input"]) for trace in saccade.look(model, tokenizer(), given)] == [8, 4]
    with pytest.raises(SaccadeError, match=r"inputs: .* cannot read this DataFrame"):
        saccade.look(model, tokenizer(), pd.DataFrame({"text": texts}))


def test_each_of_several_texts_has_its_own_target():
    model, targets = tiny("t5"), ["the cat", "a mat sat"]
    both = saccade.look(model, tokenizer(), [TEXT, "a mat"], target=targets)
    for trace, text, target in zip(both, [TEXT, "a mat"], targets, strict=True):
        alone = saccade.look(model, tokenizer(), text, target=target)
        assert trace.about["output"] == target
        assert all(torch.equal(a.weights, b.weights) for a, b in zip(trace.maps, alone.maps, strict=True))


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_the_encoder_of_an_encoder_and_a_decoder_is_seen_alone(kind):
    model = tiny(kind)
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    trace = saccade.look(model.get_encoder(), None, ids)
    assert list(trace.sites) == ["encoder.0.self", "encoder.1.self"]
    with torch.no_grad():
        theirs = model.get_encoder()(ids, output_attentions=True).attentions
    torch.testing.assert_close(trace.map("encoder.1.self", head=2).weights, theirs[1][0, 2], atol=1e-6, rtol=1e-4)


def test_two_texts_in_a_tuple_are_one_input():
    trace = saccade.look(tiny("bert"), tokenizer(), ("the cat", "a mat"))
    assert trace.axes["input"].labels == ("[CLS]", "the", "cat", "[SEP]", "a", "mat", "[SEP]")


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_look_leaves_the_model_as_it_was(attention):
    model = tiny("bert", attention=attention).train()
    model.encoder.layer[1].eval()
    modes = [module.training for module in model.modules()]
    saccade.look(model, tokenizer(), TEXT)
    with pytest.raises(SaccadeError):
        saccade.look(model, tokenizer(), TEXT, edits=[Mask(keys=(99,))])
    assert model.config._attn_implementation == attention
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "mistral", "gemma2"])
@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_the_output_under_a_lens_is_the_output_without(kind, keep):
    model, found = tiny(kind), []
    handle = model.register_forward_hook(lambda module, given, output: found.append(output[0].detach()))
    model(ids())
    saccade.look(model, tokenizer(), TEXT, keep=keep)
    handle.remove()
    assert torch.allclose(found[0], found[1], atol=1e-4 * float(found[0].abs().max()))


def test_edits_change_what_the_model_computes():
    model, outputs = tiny("bert"), {}

    def last_layer(*edits: Any) -> Trace:
        return saccade.look(model, tokenizer(), TEXT, edits=edits)

    outputs["plain"] = last_layer().map("encoder.1.self", head=0).weights
    masked = last_layer(Mask(keys=(2, 5), site="encoder.0.self"))
    assert bool((masked.map("encoder.0.self", head=1).weights[:, (2, 5)] == 0).all())
    assert not torch.allclose(masked.map("encoder.1.self", head=0).weights, outputs["plain"], atol=1e-4)
    row = [0.0] * 7 + [1.0]
    forced = last_layer(Set(row=row, site="encoder.1.self", head=2, step=3)).map("encoder.1.self", head=2).weights
    assert forced[3].tolist() == row
    before, after = last_layer(), last_layer(Boost(keys=(4,), factor=50.0, site="encoder.0.self"))
    odds = [trace.map("encoder.0.self", head=0).weights for trace in (before, after)]
    ratio = (odds[1][:, 4] / odds[1][:, 0]) / (odds[0][:, 4] / odds[0][:, 0])
    assert torch.allclose(ratio, torch.full_like(ratio, 50.0), rtol=1e-3)


def test_edits_also_work_where_statistics_are_kept():
    lens = Lens("statistics", edits=[Mask(keys=(2,))])
    trace = saccade.look(tiny("llama"), tokenizer(), TEXT, lens=lens)
    assert all(float(map.tensors["received"][2]) == 0 for map in trace.maps)
    assert lens.records


def test_a_lens_can_look_again_and_keeps_the_records_of_both():
    lens, model = Lens(), tiny("bert")
    first, second = (saccade.look(model, tokenizer(), text, lens=lens) for text in (TEXT, "a mat"))
    assert len(first.maps) == len(second.maps) == 6
    assert [record.keys for record in lens.records] == [8, 8, 4, 4]


def test_an_edit_that_never_applies_is_an_error():
    with pytest.raises(SaccadeError, match=r"never applied: the model has sites encoder\.0\.self"):
        saccade.look(tiny("bert"), tokenizer(), TEXT, edits=[Mask(keys=(0,), site="encoder.9.self")])


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral"])
@pytest.mark.parametrize("keep", ["top", "statistics"])
def test_no_t_by_s_tensor_exists_where_less_is_kept(kind, keep, monkeypatch):
    T = 768
    for name in ("saccade.kernels.statistics.blocked", "saccade.foreign.masks", "saccade.foreign.attention"):
        monkeypatch.setattr(f"{name}.BLOCK_NUMBERS", 1 << 14)
    sizes = {"n_positions": T, "n_layer": 1} if kind == "gpt2" else {"num_hidden_layers": 1}
    model = tiny(kind, **sizes)
    tokens = torch.randint(4, 18, (1, T))
    peaks = {}
    for kept in (keep, "all"):
        with LiveMemory(model.parameters()) as memory:
            saccade.look(model, None, tokens, lens=Lens(kept, k=2))
        peaks[kept] = memory.peak
    heads = model.config.num_attention_heads
    assert peaks[keep] < T * T < heads * T * T < peaks["all"]


def test_a_model_that_does_not_ask_for_an_attention_function_is_refused_by_name():
    with pytest.raises(SaccadeError, match=r"DebertaV2Model .*attention interface"):
        saccade.look(tiny("deberta"), tokenizer(), TEXT)


def test_attention_that_runs_unseen_is_an_error(monkeypatch):
    model = tiny("bert")
    silent = model.encoder.layer[1].attention.self
    monkeypatch.setattr(silent, "forward", lambda states, *rest, **options: (states, None), raising=False)
    with pytest.raises(SaccadeError, match=r"1 of its attention modules .*\(encoder\.layer\.1\.attention\.self\)"):
        saccade.look(model, tokenizer(), TEXT)


def test_parts_of_one_input_laid_side_by_side_are_refused_as_such():
    import transformers

    config = transformers.SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[1], num_heads=[2], window_size=4)
    with pytest.raises(SaccadeError, match=r"found attention over 4 at once: .*one input"):
        saccade.look(transformers.SwinModel(config), None, torch.rand(1, 3, 16, 16))


def test_attention_of_another_formula_is_refused(monkeypatch):
    from transformers.models.bert import modeling_bert

    own = modeling_bert.eager_attention_forward
    monkeypatch.setattr(
        modeling_bert,
        "eager_attention_forward",
        lambda module, query, key, *rest, **options: own(module, query * 2, key, *rest, **options),
    )
    with pytest.raises(SaccadeError, match=r"BertModel: BertSelfAttention .*softmax"):
        saccade.look(tiny("bert"), tokenizer(), TEXT)


@pytest.mark.parametrize("kind", ["bert", "llama", "mistral"])
def test_attention_of_another_formula_is_refused_in_every_type(kind, monkeypatch):
    model = tiny(kind)
    file = sys.modules[type(model).__module__]
    own = file.eager_attention_forward
    monkeypatch.setattr(
        file,
        "eager_attention_forward",
        lambda module, query, key, *rest, **options: own(module, query * 1.02, key, *rest, **options),
    )
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        with pytest.raises(SaccadeError, match=r"softmax\(scale"):
            saccade.look(model.to(dtype), tokenizer(), TEXT)


@pytest.mark.parametrize(
    ("kind", "part"), [("llama", "decoder.self"), ("mistral", "decoder.self"), ("bert", "encoder.self")]
)
def test_float64_is_looked_at_though_a_model_takes_the_softmax_in_float32(kind, part):
    model = tiny(kind).double()
    expected = model(ids(), output_attentions=True).attentions
    trace = saccade.look(model, tokenizer(), TEXT)
    assert trace.maps[0].weights.dtype is torch.float64
    assert differences(trace, expected, part) < 1e-6
    top = saccade.look(model, tokenizer(), TEXT, keep="top", k=8)
    assert differences(top, expected, part) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "mistral"])
def test_half_types_are_looked_at_in_float32(kind, dtype):
    model = tiny(kind).to(dtype)
    part = "encoder.self" if kind == "bert" else "decoder.self"
    whole, top, told = (
        saccade.look(model, tokenizer(), TEXT, lens=Lens(keep, k=3)) for keep in ("all", "top", "statistics")
    )
    assert differences(whole, model(ids(), output_attentions=True).attentions, part) < 0.03
    for dense, kept, counted in zip(whole.maps, top.maps, told.maps, strict=True):
        for name, tensor in [*dense.tensors.items(), *kept.tensors.items(), *counted.tensors.items()]:
            assert tensor.dtype is (torch.int64 if name in ("index", "argmax") else torch.float32), name
        assert torch.allclose(dense.weights.sum(-1), torch.ones(8), atol=1e-6)
        mass = kept.tensors["weights"].sum(-1) + kept.tensors["residual"]
        assert torch.allclose(mass, torch.ones(8), atol=1e-6)
        assert math.isclose(float(counted.tensors["received"].sum()), 8, abs_tol=1e-5)


@pytest.mark.parametrize("length", [5, 75])
@pytest.mark.parametrize("padding", [0, 2])
def test_of_half_types_the_same_scores_are_kept_in_every_way(length, padding):
    model = tiny("bert", max_position_embeddings=80).to(torch.bfloat16)
    tokens, real = torch.randint(4, 18, (1, length)), torch.arange(length)[None] < length - padding
    given = {"input_ids": tokens, "attention_mask": real.long()}
    query, key = [], []
    layer = model.encoder.layer[0].attention.self
    for part, into in ((layer.query, query), (layer.key, key)):
        part.register_forward_hook(lambda module, given, output, into=into: into.append(output.float()))
    whole = saccade.look(model, None, given).map("encoder.0.self", head=1).weights
    scores = query[0][0, :, 8:16] @ key[0][0, :, 8:16].T * 8**-0.5
    expected = scores.masked_fill(~real, -math.inf).softmax(-1)
    assert torch.allclose(whole, expected, atol=1e-6)
    top = saccade.look(model, None, given, keep="top", k=3).map("encoder.0.self", head=1)
    assert torch.allclose(top.tensors["weights"], expected.topk(3).values, atol=1e-6)
    told = saccade.look(model, None, given, keep="statistics").map("encoder.0.self", head=1).tensors
    assert torch.allclose(told["entropy"], torch.special.entr(expected).sum(-1), atol=1e-5)
    assert torch.allclose(told["received"], expected.sum(0), atol=1e-5)


def test_under_autocast_weights_are_those_of_the_half_type_s_states():
    model = tiny("llama")
    with torch.autocast("cpu", torch.bfloat16):
        whole, top = (saccade.look(model, tokenizer(), TEXT, lens=Lens(keep, k=8)) for keep in ("all", "top"))
    exact = saccade.look(model, tokenizer(), TEXT)
    for seen, kept, sure in zip(whole.maps, top.maps, exact.maps, strict=True):
        assert seen.weights.dtype is kept.tensors["weights"].dtype is torch.float32
        assert torch.allclose(seen.weights, sure.weights, atol=0.05)
    # Later layers get contexts of other kernels, rounded otherwise.
    assert torch.allclose(whole.maps[0].weights, top.maps[0].weights, atol=1e-6)


def test_scores_so_great_that_half_types_round_them_far_are_no_other_formula():
    model = tiny("llama").to(torch.bfloat16)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 10
    texts = [torch.randint(4, 18, (1, 37), generator=torch.Generator().manual_seed(seed)) for seed in range(5)]
    assert len(saccade.look(model, None, texts)) == 5


def test_a_trace_tells_which_module_a_site_is():
    trace = saccade.look(tiny("t5"), tokenizer(), TEXT, target=TARGET)
    assert trace.about["model"] == "T5ForConditionalGeneration"
    assert trace.about["sites"]["decoder.1.cross"] == "decoder.block.1.layer.1.EncDecAttention"
    assert (trace.about["input"], trace.about["output"]) == (TEXT, TARGET)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: saccade.look(tiny("t5"), tokenizer(), TEXT),
            r"T5ForConditionalGeneration has a decoder: pass target=",
        ),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, target="a"), "target= is for models"),
        (lambda: saccade.look(tiny("bert"), None, TEXT), "expected tensors .*found str"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, keep="some"), "keep must be"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, keep="top", lens=Lens()), "not both"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, k=5, lens=Lens("top", k=2)), "k= and edits=, not both"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, k=3), "with keep='top': got k=3 with keep='all'"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, k=16), "with keep='top': got k=16 with keep='all'"),
        (
            lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, keep="statistics", k=3),
            "with keep='top': got k=3 with keep='statistics'",
        ),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, keep="top", k=0), "k must be a whole number"),
        (
            lambda: saccade.look(tiny("bert"), tokenizer(), torch.ones(3, 5, dtype=torch.int64)),
            "expected one input, found",
        ),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, axes={"input": ["a"]}), "expected 8 labels, found 1"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, axes={"inputs": ["a"]}), "expected names among input"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), TEXT, generate={}), "BertModel .*generate="),
        (lambda: saccade.look("bert-base-uncased", tokenizer(), TEXT), "model: expected a torch.nn.Module, found str"),
        (lambda: saccade.look(tiny("bert"), tokenizer(), 3), r"inputs: \w+ cannot read this int \(ValueError: "),
        (
            lambda: saccade.look(tiny("bert"), tokenizer(), {"text": ["a", "a mat"]}),
            r"inputs: \w+ cannot read this dict",
        ),
        (lambda: saccade.look(tiny("bert"), tokenizer(), ()), "inputs: expected a text, .* found an empty tuple"),
        (lambda: saccade.look(tiny("gpt2"), None, torch.ones(1, 70, dtype=torch.int64)), "cannot take .* 64 positions"),
        (
            lambda: saccade.look(tiny("bert", max_position_embeddings=64), None, torch.ones(1, 70, dtype=torch.int64)),
            "BertModel: .*64 positions",
        ),
        (
            lambda: saccade.look(tiny("vit"), None, torch.rand(1, 5, 12, 12)),
            "ViTModel: .*cannot take",
        ),
        (
            lambda: saccade.look(tiny("gpt2"), None, torch.ones(0, 5, dtype=torch.int64)),
            r"inputs: expected .*found \[0, 5\] \(input_ids\)",
        ),
        (lambda: saccade.look(tiny("gpt2"), tokenizer(), TEXT, kep="top"), r"kep: .* \(did you mean 'keep'\?\)"),
        (lambda: saccade.look(tiny("t5"), tokenizer(), TEXT, target=3), "target: expected a text, found int 3"),
        (
            lambda: saccade.look(tiny("t5"), tokenizer(), [TEXT, "a mat"], target=["the"]),
            "a list with one for each of a list of inputs, found 1 for a list of 2",
        ),
        (
            lambda: saccade.look(tiny("t5"), tokenizer(), TEXT, target=["the"]),
            "a list with one for each of a list of inputs, found 1 for one input",
        ),
        (
            lambda: saccade.look(tiny("gpt2"), tokenizer(), TEXT, generate=True),
            "generate: expected options .* found True",
        ),
    ],
)
def test_what_cannot_be_done_is_reported(call, message):
    with pytest.raises(SaccadeError, match=message):
        call()


def test_a_model_is_as_it_was_after_its_own_error():
    model = tiny("gpt2", attention="sdpa").train()
    with pytest.raises(SaccadeError, match="index out of range"):
        saccade.look(model, None, torch.full((1, 5), 999))
    assert model.config._attn_implementation == "sdpa" and model.training
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_tokenizer_that_knows_no_names_numbers_its_tokens():
    def ids(text, **_):
        return {"input_ids": torch.tensor([[5, 6, 7]])}

    trace = saccade.look(tiny("gpt2"), ids, "a b c")
    assert trace.axes["input"].labels == ("5", "6", "7")


def test_a_trace_is_saved_and_drawn_like_any_other(tmp_path):
    trace = saccade.look(tiny("bert"), tokenizer(), TEXT, keep="top", k=3)
    trace.save(tmp_path / "x.trace")
    trace.save(tmp_path / "x.svg")
    loaded = saccade.Trace.load(tmp_path / "x.trace")
    assert math.isclose(float(loaded.maps[0].weights.sum()), float(trace.maps[0].weights.sum()))

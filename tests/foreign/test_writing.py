"""look() while a model writes: a row a step, equal to what eager attention gives, labelled by what was written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import saccade
from saccade.errors import SaccadeError
from saccade.trace import Boost, Lens, Mask
from tests.foreign.tiny_models import TEXT, tiny, tokenizer, transformers

GREEDY: dict[str, Any] = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
PROMPT = 8


def written(model: Any, **options: Any) -> Any:
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    return model.generate(ids, **options, output_attentions=True, return_dict_in_generate=True)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma2"])
def test_each_step_is_a_row_as_eager_attention_gives_it(kind):
    model = tiny(kind)
    expected = written(model, **GREEDY)
    trace = saccade.look(model, tokenizer(), TEXT, generate=GREEDY)
    for layer in range(2):
        for head in range(model.config.num_attention_heads):
            rows = trace.map(f"decoder.{layer}.self", head=head).weights
            assert rows.shape == (5, PROMPT + 4)
            for step, layers in enumerate(expected.attentions):
                row = layers[layer][0, head, -1]
                read = PROMPT + step  # a cache that forgets has the last of them
                assert torch.allclose(rows[step, read - len(row) : read], row, atol=1e-6)
                assert torch.isclose(rows[step].sum(), torch.tensor(1.0), atol=1e-5)
            prompt = trace.map(f"decoder.{layer}.self.prompt", head=head)
            assert (prompt.query, prompt.key) == ("prompt", "prompt")
            assert torch.allclose(prompt.weights, expected.attentions[0][layer][0, head], atol=1e-6)


def test_axes_are_the_prompt_and_what_was_written():
    model, words = tiny("gpt2"), tokenizer()
    sequence = written(model, **GREEDY).sequences[0].tolist()
    trace = saccade.look(model, words, TEXT, generate=GREEDY)
    tokens = [words.decode([token]) for token in sequence]
    assert list(trace.axes["prompt"].labels) == tokens[:PROMPT]
    assert list(trace.axes["output"].labels) == tokens[PROMPT:]
    assert list(trace.axes["prefix"].labels) == tokens[:-1]  # nothing looked at the last token
    assert trace.about["output"] == words.decode(sequence[PROMPT:], skip_special_tokens=True)
    assert len(set(tokens[PROMPT:])) > 1


@pytest.mark.parametrize("kind", ["mistral", "gemma2"])
def test_keys_beyond_a_sliding_window_keep_their_places_though_the_cache_forgot_them(kind):
    model = tiny(kind)
    lenses = Lens(), Lens("top", k=3)
    dense, top = (saccade.look(model, tokenizer(), TEXT, lens=lens, generate=GREEDY) for lens in lenses)
    for head in range(4):
        weights = dense.map("decoder.0.self", head=head).weights
        for step in range(5):
            seen = weights[step].nonzero().flatten().tolist()
            assert seen == list(range(PROMPT - 3 + step, PROMPT + step))
        assert torch.allclose(top.map("decoder.0.self", head=head).weights, weights, atol=1e-6)


def test_statistics_of_the_steps_are_those_of_their_weights():
    model = tiny("mistral")
    dense, kept = (saccade.look(model, tokenizer(), TEXT, keep=keep, generate=GREEDY) for keep in ("all", "statistics"))
    for site in ("decoder.1.self", "decoder.1.self.prompt"):
        weights, found = dense.map(site, head=2).weights, kept.map(site, head=2).tensors
        assert torch.allclose(found["received"], weights.sum(0), atol=1e-5)
        assert torch.equal(found["argmax"], weights.argmax(-1))


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_an_encoder_and_a_decoder_write_looking_at_the_input(kind):
    model = tiny(kind)
    expected = written(model, **GREEDY)
    trace = saccade.look(model, tokenizer(), TEXT, generate=GREEDY)
    cross = trace.map("decoder.1.cross", head=2)
    assert (cross.query, cross.key, cross.weights.shape) == ("output", "input", (5, PROMPT))
    for step, layers in enumerate(expected.cross_attentions):
        assert torch.allclose(cross.weights[step], layers[1][0, 2, 0], atol=1e-6)
    assert torch.allclose(trace.map("encoder.0.self", head=0).weights, expected.encoder_attentions[0][0, 0], atol=1e-6)
    assert len(trace.axes["output"]) == len(trace.axes["prefix"]) == 5
    assert "prompt" not in trace.axes


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_rows_of_a_beam_search_follow_the_hypothesis_that_won(kind):
    model, words = tiny(kind), tokenizer()
    model.lm_head.weight.data *= 0.1  # less sure of itself, so that hypotheses change places
    beam = {"max_new_tokens": 6, "num_beams": 5, "do_sample": False}
    result = written(model, **beam, output_scores=True)
    trace = saccade.look(model, words, TEXT, generate=beam)
    output = [words.convert_tokens_to_ids(label) for label in trace.axes["output"].labels]
    start = PROMPT if kind == "gpt2" else 1
    sequence = result.sequences[0].tolist()
    assert output == sequence[start : start + len(output)]
    assert len(set(result.beam_indices[0].tolist())) > 1  # rows were exchanged on the way
    forced = _forced(model, kind, sequence[: start + len(output)])
    rows = trace.map("decoder.1.self", head=1).weights
    assert torch.allclose(rows, forced[start - 1 : start - 1 + len(output), : rows.shape[1]], atol=1e-5)


def _forced(model: Any, kind: str, sequence: list[int]) -> Tensor:
    read = torch.tensor([sequence[:-1]])
    with torch.no_grad():
        if kind == "gpt2":
            return model(read, output_attentions=True).attentions[1][0, 1]
        ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
        return model(ids, decoder_input_ids=read, output_attentions=True).decoder_attentions[1][0, 1]


def test_an_edit_changes_what_is_written():
    model = tiny("gpt2")
    plain = saccade.look(model, tokenizer(), TEXT, generate=GREEDY)
    # The query that writes output token 2 stands at position 9: the prompt has 8 tokens.
    edit = Boost(keys=(1,), factor=1e6, step=PROMPT - 1 + 2)
    edited = saccade.look(model, tokenizer(), TEXT, generate=GREEDY, edits=[edit])
    for head in range(3):
        before, after = (trace.map("decoder.0.self", head=head).weights for trace in (plain, edited))
        assert torch.allclose(before[:2], after[:2], atol=1e-6) and float(after[2, 1]) > 0.9 > float(before[2, 1])
    masked = saccade.look(model, tokenizer(), TEXT, generate=GREEDY, edits=[Mask(keys=(1, 2, 3))])
    assert masked.about["output"] != plain.about["output"]


def test_an_edit_of_a_token_that_is_yet_to_be_written_waits_for_it():
    model = tiny("gpt2")
    trace = saccade.look(model, tokenizer(), TEXT, generate=GREEDY, edits=[Mask(keys=(PROMPT + 1,))])
    weights = trace.map("decoder.0.self", head=0).weights
    assert bool((weights[:, PROMPT + 1] == 0).all()) and bool((weights[-1, : PROMPT + 1] > 0).all())
    with pytest.raises(SaccadeError, match=rf"Mask: there are \d+ keys \(0 to \d+\), found key {PROMPT + 99}"):
        saccade.look(model, tokenizer(), TEXT, generate=GREEDY, edits=[Mask(keys=(PROMPT + 99,))])


@pytest.mark.parametrize("cache", [None, "static"])
def test_a_cache_of_fixed_size_shows_nothing_that_was_not_read(cache):
    model = tiny("llama")
    trace = saccade.look(model, tokenizer(), TEXT, generate={**GREEDY, "cache_implementation": cache})
    assert trace.map("decoder.0.self", head=0).weights.shape == (5, PROMPT + 4)


def test_writing_that_cannot_be_followed_is_refused():
    with pytest.raises(SaccadeError, match=r"one new token per step.*cache"):
        saccade.look(tiny("gpt2"), tokenizer(), TEXT, generate={**GREEDY, "use_cache": False})
    with pytest.raises(SaccadeError, match="num_return_sequences must be 1"):
        saccade.look(tiny("gpt2"), tokenizer(), TEXT, generate={**GREEDY, "num_return_sequences": 2})
    configured = transformers.GenerationConfig(num_beams=2, num_return_sequences=2, max_new_tokens=3)
    with pytest.raises(SaccadeError, match="num_return_sequences must be 1"):
        saccade.look(tiny("gpt2"), tokenizer(), TEXT, generate={"generation_config": configured})
    with pytest.raises(SaccadeError, match=r"GPT2LMHeadModel\.generate: .*max_tokens"):
        saccade.look(tiny("gpt2"), tokenizer(), TEXT, generate={"max_tokens": 5})


def test_beams_of_a_configuration_are_followed_as_those_of_an_option():
    configured = transformers.GenerationConfig(num_beams=3, max_new_tokens=4, pad_token_id=0, eos_token_id=3)
    options = {"num_beams": 3, "max_new_tokens": 4, "pad_token_id": 0, "eos_token_id": 3}
    one, other = (
        saccade.look(tiny("llama"), tokenizer(), TEXT, generate=each)
        for each in (options, {"generation_config": configured})
    )
    assert one.about["output"] == other.about["output"]
    first, second = (trace.map("decoder.1.self", head=2).weights for trace in (one, other))
    assert torch.equal(first, second)


def test_tokens_that_the_tokenizer_does_not_know_go_by_their_numbers():
    from tokenizers import Tokenizer, models, pre_tokenizers

    few = Tokenizer(models.WordLevel({"the": 0, "cat": 1, "?": 2}, unk_token="?"))
    few.pre_tokenizer = pre_tokenizers.Whitespace()
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=few)
    options = {
        "max_new_tokens": 3,
        "do_sample": False,
        "pad_token_id": 0,
        "eos_token_id": None,
        "suppress_tokens": [0, 1, 2],
    }
    trace = saccade.look(tiny("gpt2"), words, "the cat sat", generate=options)
    assert all(label.isdecimal() for label in trace.axes["output"].labels)

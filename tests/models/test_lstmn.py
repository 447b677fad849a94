"""The LSTMN: its tapes in training and in searches, its classifier, its fields."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.models.lstmn import ClassifierConfig, Config, Lstmn, LstmnLM, State
from saccade.nn.cuda_graphs import EagerDevice
from saccade.nn.ensemble import Ensemble
from saccade.nn.language import Memory
from saccade.nn.search.beam_search import Search, search, select
from saccade.nn.search.fast_beam import AHEAD, Recorder
from saccade.testing import check_classifier
from saccade.trace import Lens, Mask

V, T = 13, 7
TOKENS = torch.tensor([[1, 4, 5, 6, 7, 8, 9], [1, 8, 9, 10, 11, 12, 4], [1, 5, 5, 5, 5, 12, 3]])


def network(seed: int = 1, **fields: Any) -> LstmnLM:
    torch.manual_seed(seed)
    model = LstmnLM(Config(**{"hidden": 6, "embedding": 4, "layers": 2, **fields}), V).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


# Training -----------------------------------------------------------------------------------------------------------------


def gradients(model: LstmnLM, logits: Tensor) -> dict[str, Tensor]:
    torch.log_softmax(logits, dim=-1)[..., 3:].pow(2).sum().backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    return found


@pytest.mark.usefixtures("shapes_unchecked")
def test_gradients_flow_through_the_state_from_step_to_step_and_from_read_to_read() -> None:
    model = network()
    whole = gradients(model, model(TOKENS))
    memory = Memory(TOKENS[:, 0], model.blank(3), 0)
    first, state = model.read(TOKENS[:, :4])
    second, _ = model.read(TOKENS[:, 4:], None, state)
    for logits in (model.sample(memory, TOKENS, 0.0), model.write(torch.cat([first, second], dim=1))):
        for name, gradient in gradients(model, logits).items():
            torch.testing.assert_close(gradient, whole[name], rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_gradients_are_those_of_finite_differences() -> None:
    model = network(layers=1)
    embedded = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 2])

    def states(x: Tensor) -> Tensor:
        found: Tensor = model.cells(x, lengths, model.blank(2))[0]
        return found

    assert torch.autograd.gradcheck(states, (embedded,))


def test_dropout_acts_in_training_alone_and_on_no_tape() -> None:
    plain, dropping = network(), network(dropout=0.4)
    dropping.load_state_dict(plain.state_dict())
    torch.testing.assert_close(dropping(TOKENS), plain(TOKENS), rtol=0, atol=0)
    dropping.train()
    assert not torch.allclose(dropping(TOKENS), dropping(TOKENS))
    states, after = dropping.read(TOKENS)
    torch.testing.assert_close(after.values[1][..., :6], states, rtol=0, atol=0)


# Steps --------------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_state_can_be_gone_on_from_twice() -> None:
    model = network()
    _, state = model.read(TOKENS[:, :3])
    before = [part.clone() for part in (*state.keys, *state.values, *state.summaries, state.read)]
    one, _ = model.step(TOKENS[:, 3], state, (), offset=3)
    model.step(TOKENS[:, 5], state, (), offset=3)
    again, _ = model.step(TOKENS[:, 3], state, (), offset=3)
    torch.testing.assert_close(again, one, rtol=0, atol=0)
    for part, expected in zip((*state.keys, *state.values, *state.summaries, state.read), before, strict=True):
        assert torch.equal(part, expected)


@torch.no_grad()
def test_steps_in_a_room_keep_their_shapes_and_write_in_it() -> None:
    model = network()
    _, state = model.read(TOKENS[:, :3])
    roomy = model.make_room(state, 0)
    assert isinstance(roomy, State) and (roomy.places, roomy.used_before) == (32, 8)
    assert model.make_room(roomy, 23) is roomy
    assert model.make_room(roomy, 24).places == 64
    _, plain = model.step(TOKENS[:, 3], state, (), offset=0)
    _, after = model.step(TOKENS[:, 3], roomy, (), offset=0)
    assert after.keys[0].data_ptr() == roomy.keys[0].data_ptr()
    torch.testing.assert_close(after.values[1][:, :4], plain.values[1])
    rows = torch.tensor([2, 0])
    assert select(after, rows).used_before == 8


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("members", [1, 2])
@torch.no_grad()
def test_recorded_steps_write_the_same_also_when_the_room_grows(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["saccade.nn.search.beam_search"], "policy_of", lambda device: AHEAD)
    each = [network(1), network(2, query="code", layers=1)][:members]
    model: Any = each[0] if members == 1 else Ensemble(each).eval()
    recorder, options = Recorder(EagerDevice()), {"bos": 1, "eos": -1, "forbidden": (0, 1)}
    lengths = torch.tensor([5, 1, 3])
    for how in (Search(beam=3, n_best=2), Search()):
        recorded = search(model, model.encode(TOKENS, lengths), [36] * 3, how, recorder=recorder, **options)
        plain = search(model, model.encode(TOKENS, lengths), [36] * 3, how, **options)
        for ours, theirs in zip(recorded, plain, strict=True):
            assert [one.tokens for one in ours] == [other.tokens for other in theirs]
            assert [one.log_prob for one in ours] == pytest.approx([other.log_prob for other in theirs], abs=1e-6)
    assert recorder.refused == ""
    assert len(recorder.recordings) >= 2


# Looking ------------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_masked_word_is_seen_by_none_and_changes_what_follows() -> None:
    model = network(layers=1)
    plain, lens = model(TOKENS), Lens(edits=[Mask((2,), step=4)])
    changed = model(TOKENS, lens=lens)
    weights = lens.traces[0].map("decoder.0.self").weights
    assert weights[4, 2] == 0 and weights[5, 2] > 0
    torch.testing.assert_close(weights.sum(-1), torch.tensor([0.0, *[1.0] * (T - 1)]).double())
    torch.testing.assert_close(changed[:, :4], plain[:, :4])
    assert not torch.allclose(changed[:, 4], plain[:, 4])


@torch.no_grad()
def test_a_word_is_masked_once_it_is_on_the_tape() -> None:
    model, lens = network(layers=1), Lens(edits=[Mask((2,))])
    model(TOKENS, lens=lens)
    weights = lens.traces[0].map("decoder.0.self").weights
    assert bool((weights[:, 2] == 0).all()) and weights[5, 3] > 0


# The classifier -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"layers": 2}, {"query": "code", "judge": 5}])
def test_the_classifier_keeps_every_promise(fields: dict[str, Any]) -> None:
    check_classifier(Lstmn, ClassifierConfig(hidden=6, embedding=4, **fields))


@torch.no_grad()
def test_labels_are_judged_by_the_mean_of_the_top_tape() -> None:
    model = Lstmn(ClassifierConfig(hidden=6, embedding=4, judge=5), V, 3).eval()
    tokens, length = TOKENS[:1, :4], torch.tensor([4])
    states, _ = model.cells(model.embedding(tokens), None, model.cells.blank(1, model.embedding.weight))
    hidden = torch.relu(states.mean(1) @ model.judge.weight.T + model.judge.bias)
    torch.testing.assert_close(model(tokens, length), hidden @ model.output.weight.T + model.output.bias)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("bad", [{"hidden": 0}, {"layers": 0}, {"judge": 0}, {"dropout": 1.0}, {"query": "both"}])
def test_bad_fields_are_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        ClassifierConfig(**bad)
    if "judge" not in bad:
        with pytest.raises(ValueError, match=next(iter(bad))):
            Config(**bad)

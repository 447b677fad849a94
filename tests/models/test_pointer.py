"""Pointer networks, line by line; what every network keeps is in tests/contracts/test_models.py."""

from __future__ import annotations

import pytest
import torch

from saccade.models.pointer import END, SITE, Config, Pointer
from saccade.nn.search.beam_search import Search, search
from saccade.trace import Lens

POINTS, LENGTHS = torch.rand(2, 5, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([5, 3])
TARGET = torch.tensor([[END, 4, 2, 5], [END, 3, 1, 2]])


def network(**options: object) -> Pointer:
    return Pointer(Config(7, **options), 2).eval()  # type: ignore[arg-type]


def test_the_weights_are_the_output_and_the_chosen_point_is_the_next_input() -> None:
    model, lens = network(), Lens()
    logits = model(POINTS, LENGTHS, TARGET, lens=lens)
    states, state = model.encoder(POINTS, LENGTHS)
    keys = torch.cat([model.end.expand(2, 1, 7), states], dim=1)
    for t in range(4):
        fed = [
            model.first if int(token) == END and t == 0 else POINTS[b, token - 1]
            for b, token in enumerate(TARGET[:, t])
        ]
        hidden, state = model.decoder.step(torch.stack(fed), state)
        scores = torch.tanh((hidden @ model.query_weight.mT).unsqueeze(1) + keys @ model.key_weight.mT) @ model.v
        for item, length in enumerate(LENGTHS.tolist()):
            expected = torch.softmax(scores[item, : length + 1], -1)
            torch.testing.assert_close(torch.softmax(logits[item, t], -1)[: length + 1], expected)
            torch.testing.assert_close(lens.traces[item].map(SITE.name).weights[t, : length + 1], expected)


def test_padding_cannot_be_pointed_at() -> None:
    logits = network()(POINTS, LENGTHS, TARGET)
    assert (torch.softmax(logits[1], -1)[:, 4:] < 1e-30).all()


def test_the_output_grows_with_the_input() -> None:
    model = network()
    assert model(torch.rand(1, 9, 2), torch.tensor([9]), TARGET[:1]).shape == (1, 4, 10)


def test_the_paper_may_point_at_a_place_again_and_without_revisits_it_may_not() -> None:
    again, once = network(revisit=True), network(revisit=False)
    once.load_state_dict(again.state_dict())
    for model, expected in ((again, True), (once, False)):
        weights = torch.softmax(model(POINTS, LENGTHS, TARGET), -1)
        assert bool(weights[0, 1, 4] > 1e-6) is expected  # after pointing at 4
        assert bool(weights[0, 2, 4] > 1e-6) is expected  # … and later
        assert weights[0, 0, 4] > 1e-6
        assert weights[0, 1, END] > 1e-6  # the end is never used up


def test_without_revisits_a_search_visits_each_point_at_most_once_and_can_always_end() -> None:
    torch.manual_seed(4)
    model = network(revisit=False)
    with torch.no_grad():
        model.end.fill_(-3.0)
    found = search(model, model.encode(POINTS, LENGTHS), [9, 9], Search(beam=3, n_best=3), bos=END, eos=END)
    for many, length in zip(found, LENGTHS.tolist(), strict=True):
        for hypothesis in many:
            assert len(set(hypothesis.tokens)) == len(hypothesis.tokens) <= length
            assert set(hypothesis.tokens) <= set(range(1, length + 1))
            assert hypothesis.stopped == "eos"


def test_what_has_no_probability_keeps_a_finite_loss() -> None:
    model = network(revisit=False)
    points = POINTS.clone().requires_grad_()
    impossible = torch.tensor([[4, 4, 2, 5], [3, 3, 1, 2]])  # the second step points at what was just visited
    logits = model(points, LENGTHS, TARGET)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), impossible.flatten())
    loss.backward()
    assert loss.isfinite()
    assert points.grad.isfinite().all()


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden must be at least 1: got 0"):
        Config(hidden=0)

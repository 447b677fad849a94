"""Luong's attention after the step, line by line; what every network keeps is in tests/contracts/test_models.py."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.attention.core import explain_choice
from saccade.attention.scores import Prepared
from saccade.attention.windows import Padding
from saccade.models.luong import SITE, Config, Luong
from saccade.trace import Lens

SOURCE = torch.tensor([[4, 5, 6, 7, 2], [7, 2, 0, 0, 0]])
LENGTHS = torch.tensor([5, 2])
TARGET = torch.tensor([[1, 3, 4], [1, 5, 6]])


def network(**options: object) -> Luong:
    return Luong(Config(6, 4, **{"init": "torch", "radius": 1, **options}), 9, 11).eval()  # type: ignore[arg-type]


def looked(model: Luong, item: int = 0, target: torch.Tensor = TARGET) -> torch.Tensor:
    lens = Lens()
    model(SOURCE, LENGTHS, target, lens=lens)
    return lens.traces[item].map(SITE.name).weights


@pytest.mark.parametrize("fed", [False, True])
def test_each_step_moves_first_then_looks_then_feeds_the_attentional_vector_back(fed: bool) -> None:
    model = network(input_feeding=fed, layers=2)
    logits, memory = model(SOURCE, LENGTHS, TARGET), model.encode(SOURCE, LENGTHS)
    state, attentional = memory.start, torch.zeros(2, 6)
    real = torch.arange(5) < LENGTHS.unsqueeze(-1)
    for t in range(3):
        embedded = model.target_embedding(TARGET[:, t])
        hidden, state = model.decoder.step(torch.cat([embedded, attentional], -1) if fed else embedded, state)
        scores = torch.einsum("bn,nm,bsm->bs", hidden, model.attention.weight, memory.annotations)
        weights = torch.softmax(scores.masked_fill(~real, -torch.inf), -1)
        context = (weights.unsqueeze(-1) * memory.annotations).sum(1)
        attentional = torch.tanh(torch.cat([context, hidden], -1) @ model.combine.weight.mT)
        torch.testing.assert_close(logits[:, t], model.output(attentional))


def test_the_combining_layer_has_no_bias() -> None:
    assert network().combine.bias is None


def test_the_encoders_states_start_the_decoder_layer_by_layer() -> None:
    model = network(layers=3)
    memory = model.encode(SOURCE, LENGTHS)
    _, final = model.encoder(model.source_embedding(SOURCE), LENGTHS)
    for part, expected in zip(memory.start, final, strict=True):
        torch.testing.assert_close(part, expected)
    assert not model.start(memory).fed.any()  # zeros at the first step


def test_both_ways_halves_are_joined_by_a_bridge() -> None:
    model = network(layers=2, bidirectional=True)
    memory = model.encode(SOURCE, LENGTHS)
    assert memory.annotations.shape == (2, 5, 6)
    _, (hidden, cell) = model.encoder(model.source_embedding(SOURCE), LENGTHS)
    for bridge, part, start in zip(model.bridge, (hidden, cell), memory.start, strict=True):
        for layer in range(2):
            joined = torch.cat([part[:, layer], part[:, 2 + layer]], -1)
            torch.testing.assert_close(start[:, layer], torch.tanh(bridge(joined)))


def test_a_reversed_source_is_read_backwards_and_shown_forwards() -> None:
    model = network(reverse=True)
    memory = model.encode(SOURCE, LENGTHS)
    states, _ = model.encoder(model.source_embedding(torch.tensor([[7, 6, 5, 4, 2], [7, 2, 0, 0, 0]])), LENGTHS)
    torch.testing.assert_close(memory.annotations[0], states[0, [3, 2, 1, 0, 4]])
    torch.testing.assert_close(memory.annotations[1, :2], states[1, :2])


def test_local_m_looks_around_its_own_step() -> None:
    weights = looked(network(window="local-m"))
    assert (weights > 0).tolist() == [
        [True, True, False, False, False],
        [True, True, True, False, False],
        [False, True, True, True, False],
    ]
    torch.testing.assert_close(weights.sum(-1), torch.ones(3))


def test_local_m_past_the_end_of_the_source_sees_nothing_and_stays_finite() -> None:
    model = network(window="local-m")
    target = torch.tensor([[1, 3, 4, 3, 4, 3], [1, 5, 6, 5, 6, 5]])
    weights = looked(model, 1, target)
    assert (weights[3:] == 0).all()
    assert model(SOURCE, LENGTHS, target).isfinite().all()


def test_local_p_has_its_centre_in_the_true_length_not_in_the_padded_one() -> None:
    model = network(window="local-p")
    hidden = torch.randn(2, 3, 6)
    where = torch.sigmoid(torch.tanh(hidden @ model.position.weight.mT) @ model.position_vector)
    torch.testing.assert_close(model.centre(hidden, LENGTHS), LENGTHS.unsqueeze(-1) * where - 1)


def test_local_p_multiplies_by_a_gaussian_and_does_not_normalise_again() -> None:
    model = network(window="local-p", radius=2, input_feeding=False)
    memory = model.encode(SOURCE, LENGTHS)
    hidden, _ = model.decoder(model.target_embedding(TARGET), initial=memory.start)
    centre = model.centre(hidden, LENGTHS)[0]
    weights = looked(model)
    for t in range(3):
        first, last = max(0, int(centre[t].floor()) - 2), min(5, int(centre[t].floor()) + 3)
        scores = hidden[0, t] @ model.attention.weight @ memory.annotations[0, first:last].mT
        places = torch.arange(first, last)
        expected = torch.zeros(5)
        expected[first:last] = torch.softmax(scores, -1) * torch.exp(-((places - centre[t]) ** 2) / 2)
        torch.testing.assert_close(weights[t], expected)
        assert float(weights[t].sum()) < 0.99


def test_location_ignores_words_beyond_its_places() -> None:
    weights = looked(network(score="location", places=3))
    assert (weights[:, :3] > 0).all()
    assert not weights[:, 3:].any()


def test_settings_that_mean_nothing_are_refused() -> None:
    for options, message in (
        ({"radius": 0}, "radius must be at least 1"),
        ({"bidirectional": True, "hidden": 7}, "hidden must be even"),
        ({"bidirectional": True, "reverse": True}, "reverse has no meaning"),
    ):
        with pytest.raises(ValueError, match=message):
            Config(**options)  # type: ignore[arg-type]


def long_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources that are long beside a window of radius 1, and targets."""
    lengths = torch.tensor([29, 17, 23])
    source = torch.randint(3, 9, (3, 29)).masked_fill(torch.arange(29) >= lengths.unsqueeze(-1), 0)
    return source, lengths, torch.randint(3, 11, (3, 13))


@pytest.mark.parametrize("score", ["dot", "general", "concat"])
@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_a_local_window_over_a_padded_batch_is_served_by_the_local_kernels_with_the_same_numbers(
    window: str, score: str
) -> None:
    model = network(window=window, score=score, input_feeding=False)
    source, lengths, target = long_batch()
    memory = model.encode(source, lengths)
    hidden, _ = model.decoder(model.target_embedding(target), initial=memory.start)
    look, keys = model.attention, Prepared(memory.keys)
    said = explain_choice(
        hidden, keys, memory.annotations, score=look.score, window=model._window(hidden, memory), offset=0
    )
    assert said.startswith("local.") and "a query sees 3 of 29 keys" in said
    parameters = list(model.parameters())
    results = []
    for lens in (None, Lens()):  # under a lens that keeps all, the weights are whole
        logits = model(source, lengths, target, lens=lens)
        results.append([logits, *torch.autograd.grad(logits.square().sum(), parameters)])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_many_queries_are_told_lengths_which_nobody_counts_and_one_gets_the_mask() -> None:
    model = network(input_feeding=False)
    source, lengths, _ = long_batch()
    memory = model.encode(source, lengths)
    assert memory.lengths is lengths
    many, one = (model._window(torch.randn(3, T, 6), memory) for T in (13, 1))
    assert isinstance(many, Padding) and many.keep is lengths
    assert isinstance(one, Padding) and one.keep is memory.real


class Waits(TorchDispatchMode):
    """Counts the times that a number is read back from a tensor."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_no_number_is_read_back_on_the_way_to_the_local_kernels(window: str) -> None:
    model = network(window=window, input_feeding=False)
    with Waits() as waits:
        model(*long_batch()).sum().backward()
    assert waits.count == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_local_p_places_its_window_in_float32_whatever_the_dtype(dtype: torch.dtype) -> None:
    model, lengths = network(window="local-p"), torch.tensor([3001, 777])
    hidden = torch.randn(2, 3, model.position.in_features).to(dtype)
    with torch.no_grad():
        centre = model.to(dtype).centre(hidden, lengths)
        exact = model.double().centre(hidden.double(), lengths)
    assert centre.dtype == torch.float32
    torch.testing.assert_close(centre.double(), exact, rtol=0, atol=2e-3)
    with torch.autocast("cpu", dtype=dtype):
        under = model.float().centre(hidden.float(), lengths)
    torch.testing.assert_close(under.double(), exact, rtol=0, atol=2e-3)

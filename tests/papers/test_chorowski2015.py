"""Attention-based speech recognition (Chorowski et al. 2015): the paper's numbers, and its equations written out in float64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from saccade.attention.core import weigh
from saccade.attention.normalise import sharpened, smoothed, softmax, top
from saccade.attention.recent import around, mean_position, median
from saccade.errors import SaccadeError
from saccade.kernels.location.reference import convolved
from saccade.models.listen_attend import Config, ListenAttend
from saccade.nn.listener import Focus, Heard, monotonic_penalty
from saccade.nn.search.beam_search import Search, search
from saccade.trace import Lens
from tests.written_out import below, both_ways, check_decoder, drawn, gru, linear, unit_of

B, N, D, V = 3, 13, 4, 11
START, EOS = 1, 2
LENGTHS = torch.tensor([13, 5, 8])
TARGET = torch.tensor([[1, 4, 5, 9, 3, 7], [1, 10, 2, 0, 0, 0], [1, 3, 3, 7, 2, 0]])
SMALL: dict[str, Any] = {
    "hidden": 3, "layers": 2, "state": 5, "embedding": 2, "alignment": 7, "filters": 3, "reach": 2, "maxout": 4,
}  # fmt: skip


def frames() -> Tensor:
    return torch.randn(B, N, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def network(**settings: Any) -> ListenAttend:
    torch.manual_seed(2)
    return drawn(ListenAttend(Config(**{**SMALL, **settings}), V, D, START))


# The sheet's numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("normalise", "expected"),
    [
        (softmax, [0.0171, 0.0466, 0.9362]),
        (sharpened(2.0), [0.0003, 0.0025, 0.9972]),
        (smoothed, [0.2259, 0.3303, 0.4437]),
        (top(2), [0.0, 0.0474, 0.9526]),
        (top(1, sharpened(2.0)), [0.0, 0.0, 1.0]),
        (top(2, smoothed), [0.0, 0.4268, 0.5732]),
    ],
)
def test_three_scores_get_these_weights(normalise: Any, expected: list[float]) -> None:
    weights = normalise(torch.tensor([[0.0, 1.0, 4.0]]))[0]
    assert [round(weight, 4) for weight in weights.tolist()] == expected


def test_one_filter_spreads_the_previous_weights_and_keeps_their_length() -> None:
    previous = functional.one_hot(torch.tensor([1]), 5).double()
    features = convolved(previous, torch.tensor([[0.25, 0.5, 0.25]], dtype=torch.float64))
    assert features[0, :, 0].tolist() == [0.25, 0.5, 0.25, 0.0, 0.0]


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_window_lies_around_the_median_or_the_mean_and_has_no_gradient() -> None:
    weights = torch.tensor([[[0.4, 0.0, 0.05, 0.3, 0.0, 0.25]]], requires_grad=True)
    assert median(weights).item() == 3 and mean_position(weights).item() == 2  # 2.25
    seen = [around(weights, 1, centre).visible(_extent(6)) for centre in ("median", "mean")]  # type: ignore[arg-type]
    assert [part[0, 0].nonzero().flatten().tolist() for part in seen] == [[2, 3, 4], [1, 2, 3]]
    assert not any(part.requires_grad for part in seen)
    with pytest.raises(SaccadeError, match="centre must be median or mean: got 'mode'"):
        around(weights, 1, "mode")  # type: ignore[arg-type]


def _extent(keys: int) -> Any:
    from saccade.attention.windows import Extent

    return Extent(1, keys, None, torch.device("cpu"), torch.float32, 1)


def test_the_penalty_is_how_far_the_mean_of_the_weights_goes_back() -> None:
    weights = torch.softmax(torch.randn(2, 4, 5, dtype=torch.float64), -1)
    real = torch.tensor([[True] * 4, [True, True, False, False]])
    expected = 0.0
    for row, steps in enumerate((4, 2)):
        for i in range(1, steps):
            sums = [(weights[row, i, : j + 1].sum() - weights[row, i - 1, : j + 1].sum()).item() for j in range(5)]
            expected += max(0.0, sum(sums))
    assert float(monotonic_penalty(weights, real)) == pytest.approx(expected, abs=1e-12)


# The equations --------------------------------------------------------------------------------------------------------


def written_out(made: ListenAttend, sound: Tensor, words: Tensor, focus: Focus | None = None) -> tuple[Tensor, Tensor]:
    """Logits [T, V] and weights [T, L] of one recording, one number of the weights at a time."""
    weights, config, focus = dict(made.state_dict()), made.config, focus or Focus()
    states = list(sound)
    for layer in range(config.layers):
        states = both_ways(gru, below(weights, f"encoder.layers.{layer}"), states)
        step = config.pooling[layer] if layer < len(config.pooling) else 1
        states = states[::step]
    L, r = len(states), config.reach
    alpha = torch.zeros(L, dtype=torch.float64)
    alpha[0] = 1
    hidden, context, rows, looks = weights["initial"], None, [], []
    for token in words.tolist():
        if token != START:
            (hidden,) = gru(
                unit_of(below(weights, "cell")), torch.cat([weights["embedding.weight"][token], context]), (hidden,)
            )
        scores = []
        for j, h in enumerate(states):
            inner = weights["query_weight"] @ hidden + weights["bias"]
            if config.attention != "location":
                inner = inner + weights["key_weight"] @ h
            if config.attention != "content":
                around_j = [alpha[j + k - r] if 0 <= j + k - r < L else torch.tensor(0.0) for k in range(2 * r + 1)]
                inner = inner + weights["location_weight"] @ (weights["filters"] @ torch.stack(around_j).double())
            scores.append(weights["v"] @ torch.tanh(inner))
        strength = torch.stack(scores)
        strength = (
            torch.sigmoid(strength + weights["shift"])
            if config.normalise == "smoothed"
            else (focus.sharpen * strength).exp()
        )
        radius = config.window if focus.window is None else focus.window
        if radius is not None:
            places = torch.arange(L)
            middle = int((alpha.cumsum(0) < 0.5).sum())
            if config.centre == "mean":
                middle = round(float((alpha * places).sum()))
            strength = torch.where((places - middle).abs() <= radius, strength, 0.0)
        if focus.top is not None:
            least = strength.sort(descending=True).values[focus.top - 1]
            strength = torch.where(strength >= least, strength, 0.0)
        alpha = strength / strength.sum()
        context = sum(weight * h for weight, h in zip(alpha, states, strict=True))
        pieces = linear(below(weights, "readout"), torch.cat([hidden, context])).view(-1, 2).amax(-1)
        rows.append(linear(below(weights, "output"), pieces))
        looks.append(alpha)
    return torch.stack(rows), torch.stack(looks)


SETTINGS = [
    {"attention": "content"},
    {"attention": "location"},
    {"attention": "hybrid"},
    {"attention": "hybrid", "normalise": "smoothed", "pooling": (1, 2)},
    {"attention": "content", "pooling": (3,), "window": 1, "layers": 1},
    {"attention": "hybrid", "window": 2, "centre": "mean"},
    {"attention": "location", "reach": 9, "window": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_network_is_the_equations_to_1e_10(settings: dict[str, Any]) -> None:
    made, sound = network(**settings), frames()

    def expected(row: int) -> tuple[Tensor, Tensor]:
        return written_out(made, sound[row, : LENGTHS[row]], TARGET[row])

    check_decoder(made, sound, LENGTHS, TARGET, expected)
    with torch.no_grad():
        taught = made(sound, LENGTHS, TARGET)
        for row in range(B):
            assert (taught[row] - expected(row)[0]).abs().max() < 1e-10


def test_the_papers_initialisation_draws_all_weights_and_no_bias() -> None:
    torch.manual_seed(4)
    made = ListenAttend(Config(**{**SMALL, "alignment": 500, "init": "paper", "normalise": "smoothed"}), V, D, START)
    for weights in (made.v, made.query_weight, made.filters, made.readout.weight):
        assert 0.005 < weights.std().item() < 0.015
    assert not any(bool(bias.any()) for bias in (made.bias, made.shift, made.readout.bias, made.output.bias))


@pytest.mark.parametrize(
    "focus", [Focus(sharpen=2.5), Focus(top=2), Focus(sharpen=0.5, top=3, window=2), Focus(window=1)]
)
def test_focus_changes_the_weights_of_a_trained_network_as_the_paper_says(focus: Focus) -> None:
    for attention in ("content", "hybrid"):
        made, sound = network(attention=attention), frames()
        with torch.no_grad():
            found = made.focused(focus)(sound, LENGTHS, TARGET)
            for row in range(B):
                logits, _ = written_out(made, sound[row, : LENGTHS[row]], TARGET[row], focus)
                assert (found[row] - logits).abs().max() < 1e-10
            assert not torch.allclose(found, made(sound, LENGTHS, TARGET)), "the network itself is as it was"
    with pytest.raises(SaccadeError, match=r"search\.focus\.sharpen: expected 1 with model\.normalise smoothed"):
        network(normalise="smoothed").focused(Focus(sharpen=2.0))


def test_without_the_features_hybrid_is_content_exactly() -> None:
    hybrid, content = network(attention="hybrid"), network(attention="content")
    content.load_state_dict({name: part for name, part in hybrid.state_dict().items() if name in content.state_dict()})
    with torch.no_grad():
        hybrid.location_weight.zero_()
        for kind in (torch.float64, torch.float32):
            sound = frames().to(kind)
            seen = [Lens(), Lens()]
            both = [
                made.to(kind)(sound, LENGTHS, TARGET, lens=lens)
                for made, lens in zip((hybrid, content), seen, strict=True)
            ]
            assert torch.equal(*both)
            for one, other in zip(*(lens.traces for lens in seen), strict=True):
                assert torch.equal(one.maps[0].weights, other.maps[0].weights)


def test_the_convolution_gets_the_previous_weights_and_not_their_sum() -> None:
    made, sound = network(attention="location"), frames()
    with torch.no_grad():
        memory = made.encode(sound, LENGTHS)
        state, total = made.start(memory), 0.0
        for offset in range(3):
            _, after = made.step(TARGET[:, offset], state, memory, offset=offset)
            hidden = after.hidden.unsqueeze(1)
            total = total + state.weights
            query, expected = hidden, [state.weights, total]
            given = [
                weigh(
                    query, memory.keys, score=made.score.after(part.unsqueeze(1)), window=made.window(part, memory.real)
                )
                for part in expected
            ]
            torch.testing.assert_close(given[0].squeeze(1), after.weights)
            assert offset == 0 or not torch.allclose(given[1].squeeze(1), after.weights)
            state = after


def test_frames_that_are_padding_have_no_weight_before_the_convolution() -> None:
    made, sound = network(), frames()
    with torch.no_grad():
        memory = made.encode(sound, LENGTHS)
        state = made.start(memory)
        for offset in range(5):
            _, state = made.step(TARGET[:, offset], state, memory, offset=offset)
            for row, length in enumerate(LENGTHS):
                assert not state.weights[row, length:].any()
                assert float(state.weights[row].sum()) == pytest.approx(1.0)


def test_the_first_frame_has_all_the_weight_before_the_first_step() -> None:
    made, sound = network(), frames()
    weights = made.start(made.encode(sound, LENGTHS)).weights
    assert weights.tolist() == [[1.0] + [0.0] * 12] * B


def test_training_reaches_every_parameter_and_the_window_stops_no_gradient_but_its_own() -> None:
    for attention, window in itertools.product(("content", "location", "hybrid"), (None, 2)):
        made = network(attention=attention, window=window, ctc=0.3, monotonic=0.2)
        heard = Heard()
        logits = made(frames(), LENGTHS, TARGET, heard=heard)
        assert len(heard.weights) == TARGET.shape[1]
        extra = made.regulariser(heard, TARGET.roll(-1, 1), torch.tensor([4, 2, 3]), torch.tensor([True] * 3))
        (functional.cross_entropy(logits.flatten(0, 1), TARGET.roll(-1, 1).flatten()) + extra).backward()
        for name, parameter in made.named_parameters():
            assert parameter.grad is not None and bool(parameter.grad.any()), name
            assert bool(parameter.grad.isfinite().all()), name


def test_a_lens_sees_the_weights_and_if_asked_the_features_of_the_filters() -> None:
    made, sound, lens = network(), frames(), Lens(detail=["features", "state"])
    with torch.no_grad():
        made(sound, LENGTHS, TARGET, lens=lens)
    trace = lens.traces[0]
    features = trace.signals["decoder.features"]
    assert features.axis == "target" and features.values.shape == (6, SMALL["filters"], N)
    torch.testing.assert_close(
        features.values[3].mT, convolved(trace.maps[0].weights[2:3], made.filters.cpu())[0].detach()
    )
    assert trace.signals["decoder.state"].values.shape == (6, SMALL["state"])
    assert (trace.maps[0].query, trace.maps[0].key) == ("target", "sound")


@pytest.mark.parametrize("attention", ["content", "location", "hybrid"])
def test_every_hypothesis_has_the_maps_of_forced_decoding(attention: str) -> None:
    made, sound = network(attention=attention, pooling=(2,)), frames()
    with torch.no_grad():
        memory = made.encode(sound, LENGTHS)
        marks = {"bos": START, "eos": EOS, "forbidden": (0, START)}
        fast = search(made, memory, [6] * B, Search(beam=4, n_best=4), **marks)
        slow = search(made, memory, [6] * B, Search(beam=4, n_best=4), lens=Lens(), **marks)
        for row, (ours, theirs) in enumerate(zip(fast, slow, strict=True)):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            for found in theirs:
                written = [*found.tokens, *[EOS] * (found.stopped == "eos")]
                forced = torch.tensor([[START, *written[:-1]]])
                lens, one = Lens(), slice(row, row + 1)
                logits = made(sound[one, : LENGTHS[row]], LENGTHS[one], forced, lens=lens)
                total = logits.log_softmax(-1)[0].gather(1, torch.tensor([written]).mT).sum()
                assert float(total) == pytest.approx(found.log_prob, abs=1e-5)
                for step, record in enumerate(found.records):
                    expected = lens.trace.maps[0].weights[step]
                    torch.testing.assert_close(record.tensors["weights"][0, 0, 0, : len(expected)].cpu(), expected)

"""Luong, Pham & Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation"."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.attention.core import weigh
from saccade.attention.scores import dot, general
from saccade.attention.windows import band, everywhere, gaussian
from saccade.models.luong import Config, Luong
from saccade.trace import Lens
from tests.written_out import below, both_ways, check_decoder, drawn, linear, lstm, run, steady_dropout, unit_of

SOURCE = torch.tensor([[4, 5, 6, 7, 8, 3, 2], [7, 5, 2, 0, 0, 0, 0]])
LENGTHS = torch.tensor([7, 3])
TARGET = torch.tensor([[1, 3, 4, 5], [1, 5, 6, 7]])


def small(**options: object) -> Luong:
    return Luong(Config(6, 4, **{"init": "torch", **options}), 9, 11).eval()  # type: ignore[arg-type]


def alike(one: Luong, other: Luong) -> None:
    other.load_state_dict(one.state_dict())


VARIANTS: list[dict[str, object]] = [
    {},
    {"score": "dot", "layers": 2, "reverse": True},
    {"score": "concat", "input_feeding": False},
    {"score": "location", "places": 9, "input_feeding": False, "reverse": True},
    {"window": "local-m", "radius": 1, "reverse": True},
    {"window": "local-p", "radius": 2},
    {"window": "local-p", "radius": 1, "input_feeding": False, "score": "concat"},
    {"bidirectional": True, "layers": 2},
    {"layers": 2, "dropout": 0.2},
    {"layers": 2, "dropout": 0.2, "input_feeding": False, "bidirectional": True},
]


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(map(str, options.values())) or "general")
@torch.no_grad()
def test_the_equations_written_out(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """hₜ = LSTM([E y; h̃ₜ₋₁]), the weights of its score in its window, h̃ₜ = tanh(W_c [cₜ; hₜ]), W_s h̃ₜ + b.

    Dropout acts on words, between layers and before the output, and on nothing that goes from one step to the next."""
    network = drawn(small(**options))
    config, weights, n = network.config, network.state_dict(), 6
    kept = 1 - config.dropout
    if config.dropout:
        steady_dropout(monkeypatch)
        network.train()

    def encoded(words: torch.Tensor) -> tuple[list[torch.Tensor], list[tuple[torch.Tensor, ...]]]:
        encoder = below(weights, "encoder")
        states, finals = list(weights["source_embedding.weight"][words]), []
        for layer in range(config.layers):
            states = [kept * x for x in states]
            if not config.bidirectional:
                states, final = run(lstm, unit_of(encoder, layer), states)
            else:
                ends = [
                    run(lstm, unit_of(encoder, layer, way), order)[1]
                    for way, order in (("forwards", states), ("backwards", states[::-1]))
                ]
                states = both_ways(lstm, encoder, states, layer)
                final = tuple(
                    torch.tanh(linear(below(weights, f"bridge.{part}"), torch.cat([end[part] for end in ends])))
                    for part in range(2)
                )
            finals.append(final)
        return states, finals

    def score(h: torch.Tensor, annotation: torch.Tensor, place: int) -> torch.Tensor:
        match config.score:
            case "dot":
                return h @ annotation
            case "general":
                return h @ weights["attention.weight"] @ annotation
            case "location":
                return weights["attention.weight"][place] @ h
            case _:
                W = torch.cat([weights["attention.query_weight"], weights["attention.key_weight"]], dim=1)
                return weights["attention.v"] @ torch.tanh(W @ torch.cat([h, annotation]))

    def expected(row: int) -> tuple[torch.Tensor, torch.Tensor]:
        S = int(LENGTHS[row])
        words = SOURCE[row, :S]
        if config.reverse:
            words = torch.cat([words[:-1].flip(0), words[-1:]])
        annotations, state = encoded(words)
        if config.reverse:
            annotations = [*annotations[-2::-1], annotations[-1]]
        logits, rows, fed = [], [], torch.zeros(n, dtype=torch.float64)
        for t, word in enumerate(kept * weights["target_embedding.weight"][TARGET[row]]):
            h = torch.cat([word, fed]) if config.input_feeding else word
            moved = []
            for layer in range(config.layers):
                h = kept * h if layer else h
                h, memory = lstm(unit_of(below(weights, "decoder"), layer), h, state[layer])
                moved.append((h, memory))
            state, centre = moved, float(t)
            if config.window == "local-p":
                raw = weights["position_vector"] @ torch.tanh(weights["position.weight"] @ h)
                centre = S * float(torch.sigmoid(raw)) - 1  # the paper counts from 1
            everywhere = config.window == "global"
            seen = [s for s in range(S) if everywhere or abs(s - math.floor(centre)) <= config.radius]
            alpha = torch.zeros(S, dtype=torch.float64)
            if seen:
                alpha[seen] = torch.softmax(torch.stack([score(h, annotations[s], s) for s in seen]), 0)
            if config.window == "local-p":
                for s in range(S):  # not renormalised; σ = D / 2
                    alpha[s] *= math.exp(-((s - centre) ** 2) / (2 * (config.radius / 2) ** 2))
            c = alpha @ torch.stack(annotations)
            fed = torch.tanh(weights["combine.weight"] @ torch.cat([c, h]))
            logits.append(linear(below(weights, "output"), kept * fed))
            rows.append(alpha)
        return torch.stack(logits), torch.stack(rows)

    check_decoder(network, SOURCE, LENGTHS, TARGET, expected)


def test_local_p_by_hand() -> None:
    """S = 7, D = 2, v_pᵀ tanh(·) = 0: p = 3.5, the window {1 … 5} counted from 1, flat scores, a sum of 0.4916 and not 1."""
    centre = torch.tensor([[3.5 - 1]])  # positions here count from 0
    weights = weigh(torch.zeros(1, 1, 3), torch.randn(1, 7, 3), score=dot, window=gaussian(centre, 2))[0, 0]
    gains = torch.tensor([0.0439, 0.3247, 0.8825, 0.8825, 0.3247])
    torch.testing.assert_close(weights[:5], 0.2 * gains, rtol=0, atol=5e-5)
    assert weights[5:].tolist() == [0.0, 0.0]
    assert float(weights.sum()) == pytest.approx(0.4916, abs=5e-5)


def test_the_model_does_the_same() -> None:
    model, lens = small(window="local-p", radius=2), Lens()
    with torch.no_grad():
        model.position_vector.zero_()  # p = S/2
        model.attention.weight.zero_()  # flat scores
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    for row in lens.traces[0].map().weights:
        assert float(row.sum()) == pytest.approx(0.4916, abs=5e-5)
        assert row[5:].tolist() == [0.0, 0.0]


def test_the_predicted_position_by_hand() -> None:
    """S = 20 and a raw score of 0.4: p = 20 σ(0.4) = 11.9738, counted from 1."""
    model = small(window="local-p")
    with torch.no_grad():
        model.position.weight.copy_(torch.eye(6))
        model.position_vector.copy_(torch.tensor([1.0, 0, 0, 0, 0, 0]))
    hidden = torch.zeros(1, 1, 6)
    hidden[..., 0] = math.atanh(0.4)
    assert model.centre(hidden, torch.tensor([20])).item() + 1 == pytest.approx(11.9738, abs=5e-5)


def test_the_gradient_reaches_the_predicted_position_because_only_the_window_is_rounded() -> None:
    model = small(window="local-p", radius=2)
    model(SOURCE, LENGTHS, TARGET).square().sum().backward()
    assert model.position.weight.grad.any()
    assert model.position_vector.grad.any()


def test_general_with_the_identity_is_dot() -> None:
    query, key = torch.randn(2, 5, 7), torch.randn(2, 3, 7)
    torch.testing.assert_close(weigh(query, key, score=general(torch.eye(7))), weigh(query, key, score=dot))
    by_dot, by_general = small(score="dot"), small(score="general")
    by_general.load_state_dict({**by_dot.state_dict(), "attention.weight": torch.eye(6)})
    torch.testing.assert_close(by_general(SOURCE, LENGTHS, TARGET), by_dot(SOURCE, LENGTHS, TARGET))


@pytest.mark.parametrize("score", ["dot", "general", "concat", "location"])
def test_local_m_as_wide_as_the_source_is_global(score: str) -> None:
    whole, local = small(score=score), small(score=score, window="local-m", radius=7)
    alike(whole, local)
    torch.testing.assert_close(local(SOURCE, LENGTHS, TARGET), whole(SOURCE, LENGTHS, TARGET))
    narrow = small(score=score, window="local-m", radius=1)
    alike(whole, narrow)
    assert not torch.allclose(narrow(SOURCE, LENGTHS, TARGET), whole(SOURCE, LENGTHS, TARGET))
    query, key = torch.randn(2, 5, 7), torch.randn(2, 3, 7)
    torch.testing.assert_close(
        weigh(query, key, score=dot, window=band(5)), weigh(query, key, score=dot, window=everywhere)
    )


def test_concat_puts_one_matrix_on_query_and_key_together() -> None:
    model, lens = small(score="concat", input_feeding=False), Lens()
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    memory = model.encode(SOURCE, LENGTHS)
    hidden, _ = model.decoder(model.target_embedding(TARGET), initial=memory.start)
    joint = torch.cat([model.attention.query_weight, model.attention.key_weight], dim=1)  # W_a
    scores = torch.stack([
        torch.tanh(torch.cat([hidden[0, 2], memory.annotations[0, s]]) @ joint.mT) @ model.attention.v for s in range(7)
    ])  # fmt: skip
    torch.testing.assert_close(lens.traces[0].map().weights[2], torch.softmax(scores, -1))


def test_the_look_comes_after_the_step_so_the_word_fed_moves_it() -> None:
    model, looks = small(), []
    for token in (3, 9):
        lens, memory = Lens(), model.encode(SOURCE, LENGTHS)
        model.step(torch.tensor([token, token]), model.start(memory), memory, offset=0, lens=lens)
        looks.append(lens.traces[0].map().weights)
    assert not torch.allclose(looks[0], looks[1])


def test_input_feeding_gives_back_the_attentional_vector_and_not_the_context() -> None:
    model = small()
    memory = model.encode(SOURCE, LENGTHS)
    start = model.start(memory)
    assert not start.fed.any()
    logits, state = model.step(TARGET[:, 0], start, memory, offset=0)
    torch.testing.assert_close(logits, model.output(state.fed))  # what is fed back is what was read out: h̃
    for window in ("global", "local-m", "local-p"):
        fed, alone = small(window=window), small(window=window, input_feeding=False)
        assert fed.decoder.forwards[0].unit.input_size == 4 + 6
        assert alone.decoder.forwards[0].unit.input_size == 4


def test_the_papers_sizes() -> None:
    with torch.device("meta"):
        model = Luong(Config(hidden=1000, embedding=1000, layers=4, reverse=True), 50_000, 50_000)
    sizes = [layer.unit.input_size for layer in model.decoder.forwards]
    assert sizes == [2000, 1000, 1000, 1000]  # [e(y); h̃]
    assert model.combine.weight.shape == (1000, 2000)
    assert model.combine.bias is None
    assert Config().radius == 10


def test_windows_of_a_reversed_source_speak_of_the_order_it_was_written_in() -> None:
    model, lens = small(window="local-m", radius=1, reverse=True), Lens()
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    weights = lens.traces[0].map().weights
    assert [row.nonzero().flatten().tolist() for row in weights] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_positions_go_by_the_true_length() -> None:
    """The short item's centre is the same in a padded batch as alone."""
    model, lens, alone = small(window="local-p", radius=2), Lens(), Lens()
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    model(SOURCE[1:, :3], LENGTHS[1:], TARGET[1:], lens=alone)
    torch.testing.assert_close(lens.traces[1].map().weights[:, :3], alone.trace.map().weights)


@pytest.mark.parametrize(
    ("hidden", "init", "bound"), [(30, "paper", 0.1), (30, "uniform", 0.41312), (512, "uniform", 0.1)]
)
def test_everything_starts_evenly_between_two_bounds(hidden: int, init: str, bound: float) -> None:
    config = Config(hidden, 20, init=init, window="local-p")  # type: ignore[arg-type]
    for name, parameter in Luong(config, 40, 40).named_parameters():
        assert float(parameter.detach().abs().max()) <= bound * 1.00001, name
        if parameter.numel() > 100:
            assert float(parameter.detach().abs().max()) > 0.95 * bound, name
        if parameter.dim() == 2:
            assert float(parameter.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.1), name


def test_short_sentences_use_the_first_rows_of_location() -> None:
    model, lens = small(score="location", places=9), Lens()
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    memory = model.encode(SOURCE, LENGTHS)
    hidden, _ = model.decoder.step(
        torch.cat([model.target_embedding(TARGET[:, 0]), torch.zeros(2, 6)], -1), memory.start
    )
    expected = torch.softmax(model.attention.weight[:3] @ hidden[1], -1)
    torch.testing.assert_close(lens.traces[1].map().weights[0, :3], expected)

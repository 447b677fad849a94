"""Numbers worked by hand from the equations of Yang et al. 2016 (hierarchical attention)."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.layers import AttentionPool
from saccade.attention.windows import padding
from saccade.models.attentive_classifier import AttentiveClassifier
from saccade.models.attentive_classifier import Config as FlatConfig
from saccade.models.han import Config, Han
from saccade.trace import Lens
from tests import written_out
from tests.written_out import below, both_ways, close, drawn, gru, linear, look, lstm

STATES = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])


@pytest.mark.parametrize("kind", ["attention", "mean", "max"])
@torch.no_grad()
def test_the_equations_written_out(kind: str) -> None:
    """Words to sentences, sentences to a document; a padding sentence, wherever it is, counts for nothing."""
    network = drawn(Han(Config(5, hidden=3, pool=kind), 11, 4))  # type: ignore[arg-type]
    weights = network.state_dict()
    tokens, lengths = torch.randint(1, 11, (3, 4, 7)), torch.tensor([[7, 2, 5, 1], [3, 0, 4, 0], [6, 0, 0, 0]])

    def pooled(level: str, states: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        if kind == "attention":
            return written_out.pool(below(weights, level), states)
        whole = torch.stack(states)
        return torch.empty(0), whole.mean(0) if kind == "mean" else whole.max(0).values

    lens = Lens()
    plain, seen = network(tokens, lengths), network(tokens, lengths, lens=lens)
    for row, counts in enumerate(lengths.tolist()):
        sentences, maps = [], []
        for number, count in enumerate(counts):
            if count:
                words = list(weights["embedding.weight"][tokens[row, number, :count]])
                alpha, s = pooled("word_pool", both_ways(gru, below(weights, "word_encoder"), words))
                sentences.append(s)
                maps.append(alpha)
        alpha, v = pooled("sentence_pool", both_ways(gru, below(weights, "sentence_encoder"), sentences))
        for found in (plain[row], seen[row]):
            close(found, linear(below(weights, "output"), v))
        if kind == "attention":
            close(lens.traces[row].map("sentences").weights[0, : len(alpha)], alpha, check_dtype=False)
            looked = lens.traces[row].map("words").weights
            for number, own in enumerate(maps):
                start = sum(len(each) for each in maps[:number])
                close(looked[number, start : start + len(own)], own, check_dtype=False)


FLAT = [
    {"encoder": "lstm", "pool": "additive", "layers": 2, "attention": 4},
    {"encoder": "gru", "pool": "dot"},
    {"encoder": "gru", "pool": "last", "bidirectional": True},
    {"encoder": "cnn", "pool": "max", "layers": 2},
    {"encoder": "cnn", "pool": "mean"},
    {"encoder": "none", "pool": "additive"},
]


@pytest.mark.parametrize("options", FLAT, ids=lambda options: f"{options['encoder']}-{options['pool']}")
@torch.no_grad()
def test_one_level_of_it_over_a_whole_text_written_out(options: dict[str, object]) -> None:
    network = drawn(AttentiveClassifier(FlatConfig(5, hidden=3, **options), 11, 4))  # type: ignore[arg-type]
    weights, config = network.state_dict(), network.config
    tokens, lengths = torch.randint(1, 11, (3, 7)), torch.tensor([7, 3, 5])
    segments = (torch.arange(7) > 2).long().expand(3, 7)
    for row, length in enumerate(lengths.tolist()):
        states = [
            weights["embedding.weight"][token] + int(part) * weights["second"]
            for token, part in zip(tokens[row, :length], segments[row], strict=False)
        ]
        for layer in range(config.layers):
            match config.encoder:
                case "lstm":
                    states = both_ways(lstm, below(weights, "encoder"), states, layer)
                case "gru":
                    states = both_ways(gru, below(weights, "encoder"), states, layer)
                case "cnn":
                    own = below(weights, f"encoder.layers.{layer}")
                    nothing = torch.zeros_like(states[0])
                    near = zip([nothing, *states[:-1]], states, [*states[1:], nothing], strict=True)
                    states = [
                        (sum(own["weight"][:, :, k] @ x for k, x in enumerate(three)) + own["bias"]).clamp(min=0)
                        for three in near
                    ]
        whole = torch.stack(states)
        match config.pool:
            case "additive":
                d = written_out.pool(below(weights, "pool"), states)[1]
            case "dot":
                d = look([weights["pool.query"] @ h for h in states], states)[1]
            case "last":
                d = torch.cat([whole[-1, :3], whole[0, 3:]])
            case _:
                d = whole.mean(0) if config.pool == "mean" else whole.max(0).values
        for lens in (None, Lens()):
            close(network(tokens, lengths, segments, lens=lens)[row], linear(below(weights, "output"), d))


def pool(context: tuple[float, float]) -> AttentionPool:
    """W = I, b = 0, and this context vector u."""
    made = AttentionPool(2)
    with torch.no_grad():
        made.key_weight.copy_(torch.eye(2))
        made.bias.zero_()
        made.v.copy_(torch.tensor(context))
    return made


def test_the_weights_of_three_words() -> None:
    # u·tanh(h) = tanh 1, tanh 1, 2 tanh 1; softmax of (0.7616, 0.7616, 1.5232)
    lens = Lens(detail=["scores"])
    vector = pool((1.0, 1.0))(STATES, lens=lens)
    tight = {"atol": 5e-5, "rtol": 0.0}
    torch.testing.assert_close(
        lens.trace.map("pool").tensors["scores"], torch.tensor([[0.7616, 0.7616, 1.5232]]), **tight
    )
    torch.testing.assert_close(lens.trace.map("pool").weights, torch.tensor([[0.2414, 0.2414, 0.5171]]), **tight)
    torch.testing.assert_close(vector, torch.tensor([[0.7586, 0.7586]]), **tight)


def test_a_sentence_of_padding_alone_is_zero() -> None:
    vector = pool((1.0, 1.0))(STATES, window=padding(torch.tensor([0])))
    assert vector.tolist() == [[0.0, 0.0]]


def test_without_anything_in_its_context_vectors_it_is_hn_ave() -> None:
    torch.manual_seed(3)
    looking = Han(Config(5, hidden=3), 11, 4).eval()
    averaging = Han(Config(5, hidden=3, pool="mean"), 11, 4).eval()
    averaging.load_state_dict({k: v for k, v in looking.state_dict().items() if "pool" not in k})
    with torch.no_grad():
        for each in (looking.word_pool, looking.sentence_pool):
            each.v.zero_()
    tokens, lengths = torch.randint(1, 11, (2, 3, 7)), torch.tensor([[7, 2, 5], [1, 0, 0]])
    lens = Lens()
    torch.testing.assert_close(looking(tokens, lengths, lens=lens), averaging(tokens, lengths))
    torch.testing.assert_close(lens.traces[0].map("sentences").weights, torch.full((1, 3), 1 / 3))


def test_a_score_is_not_bounded_by_a_second_tanh() -> None:
    # Scores within (−1, 1) could not make one weight more than e² times another: here it is.
    lens = Lens()
    pool((9.0, 9.0))(STATES, lens=lens)
    weights = lens.trace.map("pool").weights[0]
    assert weights[2] / weights[0] > 9**2


def test_the_sizes_of_the_paper_are_the_defaults() -> None:
    with torch.device("meta"):
        made = Han(Config(), 10_000, 5)
    assert made.embedding.weight.shape == (10_000, 200)
    assert made.word_pool.v.shape == made.sentence_pool.v.shape == (100,)
    assert made.output.weight.shape == (5, 100)  # 50 units each way
    assert made.word_encoder.cell == made.sentence_encoder.cell == "gru"

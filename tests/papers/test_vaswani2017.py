"""Vaswani et al. 2017, "Attention Is All You Need"."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from saccade.attention.core import weigh
from saccade.attention.scores import scaled_dot
from saccade.models.transformer import BASE, BIG, Config, LanguageConfig, Transformer, TransformerLM
from saccade.models.transformer_reader import ClassifierConfig, TaggerConfig, TransformerClassifier, TransformerTagger
from saccade.nn.positions import sinusoids
from saccade.trace import Lens
from saccade.training.config import Train
from saccade.training.losses import sequence_loss
from saccade.training.optimisers import learning_rate
from tests.written_out import (
    Weights,
    below,
    check_decoder,
    check_language_model,
    close,
    drawn,
    linear,
    multi_head,
    normed,
    pool,
    steady_dropout,
)

D, H, FF = 6, 3, 7


def parameters(config: Config, vocabulary: int) -> int:
    with torch.device("meta"):
        return sum(part.numel() for part in Transformer(config, vocabulary, vocabulary).parameters())


def placed(vector: torch.Tensor, place: int) -> torch.Tensor:
    """+ PE: sin(p / 10000^(2i/D)) at 2i, cos of the same at 2i + 1."""
    angles = [place / 10_000 ** (2 * i / D) for i in range(D // 2)]
    return vector + torch.tensor([part for angle in angles for part in (math.sin(angle), math.cos(angle))]).double()


def sublayer(weights: Weights, name: str, norm: str, x: torch.Tensor, change, kept: float) -> torch.Tensor:
    """LN(x + Drop(F(x))), or x + Drop(F(LN(x)))."""
    own = below(weights, f"{name}_residual.norm")
    return normed(own, x + kept * change(x)) if norm == "post" else x + kept * change(normed(own, x))


def layers(
    weights: Weights,
    norm: str,
    states: list[torch.Tensor],
    *,
    causal: bool,
    source: list[torch.Tensor] | None = None,
    kept: float = 1.0,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A stack of layers; also the weights of the last layer's look at the source, or of its self-attention, by position."""
    maps: list[torch.Tensor] = []
    number = 0
    while any(name.startswith(f"layers.{number}.") for name in weights):
        own = below(weights, f"layers.{number}")
        entering = states if norm == "post" else [normed(below(own, "attention_residual.norm"), x) for x in states]
        after, maps = [], []
        for t, x in enumerate(states):
            seen = entering[: t + 1] if causal else entering
            weights_of, change = multi_head(below(own, "attention"), H, entering[t], seen)
            x = sublayer(own, "attention", norm, x, lambda _, change=change: change, kept)
            if source is not None:

                def across(x, own=own):
                    return multi_head(below(own, "cross"), H, x, source)

                inside = x if norm == "post" else normed(below(own, "cross_residual.norm"), x)
                weights_of = across(inside)[0]
                x = sublayer(own, "cross", norm, x, lambda x: across(x)[1], kept)
            maps.append(torch.stack(weights_of))

            def feed(x, own=own):
                return linear(
                    below(own, "feed_forward.outer"), linear(below(own, "feed_forward.inner"), x).clamp(min=0)
                )

            after.append(sublayer(own, "feed_forward", norm, x, feed, kept))
        states, number = after, number + 1
    return (states if norm == "post" else [normed(below(weights, "norm"), x) for x in states]), maps


def entering(table: torch.Tensor, tokens: torch.Tensor, kept: float = 1.0) -> list[torch.Tensor]:
    return [kept * placed(D**0.5 * table[token], place) for place, token in enumerate(tokens.tolist())]


@pytest.mark.parametrize(
    ("norm", "tied", "dropout"),
    [("post", "all", 0.0), ("pre", "target", 0.0), ("post", "none", 0.0), ("post", "all", 0.3), ("pre", "none", 0.3)],
)
@torch.no_grad()
def test_the_equations_written_out(norm: str, tied: str, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout acts on the sums of embeddings and positions, and on the output of each sublayer (5.4)."""
    config = Config(D, H, FF, 2, norm=norm, tied=tied, dropout=dropout)  # type: ignore[arg-type]
    network, kept = drawn(Transformer(config, 11, 11)), 1 - dropout
    if dropout:
        steady_dropout(monkeypatch)
        network.train()
    weights = network.state_dict()
    source, lengths = torch.tensor([[4, 5, 6, 7, 2], [7, 5, 2, 0, 0]]), torch.tensor([5, 3])
    target, E = torch.tensor([[1, 3, 4, 5], [1, 5, 6, 7]]), weights["target_embedding.weight"]

    def expected(row: int) -> tuple[torch.Tensor, torch.Tensor]:
        table = E if tied == "all" else weights["source_embedding.weight"]
        words = entering(table, source[row, : lengths[row]], kept)
        read, _ = layers(below(weights, "encoder"), norm, words, causal=False, kept=kept)
        written = entering(E, target[row], kept)
        states, _ = layers(below(weights, "decoder"), norm, written, causal=True, source=read, kept=kept)
        output = weights["output.weight"] if tied == "none" else E
        return torch.stack([output @ x for x in states]), torch.empty(0)

    check_decoder(network, source, lengths, target, expected)


@torch.no_grad()
def test_every_look_of_every_head_written_out() -> None:
    network = drawn(Transformer(Config(D, H, FF, 1, dropout=0.0), 11, 11))
    weights, lens = network.state_dict(), Lens()
    source, target = torch.tensor([[4, 5, 6, 7, 2]]), torch.tensor([[1, 3, 4]])
    network(source, torch.tensor([5]), target, lens=lens)

    def seen(site: str) -> torch.Tensor:
        return torch.stack([lens.trace.map(site, head=head).weights for head in range(H)])  # [H, T, S]

    states = entering(weights["source_embedding.weight"], source[0])
    read, looks = layers(below(weights, "encoder"), "post", states, causal=False)
    close(seen("encoder.0.self"), torch.stack(looks, dim=1), check_dtype=False)
    states = entering(weights["target_embedding.weight"], target[0])
    _, looks = layers(below(weights, "decoder"), "post", states, causal=True, source=read)
    close(seen("decoder.0.cross"), torch.stack(looks, dim=1), check_dtype=False)
    for t, x in enumerate(states):
        looks, _ = multi_head(below(weights, "decoder.layers.0.attention"), H, x, states[: t + 1])
        found = seen("decoder.0.self")[:, t]
        close(found[:, : t + 1], torch.stack(looks), check_dtype=False)
        assert not found[:, t + 1 :].any()


@torch.no_grad()
def test_the_decoder_alone_written_out() -> None:
    network = drawn(TransformerLM(LanguageConfig(D, H, FF, 2, dropout=0.0), 11))
    E, weights = network.embedding.weight, network.state_dict()

    def expected(words: list[int]) -> torch.Tensor:
        states, _ = layers(below(weights, "decoder"), "post", entering(E, torch.tensor(words)), causal=True)
        return torch.stack([E @ x for x in states])

    check_language_model(network, torch.randint(0, 11, (3, 7)), torch.tensor([7, 4, 1]), expected)


@pytest.mark.parametrize(("kind", "embedding"), [("additive", None), ("mean", 4), ("max", None), ("first", None)])
@torch.no_grad()
def test_the_encoder_as_a_reader_written_out(kind: str, embedding: int | None) -> None:
    """Pools of one vector per text, and a tag per word."""
    sizes = {"width": D, "heads": H, "hidden": FF, "layers": 2, "norm": "pre", "dropout": 0.0, "embedding": embedding}
    classifier = drawn(TransformerClassifier(ClassifierConfig(**sizes, pool=kind), 11, 4))
    tagger = drawn(TransformerTagger(TaggerConfig(**sizes), 11, 4))
    tokens, lengths = torch.randint(0, 11, (2, 5)), torch.tensor([5, 3])
    segments = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 1, 0, 0]])
    for row, length in enumerate(lengths.tolist()):
        for network in (classifier, tagger):
            weights = network.state_dict()
            words = list(weights["embedding.weight"][tokens[row, :length]])
            words = [D**0.5 * x if embedding is None else weights["widen.weight"] @ x for x in words]
            if network is classifier:
                words = [x + int(part) * weights["second"] for x, part in zip(words, segments[row], strict=False)]
            states, _ = layers(
                below(weights, "encoder"), "pre", [placed(x, place) for place, x in enumerate(words)], causal=False
            )
            if network is tagger:
                tags = torch.stack([linear(below(weights, "output"), x) for x in states])
                close(network(tokens, lengths)[row, :length], tags)
                continue
            whole = torch.stack(states)
            one = {"mean": whole.mean(0), "max": whole.max(0).values, "first": whole[0]}.get(kind)
            d = pool(below(weights, "pool"), states)[1] if one is None else one
            close(network(tokens, lengths, segments)[row], linear(below(weights, "output"), d))


def test_parameters_at_the_papers_sizes() -> None:
    """One vocabulary of 37,000, one matrix for both embeddings and the output: 63.1 and 214.2 million."""
    assert parameters(BASE, 37_000) == 63_082_496
    assert parameters(BIG, 37_000) == 214_245_376
    assert (BIG.layers, BIG.width, BIG.hidden, BIG.heads, BIG.dropout) == (6, 1024, 4096, 16, 0.3)


def test_scaled_dot_weights_by_hand() -> None:
    query, keys = torch.tensor([[[1.0, 0.0]]]), torch.eye(2).unsqueeze(0)
    weights = weigh(query, keys, score=scaled_dot)
    torch.testing.assert_close(weights[0, 0], torch.tensor([0.6698, 0.3302]), rtol=0, atol=5e-5)


def test_the_position_of_the_second_token_by_hand() -> None:
    expected = torch.tensor([0.84147, 0.54030, 0.01000, 0.99995])
    torch.testing.assert_close(sinusoids(torch.tensor([1]), 4)[0], expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("step", "rate"), [(1, 1.7469e-7), (4000, 6.9877e-4), (16_000, 3.4939e-4), (100_000, 1.3975e-4)]
)
def test_the_learning_rate_of_an_update(step: int, rate: float) -> None:
    train = Train(schedule="noam", lr=1.0, warmup=4000, width=512)
    assert learning_rate(train, step - 1, 1, 100_000, 0) == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize(("size", "floor"), [(5, 0.3897), (37_000, 1.3769)])
def test_the_least_loss_under_label_smoothing(size: int, floor: float) -> None:
    """ε = 0.1 spread over all V: the entropy of q is the least that any distribution reaches."""
    aim = torch.full((size,), 0.1 / size)
    aim[3] += 0.9
    loss = sequence_loss(aim.log().view(1, 1, -1), torch.tensor([[3]]), padding=0, smoothing=0.1)
    assert float(loss) == pytest.approx(floor, abs=1e-4)


@pytest.mark.usefixtures("shapes_unchecked")
def test_it_learns_to_copy_down_to_the_floor_of_the_smoothed_loss() -> None:
    """The Annotated Transformer's task, ten symbols of eleven, with a narrower network and shorter rows."""
    torch.manual_seed(1)
    V, T = 11, 5
    model = Transformer(Config(32, 4, 64, 1, dropout=0.0, tied="all"), V, V)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    train, lengths = Train(schedule="noam", lr=1.0, warmup=60, width=32), torch.full((32,), T)
    for update in range(360):  # some draws are not there after 240
        source = torch.randint(1, V, (32, T))
        target = functional.pad(source, (1, 0), value=0)
        loss = sequence_loss(model(source, lengths, target[:, :-1]), source, padding=-1, smoothing=0.1) / source.numel()
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = learning_rate(train, update, 1, 360, 0)
        optimiser.step()
    floor = -(0.9 + 0.1 / V) * math.log(0.9 + 0.1 / V) - 0.1 * (V - 1) / V * math.log(0.1 / V)
    assert floor <= float(loss.detach()) < floor + 0.03

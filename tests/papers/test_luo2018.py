"""BiLSTM with attention (after Luo et al. 2018) and a CRF (Lafferty et al. 2001): numbers by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from saccade.models.attentive_tagger import AttentiveTagger, Config
from saccade.nn.crf import CRF, log_partition, marginals, path_score, viterbi
from saccade.trace import Lens
from tests.written_out import below, both_ways, close, drawn, linear, look, lstm, run, unit_of

EMISSIONS = torch.tensor([[[1.0, 0], [0, 2], [1, 1]]])
TRANSITIONS = torch.tensor([[0.5, -0.5, 0], [0, 1, 0], [0, 0, 0]])  # from → to; no start, no stop
LENGTH = torch.tensor([3])
SCORES = {"000": 3.0, "001": 2.0, "010": 3.5, "011": 4.5, "100": 1.5, "101": 0.5, "110": 4.0, "111": 5.0}


@pytest.mark.parametrize(("path", "score"), SCORES.items())
def test_the_eight_paths_of_three_steps_score_as_by_hand(path: str, score: float) -> None:
    tags = torch.tensor([[int(tag) for tag in path]])
    assert path_score(EMISSIONS, tags, LENGTH, TRANSITIONS).item() == pytest.approx(score)


def test_the_partition_the_best_path_and_its_loss_are_those_by_hand() -> None:
    assert log_partition(EMISSIONS, LENGTH, TRANSITIONS).item() == pytest.approx(5.885406, abs=1e-6)
    assert viterbi(EMISSIONS, LENGTH, TRANSITIONS).tolist() == [[1, 1, 1]]
    crf = CRF(2)
    with torch.no_grad():
        crf.transitions.copy_(TRANSITIONS)
    assert crf.loss(EMISSIONS, torch.tensor([[1, 1, 1]]), LENGTH).item() == pytest.approx(0.885406, abs=1e-6)


def test_transitions_are_read_from_the_tag_before_to_the_tag_after() -> None:
    """The other way round log Z is another, as libraries that disagree on it find out."""
    assert log_partition(EMISSIONS, LENGTH, TRANSITIONS.T).item() != pytest.approx(5.885406, abs=1e-2)


def test_marginals_are_the_shares_of_the_eight_paths() -> None:
    total = torch.tensor(list(SCORES.values())).logsumexp(0)
    found = marginals(EMISSIONS, LENGTH, TRANSITIONS)[0]
    for step, tag in itertools.product(range(3), range(2)):
        share = sum(torch.tensor(score).sub(total).exp() for path, score in SCORES.items() if path[step] == str(tag))
        torch.testing.assert_close(found[step, tag], share)


@torch.no_grad()
def test_the_equations_written_out() -> None:
    network = AttentiveTagger(Config(5, characters="none", hidden=3, dropout=0.0), 11, 4).eval()
    tokens, lengths, lens = torch.tensor([[4, 7, 4, 9, 5]]), torch.tensor([5]), Lens()
    emissions = network(tokens, lengths, lens=lens)[0]
    lstm = nn.LSTM(5, 3, bidirectional=True, batch_first=True)
    for direction, suffix in ((network.encoder.forwards[0], ""), (network.encoder.backwards[0], "_reverse")):
        for name, parameter in direction.unit.named_parameters():
            getattr(lstm, name + suffix).copy_(parameter)
    h = lstm(network.embedding(tokens))[0][0]  # [S, 2n]
    weights = torch.softmax(h @ h.T / 6**0.5, dim=-1)
    torch.testing.assert_close(lens.trace.map("attention").weights, weights)
    z = torch.tanh(torch.cat([weights @ h, h], dim=-1) @ network.join.weight.T + network.join.bias)
    torch.testing.assert_close(emissions, z @ network.output.weight.T + network.output.bias)


TAGGERS = [
    {"characters": "cnn", "width": 3},
    {"characters": "lstm", "attention": "general", "compare": "words", "layers": 2},
    {"characters": "none", "attention": "additive"},
    {"characters": "cnn", "width": 1, "attention": "none", "output": "softmax"},
]


@pytest.mark.parametrize("options", TAGGERS, ids=lambda options: "-".join(map(str, options.values())))
@torch.no_grad()
def test_the_equations_from_the_characters_on(options: dict[str, object]) -> None:
    """[E w; chars(w)], the BiLSTM, the look at the sentence, tanh(W_g [g; h] + b_g), W_p z + b_p; in a padded batch."""
    sizes = {"embedding": 5, "character_embedding": 3, "character_hidden": 4, "hidden": 3}
    network = drawn(AttentiveTagger(Config(**{**sizes, **options}), 11, 6, 9))  # type: ignore[arg-type]
    weights, config = network.state_dict(), network.config
    tokens, lengths = torch.randint(1, 11, (3, 7)), torch.tensor([7, 4, 1])
    characters = torch.randint(1, 9, (3, 7, 5))
    characters[torch.arange(5) >= torch.randint(1, 6, (3, 7, 1))] = 0

    def spelt(word: torch.Tensor) -> torch.Tensor:
        letters = [weights["spelling.embedding.weight"][letter] for letter in word.tolist() if letter]
        if config.characters == "lstm":
            encoder = below(weights, "spelling.encoder")
            ends = [
                run(lstm, unit_of(encoder, 0, way), order)[1][0]
                for way, order in (("forwards", letters), ("backwards", letters[::-1]))
            ]
            return torch.cat(ends)
        kernel, bias = weights["spelling.encoder.layers.0.weight"], weights["spelling.encoder.layers.0.bias"]
        half = config.width // 2
        nothing = [torch.zeros(3, dtype=torch.float64)] * half
        around = [*nothing, *letters, *nothing]
        seen = [
            sum(kernel[:, :, k] @ around[place + k] for k in range(config.width)) + bias
            for place in range(len(letters))
        ]
        return torch.stack(seen).clamp(min=0).max(0).values  # type: ignore[arg-type]

    for row, length in enumerate(lengths.tolist()):
        words = [weights["embedding.weight"][token] for token in tokens[row, :length]]
        if config.characters != "none":
            words = [torch.cat([x, spelt(word)]) for x, word in zip(words, characters[row], strict=False)]
        h = words
        for layer in range(config.layers):
            h = both_ways(lstm, below(weights, "encoder"), h, layer)
        states = h
        if config.attention != "none":
            own, compared = below(weights, "attention") if config.attention != "scaled_dot" else {}, h
            if config.compare == "words":
                compared = words
            states = []
            for t, query in enumerate(compared):
                match config.attention:
                    case "scaled_dot":
                        scores = [query @ key / len(query) ** 0.5 for key in compared]
                    case "general":
                        scores = [query @ own["weight"] @ key for key in compared]
                    case _:
                        W, U, v = own["query_weight"], own["key_weight"], own["v"]
                        scores = [v @ torch.tanh(W @ query + U @ key) for key in compared]
                g = look(scores, h)[1]
                states.append(torch.tanh(linear(below(weights, "join"), torch.cat([g, h[t]]))))
        P = torch.stack([linear(below(weights, "output"), z) for z in states])
        given = None if config.characters == "none" else characters
        for lens in (None, Lens()):
            close(network(tokens, lengths, characters=given, lens=lens)[row, :length], P)


def test_the_start_and_the_stop_count_in_the_loss_and_in_the_best_path() -> None:
    """Against all 3⁴ paths, in rows of unequal lengths; A is written [from, to], its last row the start, its last column
    the stop."""
    crf = drawn(CRF(3), 2.0)
    A, P, lengths = (
        crf.transitions.detach(),
        torch.randn(7, 4, 3, dtype=torch.float64),
        torch.tensor([4, 2, 1, 3, 4, 2, 1]),
    )
    tags = torch.randint(0, 3, (7, 4))
    for row, length in enumerate(lengths.tolist()):
        scores = {}
        for path in itertools.product(range(3), repeat=length):
            moves = itertools.pairwise([3, *path, 3])
            scores[path] = sum(P[row, t, tag] for t, tag in enumerate(path)) + sum(A[move] for move in moves)
        total = torch.stack(list(scores.values())).logsumexp(0)
        losses = crf.loss(P, tags, lengths)
        torch.testing.assert_close(losses[row], total - scores[tuple(tags[row, :length].tolist())])
        best, shares = crf.decode(P, lengths)
        assert tuple(best[row, :length].tolist()) == max(scores, key=scores.get)  # type: ignore[arg-type]
        for step, tag in itertools.product(range(length), range(3)):
            share = sum((score - total).exp() for path, score in scores.items() if path[step] == tag)
            torch.testing.assert_close(shares[row, step, tag], share)

"""The ranker by the equations of its page: pooling after Yang et al. 2016, alignment after Parikh, Täckström, Das & Uszkoreit
2016."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.models.siamese import Config, Siamese
from saccade.trace import Lens
from tests.written_out import below, both_ways, close, drawn, gru, linear, look, lstm, pool

F, MLP = 2, 4


def beside(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y, (x - y).abs(), x * y])


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("compare", "encoder"), [("pooled", "gru"), ("alignment", "lstm"), ("alignment", "none")])
@torch.no_grad()
def test_the_equations_written_out(compare: str, encoder: str, overlap: bool) -> None:
    network = drawn(Siamese(Config(5, encoder, 3, compare=compare, mlp=MLP, overlap=overlap), 11, F))  # type: ignore[arg-type]
    weights = network.state_dict()
    questions, question_lengths = torch.randint(1, 11, (3, 4)), torch.tensor([4, 2, 3])
    candidates, candidate_lengths = torch.randint(1, 11, (3, 7)), torch.tensor([5, 7, 1])
    given = (questions, question_lengths, candidates, candidate_lengths, torch.randn(3, F, dtype=torch.float64))

    def encoded(tokens: Tensor) -> list[Tensor]:
        words = list(weights["embedding.weight"][tokens])
        if encoder == "none":
            return words
        return both_ways(lstm if encoder == "lstm" else gru, below(weights, "encoder"), words)

    lens = Lens()
    plain, seen = network(*given), network(*given, lens=lens)
    for row in range(3):
        question = encoded(questions[row, : question_lengths[row]])
        candidate = encoded(candidates[row, : candidate_lengths[row]])
        if compare == "pooled":
            _, q = pool(below(weights, "question_pool"), question)
            own = below(weights, "candidate_pool")
            W_1, W_2, v = own["query_weight"], own["key_weight"], own["v"]
            alpha, c = look([v @ torch.tanh(W_1 @ q + W_2 @ h) for h in candidate], candidate)
            compared = beside(q, c)
        else:

            def f(h: Tensor) -> Tensor:
                return linear(below(weights, "project"), h).clamp(min=0)

            words = []
            for t, h in enumerate(candidate):
                scores = [f(h) @ f(key) / len(h) ** 0.5 for key in question]
                beta, aligned = look(scores, question)
                found = lens.traces[row].map("alignment").weights[t]
                close(found[: len(question)], beta, check_dtype=False)
                words.append(linear(below(weights, "pair"), beside(h, aligned)).clamp(min=0))
            alpha, whole = pool(below(weights, "aggregate"), words)
            compared = torch.cat([whole, torch.stack(words).max(0).values])
        close(lens.traces[row].map("candidate").weights[0, : len(candidate)], alpha, check_dtype=False)
        if overlap:
            compared = torch.cat([compared, given[4][row]])
        score = linear(below(weights, "output"), linear(below(weights, "judge"), compared).clamp(min=0))
        for scores in (plain, seen):
            close(scores[row], score[0])

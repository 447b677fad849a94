"""The siamese network: its equations worked out beside it, one encoder for both texts, and what it looks at."""

from __future__ import annotations

import pytest
import torch

from saccade.models.siamese import Config, Siamese
from saccade.trace import Lens, Mask

TORCH = torch.Generator().manual_seed(3)
QUESTION, ASKED = torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([3, 2])
CANDIDATE, SAID = torch.tensor([[7, 5, 4, 9, 6], [9, 0, 0, 0, 0]]), torch.tensor([5, 1])
FEATURES = torch.rand(2, 4, generator=TORCH)
BATCH = (QUESTION, ASKED, CANDIDATE, SAID, FEATURES)


def network(**fields) -> Siamese:
    torch.manual_seed(1)
    made = Siamese(Config(**{"embedding": 5, "hidden": 3, "mlp": 4, **fields}), vocabulary=11, features=4)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    return made.eval()


@torch.no_grad()
def test_pooling_is_what_the_equations_say() -> None:
    made = network(encoder="none")
    h, g = made.embedding(QUESTION[0]), made.embedding(CANDIDATE[0])  # [S, m], [T, m]
    own, by = made.question_pool, made.candidate_pool
    alpha = (torch.tanh(h @ own.key_weight.T + own.bias) @ own.v).softmax(0)
    q = alpha @ h
    beta = (torch.tanh(q @ by.query_weight.T + g @ by.key_weight.T) @ by.v).softmax(0)
    c = beta @ g
    judged = made.output(torch.relu(made.judge(torch.cat([q, c, (q - c).abs(), q * c]))))
    torch.testing.assert_close(made(*BATCH)[0], judged.squeeze())
    lens = Lens()
    made(*BATCH, lens=lens)
    torch.testing.assert_close(lens.traces[0].map("question").weights[0], alpha)
    torch.testing.assert_close(lens.traces[0].map("candidate").weights[0], beta)


@torch.no_grad()
def test_alignment_is_what_the_equations_say() -> None:
    made = network(encoder="none", compare="alignment")
    h, g = made.embedding(QUESTION[0]), made.embedding(CANDIDATE[0])
    query, key = torch.relu(made.project(g)), torch.relu(made.project(h))
    beta = (query @ key.T / 5**0.5).softmax(-1)  # [T, S]
    found = beta @ h
    m = torch.relu(made.pair(torch.cat([g, found, (g - found).abs(), g * found], -1)))
    own = made.aggregate
    alpha = (torch.tanh(m @ own.key_weight.T + own.bias) @ own.v).softmax(0)
    judged = made.output(torch.relu(made.judge(torch.cat([alpha @ m, m.amax(0)]))))
    torch.testing.assert_close(made(*BATCH)[0], judged.squeeze())
    lens = Lens()
    made(*BATCH, lens=lens)
    torch.testing.assert_close(lens.traces[0].map("alignment").weights, beta)
    assert lens.traces[0].map("alignment").query == "candidate" and lens.traces[0].map("alignment").key == "question"


@torch.no_grad()
def test_one_encoder_reads_both_texts() -> None:
    made = network()
    torch.testing.assert_close(made.states(QUESTION, ASKED), made.states(QUESTION.clone(), ASKED))
    names = [name for name, _ in made.named_parameters() if "encoder" in name]
    assert names and all(name.startswith("encoder.") for name in names)


@torch.no_grad()
@pytest.mark.parametrize("compare", ["pooled", "alignment"])
def test_counts_matter_only_where_they_are_asked_for(compare) -> None:
    for overlap in (True, False):
        made = network(compare=compare, overlap=overlap)
        changed = (made(*BATCH[:4], 1 - FEATURES) != made(*BATCH)).any()
        assert bool(changed) is overlap


@torch.no_grad()
@pytest.mark.parametrize("compare", ["pooled", "alignment"])
def test_a_word_that_is_masked_changes_the_score(compare) -> None:
    made, plain = network(compare=compare), network(compare=compare)(*BATCH)
    edited = made(*BATCH, lens=Lens(edits=[Mask([1], site="candidate")]))
    assert edited[0] != plain[0]


def test_a_config_that_cannot_be_is_refused() -> None:
    for fields, told in (
        ({"width": 2}, "width must be odd"),
        ({"mlp": 0}, "mlp must be at least 1"),
        ({"dropout": 1.0}, "dropout"),
    ):
        with pytest.raises(ValueError, match=told):
            Config(**fields)


@pytest.mark.parametrize("compare", ["pooled", "alignment"])
def test_the_flow_says_whether_word_overlap_leads_to_the_score(compare) -> None:
    for overlap in (True, False):
        made, lens = network(compare=compare, overlap=overlap), Lens()
        made(*BATCH, lens=lens)
        output = lens.traces[0].about["flow"]["candidate"]["output"]
        assert ("o" in output) is overlap and "c[t]" in output

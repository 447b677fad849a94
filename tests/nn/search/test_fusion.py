"""Searches with CTC's probabilities of prefixes and a language model find what the sum of all scores says."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.models import recurrent_lm, transformer
from saccade.models.listen_attend import Config, ListenAttend
from saccade.nn import ctc
from saccade.nn.cuda_graphs import EagerDevice
from saccade.nn.ensemble import Ensemble
from saccade.nn.language import LanguageModel
from saccade.nn.search.beam_search import Search, search
from saccade.nn.search.constraints import Constraints
from saccade.nn.search.fast_beam import Recorder
from saccade.nn.search.fusion import Fused, Fusion
from saccade.trace import Lens

B, N, D, V, LIMIT = 2, 7, 3, 6, 4
BOS, EOS = 1, 2
LENGTHS = torch.tensor([7, 4])
MARKS: dict[str, Any] = {"bos": BOS, "eos": EOS, "forbidden": (0, BOS)}


def listener(seed: int = 1) -> ListenAttend:
    torch.manual_seed(seed)
    config = Config(3, layers=1, state=4, embedding=2, alignment=5, filters=2, reach=1, maxout=3, ctc=0.4)
    network = ListenAttend(config, V, D, BOS).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
    return network


def language_model(kind: str) -> LanguageModel:
    torch.manual_seed(4)
    if kind == "recurrent":
        return recurrent_lm.RecurrentLM(recurrent_lm.Config(embedding=3, hidden=4), V).eval()
    config = transformer.LanguageConfig(width=8, heads=2, hidden=12, layers=2, places=9, dropout=0.0)
    return transformer.TransformerLM(config, V).eval()


def sound() -> Tensor:
    return torch.randn(B, N, D, generator=torch.Generator().manual_seed(3))


def fused(network: Any, weight: float, lm: LanguageModel | None = None, beta: float = 0.0, **more: Any) -> Fused:
    return Fused(network, ctc=weight, labels=labels_of(network), lm=lm, weight=beta, bos=BOS, eos=EOS, **more)


def labels_of(network: Any) -> Any:
    if isinstance(network, Ensemble):
        first: Any = network.members[0]
        return lambda memory: first.ctc_log_probs(memory[0])
    return network.ctc_log_probs


@torch.no_grad()
def score_of(
    network: ListenAttend, lm: LanguageModel | None, row: int, text: tuple[int, ...], w: float, beta: float
) -> float:
    """The score of a whole text and its end, by the definition."""
    one, written = slice(row, row + 1), torch.tensor([[*text, EOS]])
    given = torch.cat([torch.tensor([[BOS]]), written[:, :-1]], dim=1)
    frames, lengths = sound()[one, : LENGTHS[row]], LENGTHS[one]
    total = (1 - w) * float(network(frames, lengths, given).log_softmax(-1)[0].gather(1, written.mT).sum())
    if w:
        labels = network.ctc_log_probs(network.encode(frames, lengths))
        state = ctc.empty_prefix(labels)
        for label in text:
            state = ctc.extended(state, torch.tensor([label]), labels)
        if state.total[0] < -1e29:
            return -math.inf
        total += w * float(torch.logaddexp(state.nonblank, state.blank)[0, -1])
    if lm is not None:
        total += beta * float(lm(given).log_softmax(-1)[0].gather(1, written.mT).sum())
    return total


@pytest.mark.parametrize(
    ("w", "beta", "kind"),
    [(0.3, 0.0, ""), (1.0, 0.0, ""), (0.0, 0.7, "recurrent"), (0.4, 0.5, "recurrent"), (0.2, 0.6, "transformer")],
)
def test_a_wide_beam_finds_the_best_of_all_texts(w: float, beta: float, kind: str) -> None:
    network, lm = listener(), language_model(kind) if kind else None
    together = fused(network, w, lm, beta)
    memory = together.encode(sound(), LENGTHS)
    width = V**LIMIT
    found = search(together, memory, [LIMIT] * B, Search(beam=width, n_best=5, stop="beam"), **MARKS)
    texts = [text for size in range(LIMIT) for text in itertools.product(range(3, V), repeat=size)]
    for row, best in enumerate(found):
        expected = sorted(((score_of(network, lm, row, text, w, beta), text) for text in texts), reverse=True)[:5]
        assert [each.tokens for each in best] == [text for _, text in expected]
        for each, (score, _) in zip(best, expected, strict=True):
            assert each.log_prob == pytest.approx(score, abs=1e-4)


def test_every_way_to_search_gives_the_same() -> None:
    network, lm = listener(), language_model("recurrent")
    for decoder in (network, Ensemble([network, listener(2)])):
        together = fused(decoder, 0.3, lm, 0.4)
        with torch.no_grad():
            memory = together.encode(sound(), LENGTHS)
            how = Search(beam=3, n_best=2)
            plain = search(together, memory, [LIMIT] * B, how, **MARKS)
            others = [
                search(together, memory, [LIMIT] * B, how, lens=Lens(detail=["outputs", "beam"]), **MARKS),
                search(together, memory, [LIMIT] * B, how, recorder=Recorder(EagerDevice()), **MARKS),
                search(together, memory, [LIMIT] * B, how, constraints=[Constraints()] * B, **MARKS),
            ]
        for other in others:
            for ours, theirs in zip(plain, other, strict=True):
                assert [each.tokens for each in ours] == [each.tokens for each in theirs]
                assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], abs=1e-5)


def test_a_language_model_with_other_tokens_and_another_opening_reads_its_own() -> None:
    torch.manual_seed(4)
    lm = recurrent_lm.RecurrentLM(recurrent_lm.Config(embedding=3, hidden=4), 9).eval()
    theirs = torch.tensor([0, EOS, 2, 3, 8, 5])  # for our first token it reads the end of another text
    together = fused(listener(), 0.0, lm, 1.0, tokens=theirs)
    alone = fused(listener(), 0.0)
    scores = []
    with torch.no_grad():
        for network in (together, alone):
            memory = network.encode(sound(), LENGTHS)
            _, state = network.step(torch.tensor([BOS, BOS]), network.start(memory), memory, offset=0)
            scores.append(network.step(torch.tensor([4, 5]), state, memory, offset=1)[0])
        expected = lm(torch.tensor([[EOS, 8], [EOS, 5]])).log_softmax(-1)[:, 1, theirs]
    torch.testing.assert_close(scores[0] - scores[1], expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ctc": 1.5}, "ctc must be from 0 to 1: got 1.5"),
        ({"ctc": "yes"}, "ctc must be a number: got 'yes'"),
        ({"lm": "runs/lm"}, "lm must be a value of Fusion: got 'runs/lm'"),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Search(**settings)
    with pytest.raises(ValueError, match="weight must be above 0: got 0"):
        Fusion("runs/lm", 0.0)

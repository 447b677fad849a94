"""The benchmarks of speech: the plain network computes the loss of the model, and alignments are counted as stated."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from saccade.data.audio.records import Spoken
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.models.listen_attend import Config, ListenAttend

FOLDER = Path(__file__).parents[2] / "benchmarks" / "speech"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("plain", "runs", "alignments"):  # other benchmarks have modules of these names
        monkeypatch.delitem(sys.modules, name, raising=False)


def network(**changes: Any) -> ListenAttend:
    sizes = {
        "hidden": 5,
        "layers": 3,
        "state": 7,
        "embedding": 3,
        "alignment": 11,
        "filters": 4,
        "reach": 6,
        "maxout": 5,
    }
    return ListenAttend(Config(**{**sizes, **changes}), 13, 9, Tokenizer.BOS).double()


@pytest.mark.parametrize("pooling", [(), (1, 3), (2, 1, 2)])
def test_the_plain_network_has_the_loss_and_the_gradients_of_the_model(pooling: tuple[int, ...]) -> None:
    import plain

    ours = network(pooling=pooling)
    frames, lengths = torch.randn(4, 23, 9).double(), torch.tensor([23, 17, 5, 20])
    tokens, targets = torch.randint(3, 13, (4, 6)), torch.randint(3, 13, (4, 6))
    tokens[:, 0], targets[1, 4:] = Tokenizer.BOS, plain.PAD
    theirs = plain.copied(ours, 13, 9).double()
    losses = (
        functional.cross_entropy(
            ours(frames, lengths, tokens).flatten(0, 1), targets.flatten(), ignore_index=plain.PAD
        ),
        theirs.loss(frames, lengths, tokens, targets),
    )
    assert losses[0].item() == pytest.approx(losses[1].item(), abs=1e-12)
    for mine, other in (
        ("filters", "attention.convolution.weight"),
        ("initial", "initial"),
        ("v", "attention.v.weight"),
    ):
        gradients = (
            torch.autograd.grad(losses[0], ours.get_parameter(mine), retain_graph=True)[0],
            torch.autograd.grad(losses[1], theirs.get_parameter(other), retain_graph=True)[0],
        )
        torch.testing.assert_close(gradients[0].flatten(), gradients[1].flatten(), rtol=0, atol=1e-12)


def test_the_plain_network_decodes_greedily_what_the_model_finds_likeliest() -> None:
    import plain

    ours = network()
    frames, lengths = torch.randn(3, 19, 9).double(), torch.tensor([19, 7, 13])
    written = plain.copied(ours, 13, 9).double().greedy(frames, lengths, 8, Tokenizer.EOS)
    memory = ours.encode(frames, lengths)
    state, token = ours.start(memory), torch.full((3,), Tokenizer.BOS)
    rows: list[list[int]] = [[], [], []]
    for offset in range(8):
        logits, state = ours.step(token, state, memory, offset=offset)
        token = logits.argmax(-1)
        for row, word in zip(rows, token.tolist()):
            row.append(word)
    assert written == [row[: row.index(Tokenizer.EOS)] if Tokenizer.EOS in row else row for row in rows]


class Looking:
    """A task whose attention is given: for each text the weights of its symbols."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.weights = weights

    def scorer(self, network: Any, record: Any, target: str) -> Any:
        def score(lens: Any) -> Any:
            found = SimpleNamespace(weights=self.weights[target])
            return SimpleNamespace(trace=SimpleNamespace(map=lambda site: found))

        return score


def test_symbols_and_starts_are_found_within_two_frames_and_the_delay_is_taken_off() -> None:
    import alignments

    places = {"abc": [3, 9, 25], "de": [0, 13]}  # with the end of the text, which has no place
    weights = {
        text: functional.one_hot(torch.tensor([*own, 29]), 30).double() for text, own in places.items()
    }  # fmt: skip
    times = {
        "abc": (("a", 0.0, 0.05), ("b", 0.06, 0.11), ("c", 0.12, 0.22)),  # c is 3 frames beyond its end
        "de": (("d", 0.0, 0.07), ("e", 0.10, 0.20)),
    }
    records = [Spoken(None, text, "", own) for text, own in times.items()]  # type: ignore[arg-type]
    task = Looking(weights)
    assert alignments.delay_of(task, None, records, 0.01) == pytest.approx(0.03)  # 3, 3, 13, 0, 3 frames
    found = alignments.alignment_of(task, None, records, 0.01, 0.01)
    assert found == {"found": pytest.approx(4 / 5), "starts": pytest.approx(4 / 5), "delay": 0.01}
    assert alignments.alignment_of(task, None, records, 0.01, 0.03)["starts"] == pytest.approx(3 / 5)


def test_options_of_the_whole_are_left_out_of_the_command_of_a_part() -> None:
    import runs

    words = ["--runs", "R", "--only", "hybrid", "--seeds", "1,2", "--jobs", "3", "--only=content", "train.epochs=2"]
    assert runs._without(words, ("--only", "--seeds")) == ["--runs", "R", "--jobs", "3", "train.epochs=2"]
    assert runs.mean_of([0.1, 0.3], 1, 100) == "20.0 ± 14.1" and runs.mean_of([0.1], 1, 100) == "10.0"

"""Small traces of generated numbers, one for each thing that the explorer can be asked to draw.

Legend: T steps written, S positions read, H heads. Sizes are odd and unequal, so that a swapped axis shows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from saccade.models import rnnsearch, seq2seq
from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Outputs, Signal, Trace, Tree

SITE = "decoder.attention"
READ = ("the", "un", "##seen", "garden", "was", "green", "<eos>")
READ_WORDS = (0, 1, 1, 2, 3, 4, 5)
WRITTEN = ("der", "Garten", "war", "grün", "<eos>")


def _numbers(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _aligned(T: int, S: int, seed: int, sharp: float = 3.0) -> Tensor:
    """Scores [T, S] that are high where a step stands as far in what is written as a position in what is read."""
    written, read = torch.linspace(0, 1, max(T, 1))[:T, None], torch.linspace(0, 1, max(S, 1))[None, :S]
    return sharp - 12 * sharp * (written - read) ** 2 + torch.randn(T, S, generator=_numbers(seed))


@cache
def decode() -> Trace:
    """A translation by a recurrent network with one attention: everything a lens can keep of it."""
    T, S = len(WRITTEN), len(READ)
    scores = _aligned(T, S, seed=1)
    weights = scores.softmax(1)
    states = torch.randn(S, 9, generator=_numbers(2)).tanh()
    return Trace(
        axes={"target": _written(), "source": _read()},
        maps=(AttentionMap(SITE, "target", "source", "dense", {"weights": weights, "scores": scores}, 0, keys=S),),
        signals={
            "encoder.state": Signal("source", states),
            f"{SITE}.context": Signal("target", weights @ states),
            "decoder.state": Signal("target", torch.randn(T, 11, generator=_numbers(3)).tanh()),
        },
        outputs=_outputs(WRITTEN, seed=4),
        tree=_tree(),
        about={
            "task": "translate",
            "input": "the unseen garden was green",
            "output": "der Garten war grün",
            "score": -1.25,
            "model": "rnnsearch",
            "recipe": "made_up",
            "parameters": 272703,
            "metrics": {"exact_match": 0.875},
            "scores": {SITE: "additive"},
            "flow": {SITE: rnnsearch.FLOW.to_json()},
            "gold": [[0, 0, 1], [1, 3, 1], [2, 4, 0]],
            "aer": 0.25,
            "faithfulness": _faithfulness(),
        },
    )


def _read() -> Tokens:
    text, spans, at = "the unseen garden was green", [], 0
    for label in READ[:-1]:
        part = label.removeprefix("##")
        at = text.index(part, at)
        spans.append((at, at + len(part)))
    return Tokens(READ, text=text, spans=(*spans, (len(text), len(text))), words=READ_WORDS, special=(len(READ) - 1,))


def _written() -> Tokens:
    return Tokens(WRITTEN, text="der Garten war grün", special=(len(WRITTEN) - 1,))


def _outputs(written: tuple[str, ...], seed: int, k: int = 4) -> Outputs:
    """Each step's own word first, then what else it might have been."""
    T = len(written)
    shares = (torch.randn(T, k, generator=_numbers(seed)) * 2).sort(1, descending=True).values.softmax(1)
    others = ("die", "Baum", "ist", "rot", "das", "Haus")
    labels = tuple((word, *[other for other in others if other != word][: k - 1]) for word in written)
    return Outputs("target", labels, shares * 0.97, torch.arange(T * k).reshape(T, k))


def _tree() -> Tree:
    """A beam of 3: the chosen path, a branch that died, and one that ended and lost."""
    labels = (*WRITTEN, "die", "das", "Baum", "Blume", "ist", "<eos>")
    parent = [-1, 0, 1, 2, 3, -1, -1, 0, 5, 7, 9]
    step = [0, 1, 2, 3, 4, 0, 0, 1, 1, 2, 3]
    log_prob = [-0.2, -0.5, -0.9, -1.1, -1.25, -1.9, -2.5, -1.6, -2.75, -2.9, -3.5]
    return Tree(
        labels,
        torch.tensor(parent),
        torch.tensor(step),
        torch.arange(len(labels)),
        torch.tensor(log_prob),
        torch.tensor([label == "<eos>" for label in labels]),
        torch.tensor([i < len(WRITTEN) for i in range(len(labels))]),
    )


def _faithfulness() -> dict[str, Any]:
    erased = [0, 1, 2, 3]
    curves = {"most looked at": [0.9, 0.4, 0.2, 0.1], "by chance": [0.9, 0.8, 0.7, 0.5]}
    return {
        "sentence": "Erasing what it looked at most hurts the output more than erasing by chance.",
        "figures": {"area_most": 0.36, "area_chance": 0.735},
        "curves": [
            {"name": name, "x_label": "positions erased", "y_label": "probability", "x": erased, "y": y}
            for name, y in curves.items()
        ],
    }


@cache
def transformer() -> Trace:
    """Two layers of three heads that look at their own input, then a decoder that looks at it too."""
    maps = []
    for layer in range(2):
        for head in range(3):
            weights = _aligned(7, 7, seed=10 * layer + head, sharp=1.0 + head).softmax(1)
            site = f"encoder.layers.{layer}.self_attention"
            maps.append(AttentionMap(site, "source", "source", "dense", {"weights": weights}, head, keys=7))
    for head in range(3):
        weights = _aligned(5, 7, seed=40 + head, sharp=1.0 + head).softmax(1)
        maps.append(
            AttentionMap("decoder.layers.0.cross", "target", "source", "dense", {"weights": weights}, head, keys=7)
        )
    about = {key: value for key, value in decode().about.items() if key in ("task", "input", "output")}
    axes = {"target": _written(), "source": _read()}
    values = torch.randn(3, 7, 13, generator=_numbers(50))
    contexts = torch.stack([map.weights @ value for map, value in zip(maps[-3:], values, strict=True)], dim=1)
    signals = {"decoder.layers.0.cross.context": Signal("target", contexts)}  # [T, H, n]
    about["model"] = "transformer"
    return Trace(axes, tuple(maps), signals, outputs=_outputs(WRITTEN, seed=5), about=about)


@cache
def bottleneck() -> Trace:
    """A decode without attention: states only."""
    whole = decode()
    signals = {name: signal for name, signal in whole.signals.items() if name.endswith("state")}
    network = seq2seq.Seq2Seq(seq2seq.Config(hidden=9), 5, 7)
    flow = {"decoder.state": network.flow.to_json()}
    about = {**{key: whole.about[key] for key in ("task", "input", "output")}, "model": "seq2seq", "flow": flow}
    return Trace(whole.axes, (), signals, whole.outputs, about=about)


@cache
def other_decode() -> Trace:
    """The same input read by another model, which wrote one word differently and looked elsewhere."""
    whole = decode()
    scores = _aligned(5, 7, seed=77, sharp=1.5)
    tensors = {"weights": scores.softmax(1), "scores": scores}
    written = ("der", "Hof", "war", "grün", "<eos>")
    axes = {**whole.axes, "target": Tokens(written, text="der Hof war grün", special=(4,))}
    about = {**whole.about, "output": "der Hof war grün", "recipe": "another"}
    outputs = _outputs(written, seed=8)
    return replace(whole, axes=axes, maps=(replace(whole.maps[0], tensors=tensors),), outputs=outputs, about=about)


@cache
def long() -> Trace:
    """More than a screen holds: 150 positions, of which the 5 largest weights of each row were kept."""
    T, k = 150, 5
    index = (torch.arange(T)[:, None] + torch.arange(k) - 2).clamp(0, T - 1)
    kept = torch.tensor([0.4, 0.2, 0.1, 0.1, 0.05]).repeat(T, 1)
    tensors = {"index": index, "weights": kept, "residual": 1 - kept.sum(1)}
    words = Tokens(tuple(f"word{i}" for i in range(T)))
    maps = tuple(AttentionMap("layer.0", "text", "text", "top", tensors, head, keys=T) for head in range(2))
    return Trace({"text": words}, maps, about={"task": "language_model", "input": "a long text", "output": "…"})


@cache
def nothing() -> Trace:
    """A trace that kept nothing."""
    return Trace(about={"task": "translate"})

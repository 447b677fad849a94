"""Every public function and layer takes arguments of any kind: it works, or raises one error of the package's own.

Each argument in turn is replaced by values of kinds that people pass by mistake. A raw error of PyTorch or Python from inside
is a failure, whatever the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from saccade import attention, nn, trace
from saccade.attention import graph, normalise, recent, scores, windows
from saccade.errors import SaccadeError

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

QUERY, KEY, VALUE = torch.randn(2, 3, 6), torch.randn(2, 7, 6), torch.randn(2, 7, 5)
WEIGHTS, LENGTHS = torch.rand(2, 3, 7).softmax(-1), torch.tensor([3, 7])
WHERE = {"window": windows.everywhere, "offset": 0, "lens": None, "site": "here"}
HOW = {"score": scores.dot, "normalise": normalise.softmax}
PLACE = {"site": "here", "head": 0, "step": 0}
VECTOR, MATRIX = torch.randn(5), torch.randn(5, 6)
EDGES = graph.Graph.of([[0, 3], [1, 6]], receivers=7)

# Calls that work: the function and all of its arguments.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "attend": (attention.attend, {"query": QUERY, "key": KEY, "value": VALUE, **HOW, **WHERE, "dropout": 0.1}),
    "weigh": (attention.weigh, {"query": QUERY, "key": KEY, **HOW, **WHERE}),
    "read": (attention.read, {"weights": WEIGHTS, "value": VALUE}),
    "hard": (attention.hard, {"weights": WEIGHTS, "sample": False}),
    "read a choice": (lambda value: attention.read(attention.hard(WEIGHTS), value), {"value": VALUE}),
    "explain_choice": (attention.explain_choice, {"query": QUERY, "key": KEY, "value": VALUE, **HOW}),
    "attend_edges": (
        graph.attend_edges,
        {"query": KEY[0], "key": KEY[0], "value": KEY[0], "graph": EDGES, "a": None, "act": "tanh", "dropout": 0.1},
    ),
    "Graph.of": (graph.Graph.of, {"edges": [[0, 3], [1, 6]], "receivers": 7, "senders": 7}),
    "around": (recent.around, {"weights": WEIGHTS, "radius": 1, "centre": "mean"}),
    "padding": (windows.padding, {"keep": LENGTHS}),
    "mask": (windows.mask, {"seen": torch.ones(3, 7) > 0}),
    "band": (windows.band, {"radius": 2, "centre": torch.zeros(2, 3)}),
    "gaussian": (windows.gaussian, {"centre": torch.zeros(2, 3), "radius": 2}),
    "causal": (windows.causal, {"align": "top-left"}),
    **{
        name: (getattr(normalise, name), {"scores": torch.randn(2, 3, 7)})
        for name in ("softmax", "smoothed", "sparsemax", "entmax15")
    },
    "sharpened": (normalise.sharpened, {"beta": 2.0}),
    "top": (normalise.top, {"keep": 2, "of": normalise.smoothed}),
    "dot": (scores.dot, {"query": QUERY, "key": KEY}),
    "general": (scores.general, {"weight": torch.randn(6, 6)}),
    "additive": (scores.additive, {"v": VECTOR, "query_weight": MATRIX, "key_weight": MATRIX}),
    "location": (scores.location, {"weight": torch.randn(9, 6)}),
    "cosine": (scores.cosine, {"beta": 1.0}),
    "location_aware": (
        scores.location_aware,
        {
            "v": VECTOR,
            "query_weight": MATRIX,
            "key_weight": MATRIX,
            "filters": torch.randn(2, 3),
            "location_weight": torch.randn(5, 2),
            "bias": VECTOR,
        },
    ),
    "Attention": (
        nn.Attention,
        {"query_width": 6, "key_width": 6, "score": "additive", "width": 5, "places": 3, "dropout": 0.1},
    ),
    "MultiHead": (
        nn.MultiHead,
        {"width": 6, "heads": 3, "key_width": 6, "value_width": 6, "score": "dot", "dropout": 0.1, "bias": True},
    ),
    "AttentionPool": (nn.AttentionPool, {"width": 6, "score": "additive", "hidden": 5}),
    "SelfAttention2d": (
        nn.SelfAttention2d,
        {"channels": 8, "reduced": 2, "values": 3, "keys": "every", "spectral": False, "bias": False},
    ),
    "Convolution": (nn.Convolution, {"inputs": 6, "outputs": 5, "width": 3, "layers": 2, "dropout": 0.1}),
    "CRF": (nn.CRF, {"tags": 4}),
    "GatedUnit": (nn.GatedUnit, {"inputs": 6, "hidden": 5, "update": "keep", "bias": True}),
    "Recurrent": (
        nn.Recurrent,
        {"cell": "gru", "inputs": 6, "hidden": 5, "layers": 2, "bidirectional": False, "dropout": 0.1, "bias": True},
    ),
    "Recurrent of the paper": (nn.Recurrent, {"cell": "paper", "inputs": 6, "hidden": 5, "update": "keep"}),
    "an Attention": (nn.Attention(6, 6), {"query": QUERY, "key": KEY, "value": VALUE, **WHERE}),
    "a MultiHead": (nn.MultiHead(6, 3), {"query": QUERY, "key": KEY, "value": KEY, **WHERE}),
    "an AttentionPool": (nn.AttentionPool(6), {"states": KEY, "window": windows.everywhere}),
    "a Convolution": (nn.Convolution(6, 5), {"x": KEY, "lengths": LENGTHS}),
    "a GatedUnit": (nn.GatedUnit(6, 5), {"x": KEY[:, 0], "hidden": torch.randn(2, 5)}),
    "an LSTM": (nn.Recurrent("lstm", 6, 5), {"x": KEY, "lengths": LENGTHS, "initial": None}),
    "a GRU": (nn.Recurrent("gru", 6, 5, bidirectional=True), {"x": KEY, "lengths": LENGTHS}),
    "a step": (nn.Recurrent("rnn", 6, 5).step, {"x": KEY[:, 0], "state": (torch.zeros(2, 1, 5),)}),
    "CRF.loss": (
        nn.CRF(4).loss,
        {"emissions": torch.randn(2, 7, 4), "tags": torch.ones(2, 7).long(), "lengths": LENGTHS, "moves": None},
    ),
    "CRF.decode": (nn.CRF(4).decode, {"emissions": torch.randn(2, 7, 4), "lengths": LENGTHS}),
    "Mask": (trace.Mask, {"keys": (1,), **PLACE}),
    "Boost": (trace.Boost, {"keys": (1,), "factor": 2.0, **PLACE}),
    "Set": (trace.Set, {"row": (0.5, 0.5), **PLACE}),
    "Even": (trace.Even, PLACE),
    "Lens": (trace.Lens, {"keep": "top", "k": 3, "edits": (), "detail": ()}),
    "Site": (trace.Site, {"name": "a", "query": "q", "key": "k"}),
}

WRONG: list[Any] = [
    None, "softmax", b"x", 3, -1, 0, 2.5, float("nan"), True, (), {}, [1.0], [[1, 2], [3, 4]], [KEY], object(), int,
    torch.nn.Linear, np.zeros((2, 7)), np.ones((2, 7, 6), dtype=np.float32), np.array([3, 7]), torch.tensor(3),
    torch.tensor([9, 9]), torch.tensor([-1, 3]), torch.ones(2, 7), torch.ones(2, 7).long(), torch.ones(2, 7, 6).long(),
    torch.randn(2, 7, 8), torch.randn(5, 7, 6), torch.zeros(0, 7, 6), torch.randn(7, 6), torch.randn(2, 3, 7, 6),
    torch.randn(2, 7, 6, dtype=torch.complex64), torch.sparse_coo_tensor(size=(2, 7, 6), check_invariants=True),
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_any_kind_is_used_or_refused_by_an_error_of_the_package(name: str) -> None:
    function, arguments = CALLS[name]
    function(**arguments)
    raw = []
    for argument in arguments:
        for wrong in WRONG:
            try:
                function(**{**arguments, argument: wrong})
            except SaccadeError:
                pass
            except Exception as error:
                raw.append(f"{argument}={wrong!r:.50}: {type(error).__name__}: {error}")
    assert not raw, "\n".join(raw)


# Values of another kind that would be taken for something else in silence: the argument is named.
SILENT: dict[str, tuple[Callable[[], Any], str]] = {
    "an LSTM of another width reads beyond its weights": (
        lambda: nn.Recurrent("lstm", 6, 5)(torch.randn(2, 7, 4)),
        r"x: expected a width of 6, found \[2, 7, 4\]",
    ),
    "an update gate that is neither": (
        lambda: nn.GatedUnit(6, 5, update="reset"),
        "update must be keep or write.*'reset'",
    ),
    "the same in a layer": (lambda: nn.Recurrent("paper", 6, 5, update="reset"), "update must be keep or write"),
    "no layers": (lambda: nn.Recurrent("gru", 6, 5, layers=0), "layers must be at least 1"),
    "a flag in words": (lambda: nn.MultiHead(6, 3, bias="no"), "bias must be True or False: got 'no'"),
    "a width as an array": (lambda: nn.MultiHead(None, 3), "width must be a whole number: got None"),
    "a score that is no module": (lambda: nn.Attention(6, 6, score=3), "score.*Module.*int"),
    "no parameters": (lambda: scores.general(None), "weight.*None"),
    "whole parameters": (lambda: scores.additive(torch.ones(5).long()), "v: .*int64"),
    "several matrices": (lambda: scores.general(torch.randn(2, 6, 6)), r"weight.*matrix.*\[2, 6, 6\]"),
    "an offset as a tensor": (lambda: attention.weigh(QUERY, KEY, **HOW, offset=torch.tensor(1)), "offset"),
    "a mask [S] of one text": (
        lambda: attention.attend(QUERY[:1], KEY[:1], VALUE[:1], **HOW, window=windows.padding([1, 1, 1, 1, 1, 0, 0])),
        r"padding: expected the length of one item, found 7: a mask of one item is \[1, S\]",
    ),
    "tags beyond the last": (
        lambda: nn.CRF(4).loss(torch.randn(2, 7, 4), torch.full((2, 7), 4), LENGTHS),
        "tags: expected numbers from 0 to 3, found 4",
    ),
    "tags below the first": (
        lambda: nn.CRF(4).loss(torch.randn(2, 7, 4), torch.full((2, 7), -1), LENGTHS),
        "tags: expected numbers from 0 to 3, found -1",
    ),
    "lengths beyond the rows": (lambda: nn.Convolution(6, 5)(KEY, torch.tensor([3, 8])), "lengths: .*0 to 7.*found 8"),
    "negative lengths": (lambda: nn.Recurrent("gru", 6, 5)(KEY, torch.tensor([-1, 3])), "lengths: .*found -1"),
    "one length for two rows": (lambda: nn.Convolution(6, 5)(KEY, torch.tensor(3)), r"lengths: .*\[2\].*\[\]"),
    "a site without a text": (lambda: trace.Site("a", 3, "k"), "site: .*query.*3"),
    "a choice of other keys": (
        lambda: attention.read(attention.hard(WEIGHTS), torch.randn(2, 9, 5)),
        "7 weights, found 9",
    ),
}


@pytest.mark.parametrize("case", SILENT)
def test_what_would_be_misread_in_silence_is_refused_by_its_name(case: str) -> None:
    call, facts = SILENT[case]
    with pytest.raises(SaccadeError, match=facts):
        call()


def test_padding_that_is_tagged_at_random_does_not_count() -> None:
    emissions, tags = torch.randn(2, 7, 4), torch.randint(0, 4, (2, 7))
    padded = tags.clone()
    padded[0, 3:] = -100
    crf = nn.CRF(4)
    assert torch.equal(crf.loss(emissions, padded, LENGTHS), crf.loss(emissions, tags, LENGTHS))


def test_a_beta_per_query_sharpens_each_row_with_its_own_also_under_a_lens() -> None:
    beta = torch.rand(2, 3, 1) * 3 + 0.5
    expected = (QUERY @ KEY.mT * beta).softmax(-1)
    how = {"score": scores.dot, "normalise": normalise.sharpened(beta)}
    torch.testing.assert_close(attention.weigh(QUERY, KEY, **how), expected)
    torch.testing.assert_close(attention.weigh(QUERY, KEY, **how, lens=trace.Lens()), expected)
    assert "2, 3, 1" in repr(normalise.sharpened(beta))


def test_a_normaliser_gets_scores_of_the_same_shape_with_a_lens_as_without() -> None:
    shapes = []

    def recorded(given: torch.Tensor) -> torch.Tensor:
        shapes.append(given.shape)
        return given.softmax(-1)

    for lens in (None, trace.Lens()):
        attention.weigh(QUERY, KEY, score=scores.dot, normalise=recorded, lens=lens)
    assert shapes == [(2, 3, 7), (2, 3, 7)]

"""Arguments of another kind than expected are taken for what they mean, or refused by their names."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from saccade import Lens, attend, explain_choice, read, weigh
from saccade.attention.core import look
from saccade.attention.graph import Graph, attend_edges
from saccade.attention.normalise import sharpened, softmax, sparsemax
from saccade.attention.recent import around
from saccade.attention.scores import Prepared, additive, cosine, dot, general, location, location_aware, scaled_dot
from saccade.attention.spatial import SelfAttention2d
from saccade.attention.windows import band, causal, everywhere, gaussian, mask, padding
from saccade.errors import SaccadeError
from saccade.kernels.choose import Choice
from saccade.nn import Attention, AttentionPool, MultiHead
from saccade.trace import Boost, Mask, Set

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

QUERY, KEY = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
SEEN = [[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]]


@pytest.mark.parametrize(
    "keep",
    [
        torch.tensor(SEEN),
        torch.tensor(SEEN, dtype=torch.int32),
        torch.tensor(SEEN, dtype=torch.uint8),
        torch.tensor(SEEN, dtype=torch.float32),
        torch.tensor(SEEN).bool(),
        SEEN,
        torch.tensor([4, 6]),
        [4, 6],
        (4, 6),
        torch.tensor(SEEN).numpy(),
    ],
    ids=["int64", "int32", "uint8", "float", "bool", "lists", "lengths", "list of lengths", "tuple", "array"],
)
def test_a_mask_of_ones_and_zeros_hides_padding_as_lengths_do(keep) -> None:
    expected = weigh(QUERY, KEY, score=dot, window=padding(torch.tensor(SEEN) == 1))
    assert torch.equal(weigh(QUERY, KEY, score=dot, window=padding(keep)), expected)


def test_other_whole_numbers_of_two_axes_are_a_length_per_head() -> None:
    lengths = torch.tensor([[1, 2, 3], [4, 5, 7]])
    query, key = torch.randn(2, 3, 1, 5), torch.randn(2, 3, 7, 5)
    weights = weigh(query, key, score=dot, window=padding(lengths))
    assert torch.equal((weights > 0).sum(-1).squeeze(-1), lengths)


GRAPH = Graph.of([[0, 3], [1, 6]], receivers=7)

REFUSED: dict[str, tuple[Any, str]] = {
    "normalise by name": (lambda: attend(QUERY, KEY, KEY, score=dot, normalise="sparsemax"), "normalise.*'sparsemax'"),
    "normalise by class": (lambda: attend(QUERY, KEY, KEY, score=dot, normalise=type(softmax)), "normalise.*Softmax"),
    "score by name": (lambda: weigh(QUERY, KEY, score="dot"), "score.*'dot'"),
    "window by name": (lambda: weigh(QUERY, KEY, score=dot, window="causal"), "window.*'causal'"),
    "no window": (lambda: attend(QUERY, KEY, KEY, score=dot, window=None), "window.*NoneType"),
    "a mask for a window": (lambda: weigh(QUERY, KEY, score=dot, window=torch.ones(3, 7) > 0), "window.*Tensor"),
    "a lens by name": (lambda: weigh(QUERY, KEY, score=dot, lens="all"), "lens.*'all'"),
    "a lens class": (lambda: attend(QUERY, KEY, KEY, score=dot, lens=Lens), "lens.*Lens"),
    "a number for a site": (lambda: weigh(QUERY, KEY, score=dot, site=3), "site.*3"),
    "lists for tensors": (lambda: weigh([[1.0]], KEY, score=dot), "query.*list"),
    "a list of values": (lambda: attend(QUERY, KEY, [1.0], score=dot), "value.*list"),
    "token numbers": (lambda: attend(QUERY, KEY.long(), KEY, score=dot), "key.*int64"),
    "one axis": (lambda: attend(QUERY[0, 0], KEY, KEY, score=dot), r"query.*\[5\]"),
    "other batches": (lambda: weigh(QUERY, torch.randn(3, 7, 5), score=dot), r"\[2, 3, 5\].*\[3, 7, 5\]"),
    "no batch": (lambda: attend(QUERY, KEY[0], KEY[0], score=dot), r"\[2, 3, 5\].*\[7, 5\]"),
    "values of another batch": (lambda: attend(QUERY, KEY, torch.randn(3, 7, 5), score=dot), r"value.*\[3, 7, 5\]"),
    "dropout in percent": (lambda: attend(QUERY, KEY, KEY, score=dot, dropout=10), "dropout.*10"),
    "dropout as text": (lambda: attend(QUERY, KEY, KEY, score=dot, dropout="0.1"), "dropout.*0.1"),
    "an offset between positions": (lambda: weigh(QUERY, KEY, score=dot, offset=1.5), "offset.*1.5"),
    "read other keys": (lambda: read(torch.rand(2, 3, 7), torch.randn(2, 5, 4)), "7.*5"),
    "look without values": (lambda: look(QUERY, KEY, None, score=dot), "value.*None"),
    "look at other keys": (lambda: look(QUERY, KEY, torch.randn(2, 6, 3), score=dot), "value.*7.*6"),
    "look with dropout of 2": (lambda: look(QUERY, KEY, KEY, score=dot, dropout=2), "dropout.*2"),
    "explain a list": (lambda: explain_choice(QUERY, KEY, [1.0], score=dot), "value.*list"),
    "weights of another shape": (
        lambda: weigh(QUERY, KEY, score=dot, normalise=lambda scores: scores.sum(-1)),
        r"normalise.*\[2, 3, 7\].*\[2, 3\]",
    ),
    "weights as lists": (lambda: weigh(QUERY, KEY, score=dot, normalise=lambda z: z.tolist()), "normalise.*list"),
    "padding of other items": (
        lambda: weigh(QUERY, KEY, score=dot, window=padding([1, 2, 3])),
        r"\[2, 3, 7\].*padding",
    ),
    "a mask of other items": (
        lambda: attend(QUERY, KEY, KEY, score=dot, window=mask(torch.ones(3, 3, 7) > 0)),
        r"\[2, 3, 7\].*mask\(\[3, 3, 7\]\)",
    ),
    "a mask with heads for none": (
        lambda: weigh(QUERY, KEY, score=dot, window=mask(torch.ones(2, 1, 3, 7) > 0)),
        r"\[2, 3, 7\].*\[2, 1, 3, 7\]",
    ),
    "centres of other queries": (
        lambda: weigh(QUERY, KEY, score=dot, window=band(1, torch.zeros(2, 5))),
        "2, 3, 7.*band",
    ),
    "centres of other items": (
        lambda: attend(QUERY, KEY, KEY, score=dot, window=gaussian(torch.zeros(5, 3), 1)),
        "2, 3, 7.*gaussian",
    ),
    "softmax of a list": (lambda: softmax([1.0]), "scores.*list"),
    "sparsemax of whole numbers": (lambda: sparsemax(torch.ones(3).long()), "scores.*int64"),
    "general of a vector": (lambda: general(torch.randn(5)), r"weight.*matrix.*\[5\]"),
    "additive of a number": (lambda: additive(torch.tensor(1.0)), r"v.*vector.*\[\]"),
    "location-aware by name": (
        lambda: location_aware("v", None, None, torch.randn(2, 3), torch.randn(5, 2)),
        "v.*'v'",
    ),
    "around a list": (lambda: around([[1.0]], 1), "weights.*list"),
    "around by text": (lambda: around(torch.rand(2, 3, 7), "1"), "radius.*'1'"),
    "edges: a list for a graph": (lambda: attend_edges(KEY[0], KEY[0], KEY[0], [[0], [1]]), "graph.*list"),
    "edges: a list of queries": (lambda: attend_edges([1.0], KEY[0], KEY[0], GRAPH), "query.*list"),
    "edges: a by list": (lambda: attend_edges(KEY[0], KEY[0], KEY[0], GRAPH, a=[1.0]), "a:.*list"),
    "edges: a lens by name": (lambda: attend_edges(KEY[0], KEY[0], KEY[0], GRAPH, lens="all"), "lens.*'all'"),
    "edges: dropout of 5": (lambda: attend_edges(KEY[0], KEY[0], KEY[0], GRAPH, dropout=5), "dropout.*5"),
    "map: a list": (lambda: SelfAttention2d(8)([1.0]), "x.*list"),
    "map: channels as text": (lambda: SelfAttention2d("8"), "channels.*'8'"),
    "read lists": (lambda: read([[1.0]], KEY), "weights.*list"),
    "explain by name": (lambda: explain_choice(QUERY, KEY, score="dot"), "score.*'dot'"),
    "queries narrower than W": (lambda: weigh(QUERY, KEY, score=general(torch.randn(4, 5))), "5.*4"),
    "keys narrower than W": (lambda: weigh(QUERY, KEY, score=general(torch.randn(5, 4))), "key.*4.*5"),
    "keys narrower than U": (
        lambda: weigh(QUERY, KEY, score=additive(torch.randn(3), None, torch.randn(3, 4))),
        "4.*5",
    ),
    "general of a list": (lambda: general([[1.0]]), "weight.*list"),
    "additive by name": (lambda: additive("v"), "v.*'v'"),
    "location of a number": (lambda: location(3), "weight.*int"),
    "cosine of a text": (lambda: cosine("2"), "beta.*'2'"),
    "sharpened by a text": (lambda: sharpened("2"), "beta.*'2'"),
    "padding of a text": (lambda: padding("4"), "padding.*'4'"),
    "padding of nothing": (lambda: padding(None), "padding.*None"),
    "padding of scores": (lambda: padding(torch.tensor([[0.0, -1e9]])), "padding.*float32"),
    "padding of lengths as floats": (lambda: padding(torch.tensor([3.0, 4.0])), "padding.*float32"),
    "padding of uneven lists": (lambda: padding([[1, 1], [1]]), "padding.*list"),
    "a mask of ones": (lambda: mask(torch.ones(3, 7)), "mask.*float32"),
    "a mask of one axis": (lambda: mask([True, False]), r"mask.*\[2\]"),
    "a band of a text": (lambda: band("3"), "radius.*'3'"),
    "a band between keys": (lambda: band(2.5), "radius.*2.5"),
    "a Gaussian between keys": (lambda: gaussian(torch.zeros(2, 3), 1.5), "radius.*1.5"),
    "a window and a name": (lambda: causal & "band", "window.*'band'"),
    "layer: normalise by name": (lambda: Attention(5, 5, normalise="sparsemax"), "normalise.*'sparsemax'"),
    "layer: a width as text": (lambda: Attention("5", 5), "query_width.*'5'"),
    "layer: dropout of 50": (lambda: Attention(5, 5, dropout=50), "dropout.*50"),
    "heads: none": (lambda: MultiHead(6, 0), "heads.*0"),
    "heads: half": (lambda: MultiHead(6, 1.5), "heads.*1.5"),
    "heads: normalise by name": (lambda: MultiHead(6, 3, normalise="softmax"), "normalise.*'softmax'"),
    "heads: another width": (lambda: MultiHead(6, 3)(torch.randn(2, 5, 7)), r"query.*6.*\[2, 5, 7\]"),
    "heads: keys of another width": (lambda: MultiHead(6, 3)(torch.randn(2, 5, 6), torch.randn(2, 5, 7)), "key.*6"),
    "heads: no batch": (lambda: MultiHead(6, 3)(torch.randn(5, 6)), r"\[5, 6\]"),
    "heads: token numbers": (lambda: MultiHead(6, 3)(torch.ones(2, 5, 6).long()), "query.*int64"),
    "heads: a window by name": (lambda: MultiHead(6, 3)(torch.randn(2, 5, 6), window="causal"), "window.*'causal'"),
    "pool: normalise by name": (lambda: AttentionPool(5, normalise="sparsemax"), "normalise.*'sparsemax'"),
    "pool: a list": (lambda: AttentionPool(5)([1.0]), "states.*list"),
    "set: a text": (lambda: Set("abc"), "row.*abc"),
    "set: a number": (lambda: Set(0.5), "row.*0.5"),
    "set: names": (lambda: Set(["a", "b"]), "row.*'a'"),
    "boost: a text": (lambda: Boost((1,), "2"), "factor.*'2'"),
    "boost: true": (lambda: Boost((1,), True), "factor.*True"),
    "set: a matrix": (lambda: Set(torch.ones(2, 2)), "row.*tensor"),
    "lens: a number of edits": (lambda: Lens(edits=3), "edits.*3"),
    "lens: a number for a detail": (lambda: Lens(detail=3), "detail.*3"),
    "lens: k is true": (lambda: Lens("top", k=True), "k.*True"),
    "lens: what is not recorded": (lambda: Lens(detail="attention"), "detail.*'attention'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_kind_of_argument_is_refused_by_its_name_and_what_it_is(case) -> None:
    call, facts = REFUSED[case]
    with pytest.raises(SaccadeError, match=facts):
        call()


def test_one_edit_and_one_detail_need_no_list() -> None:
    lens = Lens(edits=Mask((1,)), detail="scores")
    assert lens.edits == (Mask((1,)),) and lens.wants("scores")


def test_keys_of_an_edit_may_be_a_tensor() -> None:
    assert Mask(torch.tensor([1, 3])).keys == (1, 3)


def test_what_was_right_before_still_is() -> None:
    for window in (everywhere, causal("top-left"), band(1), mask(torch.ones(1, 1, 7) > 0), padding([7, 7])):
        assert attend(QUERY, KEY, KEY, score=scaled_dot, normalise=sparsemax, window=window).shape == (2, 3, 5)
    assert attend(QUERY[:1], KEY, KEY, score=scaled_dot).shape == (2, 3, 5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("widths", [{}, {"kdim": 7, "vdim": 4}, {"vdim": 5}])
def test_multi_head_attention_of_torch_is_taken_over_exactly(bias, batch_first, widths) -> None:
    layer = torch.nn.MultiheadAttention(6, 3, bias=bias, batch_first=batch_first, **widths).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    own = MultiHead.from_torch(layer)
    query, key, value = (
        torch.randn(2, n, d).double().requires_grad_() for n, d in ((5, 6), (8, layer.kdim), (8, layer.vdim))
    )
    seen = torch.tensor([[True] * 8, [True] * 3 + [False] * 5])
    given = [states if batch_first else states.transpose(0, 1) for states in (query, key, value)]
    expected, _ = layer(*given, key_padding_mask=~seen)
    expected = expected if batch_first else expected.transpose(0, 1)
    found = own(query, key, value, window=padding(seen))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    inputs = (query, key, value)
    for ours, theirs in zip(
        torch.autograd.grad(found.sin().sum(), inputs), torch.autograd.grad(expected.sin().sum(), inputs)
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    found, expected = own(query, key, value), layer(*given)[0]
    found.sin().sum().backward()
    expected.sin().sum().backward()
    weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight) if widths else None
    theirs = [weight.grad for weight in weights] if weights else layer.in_proj_weight.grad.chunk(3)
    for part, gradient in zip((own.query, own.key, own.value, own.output), (*theirs, layer.out_proj.weight.grad)):
        torch.testing.assert_close(part.weight.grad, gradient, rtol=1e-10, atol=1e-12)
    assert own.training and not MultiHead.from_torch(layer.eval()).training


def test_what_is_frozen_of_a_layer_of_torch_stays_frozen() -> None:
    layer = torch.nn.MultiheadAttention(6, 3, kdim=5)
    assert all(each.requires_grad for each in MultiHead.from_torch(layer).parameters())
    layer.out_proj.weight.requires_grad_(False)
    layer.in_proj_bias.requires_grad_(False)
    frozen = {name for name, each in MultiHead.from_torch(layer).named_parameters() if not each.requires_grad}
    assert frozen == {"output.weight", "query.bias", "key.bias", "value.bias"}


def test_what_multi_head_attention_cannot_represent_is_refused() -> None:
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(SaccadeError, match=next(iter(options))):
            MultiHead.from_torch(torch.nn.MultiheadAttention(6, 3, **options))
    with pytest.raises(SaccadeError, match="Linear"):
        MultiHead.from_torch(torch.nn.Linear(3, 5))
    assert MultiHead.from_torch(torch.nn.MultiheadAttention(6, 3, dropout=0.25)).dropout == 0.25


def test_a_score_of_ones_own_may_prepare_keys_per_query() -> None:
    """The keys it prepared then have an axis more than the queries, as RETAIN's have."""

    class PerQuery:
        def prepare(self, key):
            return Prepared(key)

        def __call__(self, query, key):
            return (key.key @ query.unsqueeze(-1)).squeeze(-1)

        def choice(self, query, key):
            return Choice("own", self, ())

    keys = torch.randn(2, 3, 7, 5)
    weights = weigh(QUERY, Prepared(keys), score=PerQuery(), window=padding([7, 4]))
    torch.testing.assert_close(weights[1, 2, :4], (keys[1, 2, :4] @ QUERY[1, 2]).softmax(0))

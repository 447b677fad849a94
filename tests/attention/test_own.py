"""A user's score, normaliser and window in the layers and networks that take them."""

from __future__ import annotations

import pytest
import torch

import saccade
from saccade.attention.layers import Attention
from saccade.attention.own import OwnNormaliser, OwnScore, OwnWindow, normaliser
from saccade.attention.windows import band
from saccade.errors import SaccadeError
from saccade.models import luong, rnnsearch
from saccade.plugins import PartError
from saccade.testing import check_model, check_normaliser, check_score, check_window
from tests import own

OWN = {"score": "tests.own:Score", "window": "tests.own:Centred", "normalise": "tests.own:Normaliser"}
NETWORKS = {
    "rnnsearch": lambda **own: rnnsearch.Config(6, 4, 3, **{"init": "torch", **own}),
    "luong": lambda **own: luong.Config(6, 4, **{"init": "torch", **own}),
    "luong, not fed": lambda **own: luong.Config(6, 4, input_feeding=False, **{"init": "torch", **own}),
}
every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)


def test_the_parts_of_this_test_keep_their_promises():
    check_score(own.Score)
    check_normaliser(own.Normaliser)
    check_normaliser("tests.own:even")
    check_window(own.Centred)
    check_window("tests.own:narrow")


@pytest.mark.usefixtures("shapes_unchecked")
@every_network
@pytest.mark.parametrize(
    "parts",
    [OWN, *({field: name} for field, name in OWN.items()), {"normalise": "tests.own:even", "window": "tests.own:narrow"}],
    ids=["all", "score", "window", "normalise", "function and value"],
)  # fmt: skip
def test_a_network_with_own_parts_keeps_the_promises_of_networks(make, parts):
    config = make(**parts)
    check_model("rnnsearch" if isinstance(config, rnnsearch.Config) else "luong", config)


@pytest.mark.parametrize(("name", "init"), [("rnnsearch", "uniform"), ("rnnsearch", "paper"), ("luong", "uniform")])
def test_an_initialisation_leaves_own_parts_as_they_made_themselves(name, init):
    config = NETWORKS[name](init=init, **OWN)
    network = (rnnsearch.RNNSearch if isinstance(config, rnnsearch.Config) else luong.Luong)(config, 20, 13)
    own = {name: parameter for name, parameter in network.named_parameters() if ".part." in name}
    assert len(own) == 3
    for name, parameter in own.items():
        assert bool((parameter == 3).all()), name


@every_network
def test_a_network_looks_by_its_own_parts(make):
    """Each part alone changes what a network says; shipped names mean what they did."""
    torch.manual_seed(1)
    source, lengths, target = torch.randint(3, 20, (2, 5)), torch.tensor([5, 3]), torch.randint(3, 13, (2, 4))

    def says(**parts: str) -> torch.Tensor:
        torch.manual_seed(1)
        config = make(**parts)
        return (rnnsearch.RNNSearch if isinstance(config, rnnsearch.Config) else luong.Luong)(config, 20, 13)(
            source, lengths, target
        )

    plain = says()
    torch.testing.assert_close(says(normalise="softmax", window="global"), plain, rtol=0, atol=0)
    for parts in ({"normalise": "sparsemax"}, {"normalise": "tests.own:even"}, {"window": "tests.own:narrow"}):
        assert not torch.allclose(says(**parts), plain, atol=1e-6), parts


def test_a_layer_takes_an_own_score_by_name_and_as_a_module():
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 4)
    expected = Attention(5, 4, score=own.Score(5, 4))(query, key)
    named = Attention(5, 4, score="tests.own:Score")
    torch.testing.assert_close(named(query, key), expected)
    torch.testing.assert_close(named(query, named.prepare(key), key), expected)
    assert [name for name, _ in named.named_parameters()] == ["own.part.weight"]
    assert "computes its scores itself" in saccade.explain_choice(query, key, score=named.score)


def test_a_layer_does_not_initialise_what_is_not_its_own():
    assert bool((Attention(5, 4, score="tests.own:Score").own.part.weight == 3).all())


def test_shipped_names_are_the_shipped_values():
    assert normaliser("sparsemax") is saccade.attention.normalise.sparsemax
    with pytest.raises(SaccadeError, match="unknown score 'gernal': expected one of dot"):
        Attention(5, 5, score="gernal")


class Layer(torch.nn.Module):
    """A score whose ``forward`` is given."""

    def __init__(self, forward) -> None:
        super().__init__()
        self.wrong = forward

    def forward(self, query, key):
        return self.wrong(query, key)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda q, k: Attention(5, 5, score=Layer(lambda q, k: q.mT))(q, k), r"scores \[2, 3, 7\], found \[2, 5, 3\]"),
        (lambda q, k: Attention(5, 5, score=Layer(lambda q, k: 3))(q, k), r"Layer: expected scores \[2, 3, 7\], found an int"),
        (lambda q, k: Attention(5, 5, score=Layer(lambda q, k: q @ k))(q, k),
         r"Layer: expected forward\(query, key\) to work, found RuntimeError: .*test_own\.py, line \d+\)"),
        (lambda q, k: OwnScore("tests.own:Raising", 5, 5), r"a class made by \(query_width=5, key_width=5\), found OSError"),
        (lambda q, k: OwnNormaliser(lambda z: z.sum(-1))(q), r"expected weights \[2, 3, 5\], as the scores, found \[2, 3\]"),
        (lambda q, k: OwnNormaliser(lambda z: None)(q), r"found a NoneType"),
        (lambda q, k: OwnWindow("tests.own:Nowhere", 5)(q, torch.tensor([3, 2])), r"to return a Window, found a Tensor"),
        (lambda q, k: OwnWindow("tests.own:even", 5), r"expected a Window, or a class .* found a function"),
        (lambda q, k: OwnNormaliser("tests.own:torch"), r"expected a function of scores, or a class .* found a module"),
    ],
)  # fmt: skip
def test_an_error_in_an_own_part_is_one_line_that_names_it(use, message):
    with pytest.raises(PartError, match=message) as raised:
        use(torch.randn(2, 3, 5), torch.randn(2, 7, 5))
    assert "\n" not in str(raised.value)


def test_a_window_is_taken_as_it_is():
    window = band(2)
    assert OwnWindow(window, 5)(torch.randn(2, 3, 5), torch.tensor([3, 2])) is window

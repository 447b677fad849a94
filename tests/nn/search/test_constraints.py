"""Prefixes, required and forbidden phrases, n-gram blocking: against looking at every output there is."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.nn.search.beam_search import Diverse, Sampling, Search
from saccade.nn.search.constraints import Barred, Constraints, Lattice, NoRepeats, Phrase, holds
from tests.known import EOS, Looking

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
A, B, C = 2, 3, 4  # letters of a vocabulary of five
WIDE = Search(beam=125, n_best=3)


def occurs(phrase: tuple[int, ...], tokens: tuple[int, ...]) -> bool:
    return any(tokens[at : at + len(phrase)] == phrase for at in range(len(tokens) - len(phrase) + 1))


def spelt(*tokens: int) -> Lattice:
    """A phrase that can be cut in one way alone."""
    return Lattice(tuple({token: at + 1} for at, token in enumerate(tokens)))


# Prefix -----------------------------------------------------------------------------------------------------------------


def test_the_best_output_with_a_prefix_is_the_best_of_those_that_begin_so() -> None:
    network, prefix = Looking(1, size=5), (C, A)
    for item, found in enumerate(network.run(WIDE, [5] * 3, constraints=[Constraints(prefix=prefix)] * 3)):
        best = network.best(item, WIDE, 5, allowed=lambda tokens: tokens[:2] == prefix)
        assert [each.tokens for each in found] == best[:3]
        for each in found:
            assert each.log_prob == pytest.approx(network.log_prob(item, (*each.tokens, EOS)), abs=1e-4)


@pytest.mark.parametrize("how", [Search(), Search(beam=3, n_best=3), Search(sample=Sampling(), n_best=4)])
def test_every_output_begins_with_its_own_prefix_and_the_others_are_as_without(how: Search) -> None:
    network, prefixes = Looking(2, size=5), [(C, C, C), (), (B,)]
    found = network.run(how, [7] * 3, constraints=[Constraints(prefix=prefix) for prefix in prefixes])
    for prefix, many in zip(prefixes, found, strict=True):
        assert all(each.tokens[: len(prefix)] == prefix for each in many)
    assert found[1] == network.run(how, [7] * 3)[1]


def test_a_prefix_may_repeat_what_is_blocked_further_on() -> None:
    how = Search(beam=3, n_best=3, block_ngrams=1)
    [found] = Looking(3, size=5).run(how, [8], constraints=[Constraints(prefix=(A, A))])
    for each in found:
        assert each.tokens[:2] == (A, A)
        assert len(set(each.tokens[1:])) == len(each.tokens[1:])


def test_after_a_closed_prefix_a_word_begins_or_the_output_ends() -> None:
    begins = torch.tensor([False, False, False, True, False])
    first = set()
    for seed in range(12):
        wish = Constraints(prefix=(A,), closed=True)
        for found in Looking(seed, size=5).run(
            Search(beam=2, n_best=2), [6] * 3, constraints=[wish] * 3, begins=begins
        ):
            first |= {each.tokens[1:2] for each in found}
    assert first == {(), (B,)}


# N-gram blocking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_n_gram_is_written_twice_and_the_best_of_the_rest_is_found(size: int) -> None:
    network, how = Looking(4, size=5, ends=-1.0), Search(beam=150, n_best=3, block_ngrams=size)

    def once(tokens: tuple[int, ...]) -> bool:
        grams = [tokens[at : at + size] for at in range(len(tokens) - size + 1)]
        return len(set(grams)) == len(grams)

    for item, found in enumerate(network.run(how, [5] * 3)):
        assert [each.tokens for each in found] == network.best(item, how, 5, allowed=once)[:3]


def test_blocking_follows_each_hypothesis_through_the_beam() -> None:
    for size in (1, 2):
        for many in Looking(5, size=6, ends=-2.0).run(Search(beam=4, n_best=4, block_ngrams=size), [9] * 3):
            for each in many:
                grams = [each.tokens[at : at + size] for at in range(len(each.tokens) - size + 1)]
                assert len(set(grams)) == len(grams)


def test_what_is_blocked_by_hand() -> None:
    rule = NoRepeats(3)
    rule.written = torch.tensor([[2, 3, 4, 2, 3], [2, 3, 4, 3, 2]])
    log_probs = torch.zeros(2, 6)
    rule.narrow(log_probs, log_probs, 5)
    assert log_probs.isinf().nonzero().tolist() == [[0, 4]]


# Forbidden phrases ------------------------------------------------------------------------------------------------------


def test_the_best_output_without_a_phrase_is_found_and_the_others_are_as_before() -> None:
    network = Looking(6, size=5)
    phrases = [(B, A), (C, C), (A, B, C)]
    wishes = [Constraints(forbid=tuple(spelt(*phrase) for phrase in phrases)), Constraints(), Constraints()]
    found = network.run(WIDE, [5] * 3, constraints=wishes)
    best = network.best(0, WIDE, 5, allowed=lambda tokens: not any(occurs(phrase, tokens) for phrase in phrases))
    assert [each.tokens for each in found[0]] == best[:3]
    assert found[1:] == network.run(WIDE, [5] * 3)[1:]


def test_barring_follows_each_hypothesis_through_the_beam() -> None:
    phrases = [(A, B, A), (B, B, B), (C, A, C)]
    wish = Constraints(forbid=tuple(spelt(*phrase) for phrase in phrases))
    held = {"plain": 0, "barred": 0}
    for seed in range(6):
        network = Looking(seed, size=5, ends=-2.0)
        for name, wishes in (("plain", None), ("barred", [wish] * 3)):
            for many in network.run(Search(beam=4, n_best=4), [10] * 3, constraints=wishes):
                held[name] += sum(occurs(phrase, each.tokens) for phrase in phrases for each in many)
    assert held["plain"] > 0
    assert held["barred"] == 0


def test_every_way_of_cutting_a_phrase_is_barred() -> None:
    """The text "abc" with tokens a = 2, b = 3, c = 4, ab = 5, bc = 6."""
    text = Lattice(({2: 1, 5: 2}, {3: 2, 6: 3}, {4: 3}))
    for tokens in ((2, 3, 4), (5, 4), (2, 6), (4, 2, 2, 6)):
        assert holds(tokens, [text])
    for tokens in ((2, 3), (2, 2), (6, 4), (5, 2, 4)):
        assert not holds(tokens, [text])
    rule = Barred([[text]])
    for tokens, barred in (((), set()), ((2,), {6}), ((2, 3), {4}), ((5,), {4}), ((5, 5), {4}), ((5, 4), set())):
        rule.spelt = Barred([[text]]).spelt
        for token in tokens:
            rule.follow(torch.tensor([0]), torch.tensor([token]))
        log_probs = torch.zeros(1, 7)
        rule.narrow(log_probs, log_probs, len(tokens))
        assert set(log_probs[0].isinf().nonzero().flatten().tolist()) == barred, tokens


def test_a_phrase_that_begins_after_certain_tokens_only_is_free_elsewhere() -> None:
    after = Lattice(({2: 1},), after=frozenset([3]))
    assert holds((3, 2), [after])
    assert holds((2,), [after])  # where a text begins, a word does
    assert not holds((4, 2), [after])


# Required phrases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phrases", [((C,),), ((B, A),), ((A, B), (B, C)), ((A, B), (A, C)), ((A, A),), ((C,), (B, C))])
def test_the_best_output_that_holds_all_phrases_is_found(phrases: tuple[tuple[int, ...], ...]) -> None:
    network = Looking(7, size=5)
    wishes = [Constraints(require=phrases)] * 3
    for item, found in enumerate(network.run(Search(beam=400, n_best=3), [5] * 3, constraints=wishes)):
        best = network.best(item, WIDE, 5, allowed=lambda tokens: all(occurs(phrase, tokens) for phrase in phrases))
        assert [each.tokens for each in found] == best[:3]
        assert all(each.unmet == () and each.stopped == "eos" for each in found)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("stop", ["exact", "beam"])
def test_phrases_are_held_however_unlikely_they_are_and_narrow_the_beam(beam: int, stop: str) -> None:
    class Shy(Looking):
        def logits(self, item: int, prefix: tuple[int, ...]) -> torch.Tensor:
            logits = super().logits(item, prefix)
            logits[5:] -= 20.0
            return logits

    phrases = ((5, A, 6), (6,), (7, 7))
    for seed in range(4):
        network = Shy(seed, size=8, ends=1.0)
        for item, found in enumerate(
            network.run(Search(beam=beam, stop=stop), [12] * 3, constraints=[Constraints(require=phrases)] * 3)
        ):
            [best] = found
            assert best.stopped == "eos"
            assert all(occurs(phrase, best.tokens) for phrase in phrases)
            assert best.log_prob == pytest.approx(network.log_prob(item, (*best.tokens, EOS)), rel=1e-4)


def test_items_without_wishes_are_searched_as_if_alone() -> None:
    how, network = Search(beam=4, n_best=3), Looking(8, size=6)
    wishes = [Constraints(), Constraints(require=((5,), (C, B))), Constraints()]
    together = network.run(how, [7, 9, 6], constraints=wishes)
    plain = network.run(how, [7, 9, 6])
    assert (together[0], together[2]) == (plain[0], plain[2])
    assert network.run(how, [9], items=[1], constraints=wishes[1:2]) == [together[1]]


def test_a_prefix_counts_towards_what_is_required() -> None:
    wish = Constraints(prefix=(C, B), require=((B, A), (C,)))
    [found] = Looking(9, size=5).run(Search(beam=200), [5], constraints=[wish])
    allowed = Looking(9, size=5).best(0, WIDE, 5, allowed=lambda t: t[:2] == (C, B) and occurs((B, A), t))
    assert found[0].tokens == allowed[0]


def test_whole_words_end_where_a_word_begins() -> None:
    begins = torch.tensor([False, False, True, True, False, False])  # A and B begin words, C and 5 go on
    for seed in range(3):
        network = Looking(seed, size=6)
        wishes = [Constraints(require=((A, C),))] * 3
        for item, found in enumerate(network.run(Search(beam=300), [5] * 3, constraints=wishes, begins=begins)):

            def whole(tokens: tuple[int, ...]) -> bool:
                closed = (*tokens, A)
                return any(closed[at : at + 2] == (A, C) and closed[at + 2] in (A, B) for at in range(len(tokens) - 1))

            assert found[0].tokens == network.best(item, WIDE, 5, allowed=whole)[0]


def test_what_cannot_be_held_is_reported() -> None:
    """n-gram blocking forbids what is required."""
    wish = Constraints(require=((A, A), (C,)))
    network = Looking(1, size=5)
    [found] = network.run(Search(beam=3, block_ngrams=1), [6], constraints=[wish])
    assert found[0].unmet == (0,)
    assert C in found[0].tokens
    assert found[0].log_prob == pytest.approx(network.log_prob(0, (*found[0].tokens, EOS)), abs=1e-4)
    [found] = network.run(Search(beam=3, block_ngrams=1), [2], constraints=[wish])
    assert found[0].stopped == "length"
    assert found[0].unmet == (0,)
    [found] = network.run(Search(beam=3), [2], constraints=[Constraints(require=((A, B, C),))])
    assert (found[0].stopped, found[0].unmet) == ("length", (0,))


@pytest.mark.parametrize(
    ("how", "found"), [(Search(sample=Sampling()), "sampling"), (Search(beam=4, diverse=Diverse()), "diverse groups")]
)
def test_required_words_need_a_plain_beam(how: Search, found: str) -> None:
    with pytest.raises(SaccadeError, match=f"required words must be searched for with a plain beam: got {found}"):
        Looking(1).run(how, [5], constraints=[Constraints(require=((A,),))])


def test_progress_falls_back_to_the_longest_beginning() -> None:
    phrase = Phrase((2, 2, 3), whole=False)
    reached, path = 0, []
    for token in (2, 2, 2, 3):
        reached = phrase.after(reached, token, closes=False)
        path.append(reached)
    assert path == [1, 2, 2, 4]  # 4: all three, for good
    assert phrase.after(4, 9, closes=False) == 4
    whole, reached, path = Phrase((2, 2), whole=True), 0, []
    for token, closes in ((2, False), (2, False), (2, False), (3, True), (5, False)):
        reached = whole.after(reached, token, closes)
        path.append(reached)
    assert path == [1, 2, 2, 3, 3]  # a third 2 leaves two of them; a word that begins closes the phrase for good


def test_wishes_that_leave_nothing_to_write_are_an_error() -> None:
    class Mute(Looking):
        def logits(self, item: int, prefix: tuple[int, ...]) -> torch.Tensor:
            return torch.tensor([0.0, -math.inf, 0.0, -math.inf])

    with pytest.raises(SaccadeError, match="no token can be written"):
        Mute().run(Search(), [4], constraints=[Constraints(forbid=(spelt(A),))])

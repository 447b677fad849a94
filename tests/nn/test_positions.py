"""Where a token stands: sinusoids as printed, learned places, rotated queries and keys."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.nn.positions import Learned, Rotary, Sinusoidal, positions_of, sinusoids


def test_sinusoids_are_the_formula_sines_and_cosines_in_turn() -> None:
    found = sinusoids(torch.arange(7), 6, torch.float64)
    for place, i in ((0, 0), (3, 1), (6, 2)):
        angle = place / 10_000 ** (2 * i / 6)
        assert found[place, 2 * i] == pytest.approx(math.sin(angle), abs=1e-12)
        assert found[place, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-12)


def test_an_odd_width_ends_with_a_sine() -> None:
    torch.testing.assert_close(sinusoids(torch.arange(5), 7)[:, 6], torch.sin(torch.arange(5) / 10_000 ** (6 / 7)))


def test_places_far_out_stay_apart_in_half_precision() -> None:
    whole = sinusoids(torch.tensor([4000, 4001]), 8)
    torch.testing.assert_close(sinusoids(torch.tensor([4000, 4001]), 8, torch.bfloat16), whole.bfloat16())
    assert not torch.equal(whole[0], whole[1])


def test_each_row_stands_at_its_own_places() -> None:
    places = torch.tensor([[0, 1, 2], [5, 6, 7]])
    embedded = torch.randn(2, 3, 6)
    for positions in (Sinusoidal(), Learned(9, 6)):
        together = positions.add(embedded, places)
        for row in range(2):
            torch.testing.assert_close(together[row], positions.add(embedded[row : row + 1], places[row : row + 1])[0])
        assert not torch.allclose(together[0] - embedded[0], together[1] - embedded[1])


def test_rotated_queries_and_keys_know_their_distance_alone() -> None:
    """⟨R(p) q, R(s) k⟩ depends on p − s, and at distance 0 it is ⟨q, k⟩."""
    rotary, query, key = Rotary(6), torch.randn(1, 2, 1, 6).double(), torch.randn(1, 2, 1, 6).double()

    def score(p: int, s: int) -> torch.Tensor:
        turned = [rotary.rotation(torch.tensor([[place]]), torch.float64) for place in (p, s)]
        return (turned[0].turn(query) * turned[1].turn(key)).sum(-1)

    torch.testing.assert_close(score(9, 4), score(105, 100))
    torch.testing.assert_close(score(7, 7), (query * key).sum(-1))
    assert not torch.allclose(score(9, 4), score(4, 9))


def test_a_rotation_turns_neighbouring_numbers_by_their_angle() -> None:
    turned = (
        Rotary(4).rotation(torch.tensor([[1]]), torch.float64).turn(torch.tensor([[[[1.0, 0.0, 0.0, 1.0]]]]).double())
    )
    expected = [math.cos(1), math.sin(1), -math.sin(0.01), math.cos(0.01)]
    torch.testing.assert_close(turned.flatten(), torch.tensor(expected, dtype=torch.float64))


def test_rotary_positions_add_nothing() -> None:
    embedded = torch.randn(2, 3, 6)
    assert Rotary(6).add(embedded, torch.arange(3).unsqueeze(0)) is embedded


def test_a_text_longer_than_what_was_learned_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(SaccadeError, match=r"model.places: expected at most 5 tokens .*found 7: raise model.places"):
        Learned(5, 4).add(torch.zeros(1, 7, 4), torch.arange(7).unsqueeze(0))
    with pytest.raises(SaccadeError, match="must be even: got 3"):
        Rotary(3)


def test_a_name_gives_its_positions() -> None:
    kinds = [type(positions_of(name, width=8, heads=2, places=5)) for name in ("sinusoidal", "learned", "rotary")]
    assert kinds == [Sinusoidal, Learned, Rotary]
    assert positions_of("learned", width=8, heads=2, places=5).longest == 5
    assert positions_of("rotary", width=8, heads=2, places=5).longest is None


def test_a_row_beyond_what_was_learned_stays_at_the_last_place() -> None:
    """A search takes rows that are done along with those that are not."""
    learned, embedded = Learned(5, 4), torch.zeros(2, 1, 4)
    found = learned.add(embedded, torch.tensor([[2], [9]]))
    torch.testing.assert_close(found[:, 0], learned.table.weight[[2, 4]])

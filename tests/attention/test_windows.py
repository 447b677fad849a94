"""What each window shows, drawn out; every combination is in tests/contracts/test_attention.py."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.attention.core import weigh
from saccade.attention.scores import dot
from saccade.attention.windows import Extent, Window, band, causal, everywhere, gaussian, mask, padding
from saccade.errors import SaccadeError


def extent(queries: int, keys: int, offset: int | None = None) -> Extent:
    return Extent(queries, keys, offset, torch.device("cpu"), torch.float32)


def drawn(window: Window, queries: int, keys: int, offset: int | None = None) -> list[str]:
    seen = window.visible(extent(queries, keys, offset))
    assert seen is not None
    rows = seen.reshape(-1, keys).expand(queries, keys).tolist()
    return ["".join("x" if cell else "." for cell in row) for row in rows]


def test_everywhere_hides_nothing() -> None:
    assert everywhere.visible(extent(3, 5)) is None
    assert everywhere.gain(extent(3, 5)) is None


def test_causal_shows_the_past_and_the_present() -> None:
    assert drawn(causal, 3, 3) == ["x..", "xx.", "xxx"]


def test_causal_with_unequal_counts_must_say_how_it_is_meant() -> None:
    with pytest.raises(SaccadeError, match="causal with 2 queries and 4 keys has two meanings"):
        causal.visible(extent(2, 4))
    assert drawn(causal("top-left"), 2, 4) == ["x...", "xx.."]
    assert drawn(causal("bottom-right"), 2, 4) == ["xxx.", "xxxx"]
    assert drawn(causal("bottom-right"), 4, 2) == ["..", "..", "x.", "xx"]


def test_an_offset_says_where_the_first_query_stands() -> None:
    assert drawn(causal, 1, 4, offset=2) == ["xxx."]
    assert drawn(causal("bottom-right"), 1, 4, offset=1) == ["xx.."]
    assert drawn(band(1), 2, 5, offset=2) == [".xxx.", "..xxx"]


@pytest.mark.usefixtures("shapes_unchecked")
def test_an_unknown_alignment_is_refused() -> None:
    with pytest.raises(SaccadeError, match="top-left"):
        causal("diagonal")  # type: ignore[arg-type]


def test_a_band_shows_its_radius_on_both_sides() -> None:
    assert drawn(band(1), 4, 4) == ["xx..", "xxx.", ".xxx", "..xx"]
    assert drawn(band(0), 3, 3) == ["x..", ".x.", "..x"]


def test_a_band_past_the_last_key_shows_nothing() -> None:
    assert drawn(band(1), 6, 3) == ["xx.", "xxx", ".xx", "..x", "...", "..."]


def test_a_band_around_a_real_centre_goes_by_its_floor() -> None:
    assert drawn(band(1, torch.tensor([[0.9, 2.0, -0.5]])), 3, 5) == ["xx...", ".xxx.", "x...."]
    assert drawn(band(1, torch.tensor([[3]])), 1, 5) == ["..xxx"]


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(SaccadeError, match="radius must not be negative: got -1"):
        band(-1)
    with pytest.raises(SaccadeError, match="radius must be at least 1: got 0"):
        gaussian(torch.zeros(1, 3), 0)


def test_the_gaussian_gain_is_one_at_its_centre_and_has_half_the_radius_as_sigma() -> None:
    gain = gaussian(torch.tensor([[3.0]]), 4).gain(extent(1, 7))
    assert gain is not None
    assert gain[0, 0, 3] == 1
    torch.testing.assert_close(gain[0, 0, [1, 5]], torch.full((2,), math.exp(-0.5)))  # 2 away: one σ


def test_the_gaussian_keeps_the_real_centre_and_rounds_only_its_window() -> None:
    window = gaussian(torch.tensor([[2.75]]), 2)
    assert drawn(window, 1, 7) == ["xxxxx.."]  # ⌊2.75⌋ ± 2
    gain = window.gain(extent(1, 7))
    assert gain is not None
    torch.testing.assert_close(gain[0, 0, 3], torch.tensor(math.exp(-(0.25**2) / 2)))


def test_gradients_reach_the_centre_of_a_gaussian() -> None:
    centre = torch.tensor([[1.3, 2.6]], requires_grad=True)
    weigh(torch.randn(1, 2, 3), torch.randn(1, 5, 3), score=dot, window=gaussian(centre, 2)).sum().backward()
    assert bool((centre.grad != 0).all())


def test_padding_takes_lengths_or_a_mask() -> None:
    lengths = padding(torch.tensor([2, 0, 3])).visible(extent(1, 3))
    mask = padding(torch.tensor([[True, True, False], [False] * 3, [True] * 3])).visible(extent(1, 3))
    assert lengths.shape == (3, 1, 3)
    assert torch.equal(lengths, mask)


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(SaccadeError, match="covers 4 keys, but there are 5"):
        padding(torch.ones(2, 4, dtype=torch.bool)).visible(extent(3, 5))


def test_composed_windows_show_what_all_of_them_show() -> None:
    window = causal & band(1) & padding(torch.tensor([3]))
    assert drawn(window, 4, 4) == ["x...", "xx..", ".xx.", "..x."]


def test_gains_of_composed_windows_multiply() -> None:
    one, other = gaussian(torch.tensor([[1.0]]), 2), gaussian(torch.tensor([[2.0]]), 4)
    both = (one & causal & other).gain(extent(1, 5))
    torch.testing.assert_close(both, one.gain(extent(1, 5)) * other.gain(extent(1, 5)))


def test_everywhere_adds_nothing_to_a_composition() -> None:
    assert (everywhere & causal) is causal
    assert (causal & everywhere) is causal
    assert (everywhere & everywhere) is everywhere


def test_windows_are_values_that_print_and_compare() -> None:
    assert repr(everywhere) == "everywhere"
    assert repr(causal & band(3) & padding(torch.tensor([1, 2]))) == "causal & band(3) & padding([2])"
    assert repr(causal("top-left")) == "causal('top-left')"
    assert repr(gaussian(torch.zeros(2, 5), 3)) == "gaussian(centre=[2, 5], radius=3)"
    assert causal == type(causal)()
    assert causal != causal("top-left")
    hash(causal & band(3))


def test_a_mask_shows_what_is_true_and_narrows_other_windows():
    seen = torch.tensor([[True, False, True, True, False], [False, True, True, False, True], [True] * 5])
    assert drawn(mask(seen), 3, 5) == ["x.xx.", ".xx.x", "xxxxx"]
    assert drawn(mask(seen) & band(1), 3, 5) == ["x....", ".xx..", ".xxx."]
    assert repr(mask(seen)) == "mask([3, 5])"


def test_a_mask_of_another_size_is_refused_and_one_row_serves_all_queries():
    with pytest.raises(SaccadeError, match=r"the mask is \[3, 4\], but there are 3 queries and 5 keys"):
        mask(torch.ones(3, 4, dtype=torch.bool)).visible(extent(3, 5))
    assert drawn(mask(torch.tensor([[True, False, True]])), 2, 3) == ["x.x", "x.x"]


def test_a_mask_of_numbers_is_refused(shapes_unchecked: None) -> None:
    """Kernels would add it to the scores."""
    with pytest.raises(SaccadeError, match=r"mask: expected booleans.*found torch.int64: pass mask != 0"):
        mask(torch.ones(3, 5, dtype=torch.int64))

"""What kernels are told of windows is what windows show."""

from __future__ import annotations

import itertools

import pytest
import torch

from saccade.attention.windows import Extent, Window, band, causal, everywhere, mask, padding
from saccade.kernels.visibility import Visibility

LENGTHS = torch.tensor([7, 3])
HEADS = torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.6
WINDOWS: dict[str, Window] = {
    "everywhere": everywhere,
    "causal": causal,
    "bottom-right": causal("bottom-right"),
    "band": band(2),
    "wide band": band(4),
    "around": band(1, torch.tensor([[0.5, 1.0, 2.0, 6.0, 3.0], [0.0, 1.0, 2.0, 3.0, 4.0]])),
    "lengths": padding(LENGTHS),
    "shorter": padding(torch.tensor([2, 5])),
    "padding mask": padding(torch.arange(7) < LENGTHS.unsqueeze(-1)),
    "heads": mask(HEADS),
}


def dense(seen: Visibility, T: int, S: int) -> torch.Tensor:
    found = seen.dense(T, S, torch.device("cpu"))
    whole = torch.ones(T, S, dtype=torch.bool, device="cpu") if found is None else found
    if whole.dim() == 3:
        whole = whole.unsqueeze(1)
    return whole.expand(2, 3, T, S)


def shown(window: Window, extent: Extent) -> torch.Tensor:
    visible = window.visible(extent)
    return dense(Visibility(mask=visible), extent.queries, extent.keys)


@pytest.mark.parametrize("offset", [None, 1])
@pytest.mark.parametrize("names", [*itertools.combinations_with_replacement(WINDOWS, 2)], ids=" & ".join)
def test_two_windows_together_show_kernels_what_they_show_in_full(names: tuple[str, str], offset: int | None) -> None:
    T, S = (5, 7)
    window = WINDOWS[names[0]] & WINDOWS[names[1]]
    extent = Extent(T, S, offset, torch.device("cpu"), torch.float32)
    if offset is None and "causal" in names:
        return  # T ≠ S: the window itself refuses
    assert torch.equal(dense(window.visibility(extent), T, S), shown(window, extent))


def test_rows_of_a_band_keep_their_diagonal_and_of_a_mask_their_place() -> None:
    seen = Visibility(LENGTHS, shift=1, before=2, after=1, mask=HEADS)
    whole = dense(seen, 5, 7)
    assert torch.equal(dense(seen.rows(2, 4), 2, 7), whole[..., 2:4, :])


def test_keys_of_a_band_keep_their_diagonal_of_a_mask_their_place_and_lengths_count_from_the_first() -> None:
    # On the CPU, as the other tensors of this page: the default device may be a GPU here.
    mask, lengths = torch.rand(2, 1, 5, 7, device="cpu") < 0.7, torch.tensor([6, 2], device="cpu")
    one = Visibility(mask=torch.rand(2, 1, 5, 1, device="cpu") < 0.7)  # for all keys
    near = Visibility(shift=1, before=2, after=1)
    for seen in (Visibility(mask=mask), Visibility(lengths=lengths), near, one, Visibility(lengths, 1, 2, 1, mask)):
        assert torch.equal(dense(seen.keys(3, 6), 5, 3), dense(seen, 5, 7)[..., 3:6])


def test_lengths_and_bands_reach_kernels_as_such() -> None:
    extent = Extent(5, 7, 1, torch.device("cpu"), torch.float32)
    seen = (causal & padding(LENGTHS) & band(3)).visibility(extent)
    assert (seen.shift, seen.before, seen.after, seen.mask) == (1, 3, 0, None)
    assert seen.lengths is LENGTHS


def test_what_speaks_of_another_batch_does_not_fit() -> None:
    assert Visibility(LENGTHS, mask=HEADS[:1]).fits((2, 3))
    assert Visibility(mask=HEADS[:, 0]).fits((2, 3))  # one for all heads
    assert not Visibility(LENGTHS[:1]).fits((2,))
    assert not Visibility(mask=HEADS).fits((2,))
    assert not Visibility(mask=HEADS).fits((1, 3))


def test_causal_is_the_diagonal_from_the_first_key_and_nothing_else() -> None:
    assert Visibility(after=0).causal
    assert not any(
        seen.causal
        for seen in (
            Visibility(),
            Visibility(shift=1, after=0),
            Visibility(before=2, after=0),
            Visibility(LENGTHS, after=0),
        )
    )

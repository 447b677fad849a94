"""The tape: places that are written one after the other and read again, with gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.models.lstmn import Tape

B, T, WIDTHS = 3, 5, (2, 4)


def run(entries: Tensor, *, stacked: bool, own_places: bool = False) -> Tensor:
    """A recurrence in which every entry is made of all that were written before it, by a tape or by stacks."""
    tape = Tape.empty(B, T, WIDTHS, entries)
    written: list[tuple[Tensor, Tensor]] = []
    total = entries.new_zeros(())
    for t in range(T):
        narrow, wide = entries[:, t, :2], entries[:, t]
        if t:
            if stacked:
                first, second = (torch.stack(parts, dim=1) for parts in zip(*written, strict=True))
            else:
                first, second = tape.read(t)
            weights = torch.softmax((first * narrow.unsqueeze(1)).sum(-1), dim=-1)  # [B, t]
            found = (weights.unsqueeze(-1) * second).sum(1)
            narrow, wide = narrow + found[:, :2].tanh(), wide * found.cos()
        written.append((narrow, wide))
        place = torch.full((B,), t) if own_places else t
        tape.write(narrow.unsqueeze(1), wide.unsqueeze(1), place=place)
        total = total + (wide**2).sum()
    return total


@pytest.mark.parametrize("own_places", [False, True])
def test_values_and_gradients_are_those_of_stacks(own_places: bool) -> None:
    entries = torch.randn(B, T, 4, dtype=torch.float64, requires_grad=True)
    expected = run(entries, stacked=True)
    found = run(entries, stacked=False, own_places=own_places)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    [theirs], [ours] = torch.autograd.grad(expected, [entries]), torch.autograd.grad(found, [entries])
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_second_pass_back_gives_the_same_gradients() -> None:
    entries = torch.randn(B, T, 4, dtype=torch.float64, requires_grad=True)
    total = run(entries, stacked=False)
    [first] = torch.autograd.grad(total, [entries], retain_graph=True)
    [second] = torch.autograd.grad(total, [entries])
    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_a_block_takes_the_gradients_of_all_its_places() -> None:
    block, late = torch.randn(B, 3, 4, requires_grad=True), torch.randn(B, 1, 4, requires_grad=True)
    tape = Tape.empty(B, T, (4,), block)
    tape.write(block, place=0)
    tape.write(late, place=3)
    [seen] = tape.read(4)
    torch.testing.assert_close(seen, torch.cat([block, late], dim=1))
    (seen[:, 1] * 2 + seen[:, 3] * 5).sum().backward()
    expected = torch.zeros(3)
    expected[1] = 2
    assert block.grad is not None and late.grad is not None
    torch.testing.assert_close(block.grad, expected[:, None].expand(B, 3, 4))
    assert (late.grad == 5).all()


def test_what_was_read_is_not_copied_and_keeps_no_graph_where_none_is_wanted() -> None:
    tape = Tape.empty(B, T, WIDTHS, torch.zeros(1))
    with torch.no_grad():
        tape.write(torch.ones(B, 1, 2, requires_grad=True), torch.ones(B, 1, 4), place=0)
        earlier, later = tape.read(1)[0], tape.read(3)[0]
    assert earlier.data_ptr() == later.data_ptr()
    assert not later.requires_grad
    tape.write(torch.ones(B, 1, 2), torch.ones(B, 1, 4), place=1)
    assert not tape.read(2)[0].requires_grad, "constants ask for no gradient"


def test_a_tape_and_its_graph_go_when_nobody_holds_them() -> None:
    import gc
    import weakref

    gc.disable()
    try:
        entries = torch.randn(B, T, 4, requires_grad=True)
        tape = Tape.empty(B, T, (4,), entries)
        tape.write(entries, place=0)
        [seen] = tape.read(T)
        ended = weakref.ref(seen.grad_fn)
        del tape, seen
        assert ended() is None
    finally:
        gc.enable()

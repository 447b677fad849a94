"""Edits change what they name and nothing else."""

import json
import math

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.edits import Boost, Edit, Even, Mask, Set, edit_from_json
from saccade.trace.lens import Lens, Site

CROSS = Site("cross", "target", "source")
B, H, T, S = 2, 3, 5, 7


def scores() -> Tensor:
    return torch.randn(B, H, T, S)


def changed(before: Tensor, after: Tensor) -> list[tuple[int, ...]]:
    return [tuple(place) for place in (before != after).nonzero().tolist()]


class TestMask:
    def test_a_masked_key_gets_no_weight_and_the_others_make_room(self) -> None:
        before = scores()
        after = Lens(edits=[Mask((2, 4))]).edit_scores(CROSS, before, 0).softmax(-1)
        assert torch.equal(after[..., [2, 4]], torch.zeros(B, H, T, 2))
        torch.testing.assert_close(after.sum(-1), torch.ones(B, H, T))
        rest = before[..., [0, 1, 3, 5, 6]].softmax(-1)
        torch.testing.assert_close(after[..., [0, 1, 3, 5, 6]], rest)

    def test_it_changes_one_head_at_one_step_of_every_row_of_the_batch(self) -> None:
        before = scores()
        after = Lens(edits=[Mask([4], head=1, step=12)]).edit_scores(CROSS, before, offset=10)
        assert changed(before, after) == [(0, 1, 2, 4), (1, 1, 2, 4)]
        assert after[0, 1, 2, 4] == -math.inf

    def test_the_scores_that_came_in_are_left_alone(self) -> None:
        before = scores()
        copy = before.clone()
        Lens(edits=[Mask([4]), Boost([1], 2.0)]).edit_scores(CROSS, before, 0)
        assert torch.equal(before, copy)

    def test_a_key_that_never_comes_is_an_error(self) -> None:
        lens = Lens(edits=[Mask([7])])
        before = scores()
        assert torch.equal(lens.edit_scores(CROSS, before, 0), before)
        with pytest.raises(SaccadeError, match=r"7 keys \(0 to 6\), found key 7"):
            lens.check()
        lens.observe(CROSS, before.softmax(-1))
        with pytest.raises(SaccadeError, match=r"7 keys \(0 to 6\), found key 7"):
            _ = lens.traces

    @pytest.mark.parametrize("edit", [Mask((1, 4)), Boost((1, 4), 3.0)])
    def test_a_key_that_is_not_there_yet_is_passed_over(self, edit: Mask | Boost) -> None:
        lens, before = Lens(edits=[edit]), scores()
        for size in (1, 3, 5):  # keys grow with what is written; a search looks through a fresh lens a step
            after = lens.fresh().edit_scores(CROSS, before[..., :size], size)
            assert {place[-1] for place in changed(before[..., :size], after)} == {key for key in (1, 4) if key < size}
        lens.check()

    @pytest.mark.parametrize("keys", [3, None, "3", (-1,), (0.5,)])
    def test_keys_are_positions_in_a_tuple(self, keys: object) -> None:
        with pytest.raises(SaccadeError, match="keys must be positions"):
            Mask(keys=keys)  # type: ignore[arg-type]


class TestBoost:
    def test_a_boosted_key_weighs_so_many_times_as_much_against_the_others(self) -> None:
        before = scores()
        after = Lens(edits=[Boost([3], 4.0)]).edit_scores(CROSS, before, 0).softmax(-1)
        plain = before.softmax(-1)
        torch.testing.assert_close(after[..., 3] / after[..., 0], 4 * plain[..., 3] / plain[..., 0])
        torch.testing.assert_close(after[..., 5] / after[..., 0], plain[..., 5] / plain[..., 0])

    @pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan, "2"])
    def test_a_factor_is_a_positive_number(self, factor: float) -> None:
        with pytest.raises(SaccadeError, match="factor must be"):
            Boost([3], factor)


class TestEven:
    def test_all_that_may_be_seen_weighs_the_same_however_far_the_scores_lie_apart(self) -> None:
        before = scores() * 1000  # a softmax of these is 0 nearly everywhere
        before[..., 2] = -math.inf
        lens = Lens(edits=[Even(), Mask((4,))])
        weights = lens.edit_scores(CROSS, before, 0).softmax(-1)
        weights = lens.edit_weights(CROSS, weights * torch.rand(S).add(0.1), 0)  # a gain between the two
        expected = torch.tensor([1.0, 1, 0, 1, 0, 1, 1]) / 5
        torch.testing.assert_close(weights, expected.expand(B, H, T, S))

    def test_a_row_that_sees_nothing_stays_empty(self) -> None:
        lens, nothing = Lens(edits=[Even()]), torch.full((1, 1, 3, 5), -math.inf)
        assert torch.equal(lens.edit_scores(CROSS, nothing, 0), nothing)
        assert not lens.edit_weights(CROSS, torch.zeros(1, 1, 3, 5), 0).any()

    def test_it_changes_one_head_at_one_step_and_keys_may_become_more(self) -> None:
        lens = Lens(edits=[Even(head=1, step=2)])
        for step in range(4):
            weights = torch.rand(1, H, 1, step + 3).softmax(-1)
            after = lens.edit_weights(CROSS, weights, offset=step)
            expected = weights.clone()
            if step == 2:
                expected[:, 1] = 1 / 5
            torch.testing.assert_close(after, expected)


class TestSet:
    def test_the_row_is_replaced_as_it_stands(self) -> None:
        before = scores().softmax(-1)
        row = (0.5, 0, 0, 0.1, 0, 0, 0)
        after = Lens(edits=[Set(row, head=0, step=3)]).edit_weights(CROSS, before, 0)
        assert torch.equal(after[:, 0, 3], torch.tensor([row, row]))
        assert {place[1:3] for place in changed(before, after)} == {(0, 3)}

    def test_it_needs_a_weight_for_each_key(self) -> None:
        with pytest.raises(SaccadeError, match=r"expected 7 weights, .*found 2"):
            Lens(edits=[Set((0.5, 0.5))]).edit_weights(CROSS, scores(), 0)

    @pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
    def test_weights_are_finite_and_not_negative(self, weight: float) -> None:
        with pytest.raises(SaccadeError, match="finite"):
            Set((weight,))

    def test_scores_are_no_place_for_it(self) -> None:
        before = scores()
        assert torch.equal(Lens(edits=[Set((0,) * S)]).edit_scores(CROSS, before, 0), before)
        assert torch.equal(Lens(edits=[Mask([0]), Boost([1], 2)]).edit_weights(CROSS, before, 0), before)


class TestWhere:
    def test_without_a_site_head_or_step_it_applies_everywhere(self) -> None:
        after = Lens(edits=[Mask([0])]).edit_scores(CROSS, scores(), 3)
        assert bool((after[..., 0] == -math.inf).all())

    def test_another_site_and_another_step_are_left_alone(self) -> None:
        before = scores()
        lens = Lens(edits=[Mask([0], site="self"), Mask([1], step=9), Mask([2], step=5)])
        assert torch.equal(lens.edit_scores(CROSS, before, offset=0), before)

    def test_step_by_step_is_the_same_as_all_at_once(self) -> None:
        before = scores()
        edits = [Mask([2], step=1), Boost([4], 3.0, head=2), Mask([0], step=4, head=0)]
        at_once = Lens(edits=edits).edit_scores(CROSS, before, 0)
        lens = Lens(edits=edits)
        steps = [lens.edit_scores(CROSS, before[:, :, step : step + 1], step) for step in range(T)]
        assert torch.equal(torch.cat(steps, dim=2), at_once)

    def test_a_head_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(SaccadeError, match=r"3 head\(s\), found head=3"):
            Lens(edits=[Mask([0], head=3)]).edit_scores(CROSS, scores(), 0)

    def test_edits_apply_in_their_order(self) -> None:
        before = scores().softmax(-1)
        first, second = (1.0, 0, 0, 0, 0, 0, 0), (0, 1.0, 0, 0, 0, 0, 0)
        after = Lens(edits=[Set(first), Set(second, head=1)]).edit_weights(CROSS, before, 0)
        assert torch.equal(after[0, :, 0].argmax(-1), torch.tensor([0, 1, 0]))

    def test_gradients_flow_through_an_edit(self) -> None:
        before = scores().requires_grad_()
        Lens(edits=[Boost([4], 3.0, step=2)]).edit_scores(CROSS, before, 0).sum().backward()
        assert before.grad is not None
        assert torch.equal(before.grad, torch.ones(B, H, T, S))


class TestCheck:
    def test_an_edit_that_never_applied_raises(self) -> None:
        lens = Lens(edits=[Mask([0], site="crosss")])
        lens.edit_scores(CROSS, scores(), 0)
        lens.observe(CROSS, scores().softmax(-1))
        with pytest.raises(SaccadeError, match=r"crosss.* never applied: the model has sites cross"):
            lens.check()

    def test_a_step_that_never_came_raises(self) -> None:
        lens = Lens(edits=[Mask([0], step=3), Mask([0], step=17)])
        lens.edit_scores(CROSS, scores(), 0)
        with pytest.raises(SaccadeError, match=r"step=17"):
            lens.check()

    def test_edits_that_applied_pass_also_through_a_fresh_lens(self) -> None:
        lens = Lens(edits=[Mask([0]), Set((0,) * S)])
        lens.fresh().edit_scores(CROSS, scores(), 0)
        lens.fresh().edit_weights(CROSS, scores(), 0)
        lens.check()


class TestJson:
    @pytest.mark.parametrize(
        "edit",
        [
            Mask((1, 4), site="decoder.0.cross", head=2, step=5),
            Boost([3], 2.5),
            Set([0.25, 0.75], step=0),
            Even(site="decoder.1.self", head=0),
            Mask(()),
        ],
    )
    def test_an_edit_comes_back_from_json(self, edit: Edit) -> None:
        assert edit_from_json(json.loads(json.dumps(edit.to_json()))) == edit

    @pytest.mark.parametrize(
        "document",
        [
            {},
            [],
            "mask",
            {"edit": "erase"},
            {"edit": ["mask"]},
            {"edit": "mask"},
            {"edit": "mask", "keys": 3},
            {"edit": "mask", "keys": "12"},
            {"edit": "mask", "keys": [1.5]},
            {"edit": "mask", "keys": [-1]},
            {"edit": "mask", "keys": [True]},
            {"edit": "mask", "keys": [1], "colour": "red"},
            {"edit": "mask", "keys": [1], "head": "0"},
            {"edit": "mask", "keys": [1], "step": -1},
            {"edit": "mask", "keys": [1], "site": 3},
            {"edit": "boost", "keys": [1], "factor": "2"},
            {"edit": "boost", "keys": [1]},
            {"edit": "set", "row": ["heavy"]},
            {"edit": "set", "row": None},
        ],
    )
    def test_what_is_no_edit_is_an_error_for_the_reader(self, document: dict[str, object]) -> None:
        with pytest.raises(SaccadeError):
            edit_from_json(document)

"""What a head makes a habit of, measured on maps whose habits are known."""

from __future__ import annotations

import torch
from torch import Tensor

from saccade.trace.axes import Positions, Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.html.payload import page_data
from saccade.views.html.weights import head_patterns, top

TEXT = Tokens(("[CLS]", "a", "b", "c", "[SEP]"), special=(0, 4))


def looking(weights: Tensor, query: str = "text", key: str = "text", step: int = 0) -> AttentionMap:
    return AttentionMap("self", query, key, "dense", {"weights": weights}, head=0, step=step, keys=weights.shape[1])


def test_the_share_on_the_token_before_is_the_mean_of_the_rows_that_have_one() -> None:
    weights = 0.9 * torch.eye(5).roll(-1, 1) + 0.02
    found = head_patterns(looking(weights), {"text": TEXT})
    # Row 0 has no token before it and must not lower the mean.
    assert (found["before"], found["itself"], found["after"]) == (0.92, 0.02, 0.02)


def test_the_ends_and_special_tokens_are_measured() -> None:
    weights = torch.tensor([0.5, 0.0, 0.1, 0.1, 0.3]).expand(5, 5)
    found = head_patterns(looking(weights), {"text": TEXT})
    assert (found["first"], found["last"], found["special"]) == (0.5, 0.3, 0.8)


def test_a_map_that_begins_later_counts_positions_from_there() -> None:
    weights = torch.eye(7)[3:6]
    assert head_patterns(looking(weights, step=3), {})["itself"] == 1.0
    assert head_patterns(looking(weights, step=2), {})["after"] == 1.0


def test_what_was_written_before_is_the_token_before() -> None:
    axes = {"target": Tokens(("x", "y", "z")), "prefix": Tokens(("<bos>", "x", "y"))}
    found = head_patterns(looking(torch.eye(3), "target", "prefix"), axes)
    assert found["before"] == 1.0
    assert "itself" not in found and "diagonal" not in found


def test_a_straight_alignment_lies_on_the_diagonal() -> None:
    axes = {"target": Positions.of(5), "source": Positions.of(9)}
    straight = torch.zeros(5, 9)
    straight[range(5), range(0, 9, 2)] = 1.0
    assert head_patterns(looking(straight, "target", "source"), axes)["diagonal"] == 1.0
    assert head_patterns(looking(straight.flip(1), "target", "source"), axes)["diagonal"] == 0.2


def test_kept_weights_count_and_the_rest_is_nothing() -> None:
    weights = torch.softmax(3 * torch.eye(7) + 2 * torch.eye(7).roll(-1, 1), -1)
    whole = head_patterns(looking(weights), {})
    kept = AttentionMap("self", "text", "text", "top", top(weights, 2), head=0, keys=7)
    found = head_patterns(kept, {})
    assert found["itself"] == whole["itself"]
    assert found["first"] < whole["first"]


def test_weights_that_are_no_numbers_have_no_habits() -> None:
    weights = torch.eye(3)
    weights[1, 1] = float("nan")
    assert head_patterns(looking(weights), {}) == {}
    assert head_patterns(looking(torch.zeros(0, 3)), {}) == {}


def test_a_page_says_the_habits_of_each_map() -> None:
    trace = Trace({"text": TEXT}, (looking(torch.eye(5)),))
    assert page_data(trace).header["traces"][0]["maps"][0]["habits"]["itself"] == 1.0

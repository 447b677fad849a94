"""The lens keeps what was asked for, and the steps of a decoder become one map."""

import math

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.axes import Positions
from saccade.trace.file import same
from saccade.trace.lens import Lens, Record, Site, assemble

CROSS = Site("cross", "target", "source")
SELF = Site("self", "target", "target")
N, H, T, S = 2, 3, 5, 7


def attention(N: int = N, H: int = H, T: int = T, S: int = S) -> Tensor:
    return torch.randn(N, H, T, S).softmax(-1)


class TestKeep:
    def test_all_keeps_every_weight_of_every_row_and_head(self) -> None:
        lens, weights = Lens(), attention()
        lens.observe(CROSS, weights)
        for item, trace in enumerate(lens.traces):
            assert [map.head for map in trace.maps] == [0, 1, 2]
            assert all(torch.equal(map.weights, weights[item, map.head]) for map in trace.maps)
            assert {name: len(axis) for name, axis in trace.axes.items()} == {"target": T, "source": S}

    @pytest.mark.parametrize("keep", ["all", "top", "statistics"])
    def test_what_happens_to_weights_later_does_not_reach_the_trace(self, keep: str) -> None:
        lens, weights = Lens(keep, k=3), attention()
        lens.observe(CROSS, weights)
        before, again = lens.traces, lens.traces
        for tensor in (weights, *(each for record in lens.records for each in record.tensors.values())):
            tensor.fill_(0)
        assert all(same(one, other) for one, other in zip(before, again, strict=True))
        assert all(bool(tensor.any()) for map in before[0].maps for tensor in map.tensors.values())

    def test_top_keeps_the_greatest_and_the_mass_of_the_rest(self) -> None:
        lens, weights = Lens("top", k=3), attention(1)
        lens.observe(CROSS, weights)
        for map in lens.trace.maps:
            row = weights[0, map.head]
            kept, index = row.topk(3)
            assert torch.equal(map.tensors["weights"], kept)
            assert torch.equal(map.tensors["index"], index)
            torch.testing.assert_close(map.tensors["residual"], 1 - kept.sum(-1))
            assert torch.equal(map.weights, torch.zeros(T, S).scatter(1, index, kept))

    def test_top_with_room_for_all_leaves_nothing_over(self) -> None:
        lens, weights = Lens("top", k=16), attention(1)
        lens.observe(CROSS, weights)
        for map in lens.trace.maps:
            assert torch.equal(map.weights, weights[0, map.head])
            assert torch.equal(map.tensors["residual"], torch.zeros(T))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_the_residual_is_never_negative(self, dtype: torch.dtype) -> None:
        lens = Lens("top", k=2)
        lens.observe(CROSS, torch.randn(1, 3, 257, 31).mul(4).softmax(-1).to(dtype))
        assert all(bool((map.tensors["residual"] >= 0).all()) for map in lens.trace.maps)

    def test_statistics_are_those_of_the_rows(self) -> None:
        lens, weights = Lens("statistics"), attention(1)
        lens.observe(CROSS, weights)
        for map in lens.trace.maps:
            row = weights[0, map.head]
            torch.testing.assert_close(map.tensors["entropy"], torch.distributions.Categorical(row).entropy())
            torch.testing.assert_close(map.tensors["received"], row.sum(0))
            assert torch.equal(map.tensors["maximum"], row.max(-1).values)
            assert torch.equal(map.tensors["argmax"], row.argmax(-1))
            with pytest.raises(SaccadeError, match="statistics only"):
                map.weights

    def test_the_entropy_of_a_row_that_looks_at_one_key_is_zero(self) -> None:
        lens = Lens("statistics")
        lens.observe(CROSS, torch.eye(3).view(1, 1, 3, 3))
        entropy = lens.trace.maps[0].tensors["entropy"]
        assert torch.equal(entropy, torch.zeros(3))
        assert not bool(entropy.signbit().any())

    @pytest.mark.parametrize("keep", ["all", "top", "statistics"])
    @pytest.mark.parametrize(("queries", "keys"), [(0, 7), (5, 0), (0, 0)])
    def test_no_queries_and_no_keys_are_kept_as_such(self, keep: str, queries: int, keys: int) -> None:
        lens = Lens(keep)  # type: ignore[arg-type]
        lens.observe(CROSS, torch.zeros(1, 2, queries, keys))
        map = lens.trace.maps[0]
        assert (map.queries, map.keys) == (queries, keys)

    def test_scores_are_kept_when_asked_for(self) -> None:
        scores = torch.randn(1, H, T, S)
        plain, detailed = Lens(), Lens(detail=["scores"])
        for lens in (plain, detailed):
            lens.observe(CROSS, scores.softmax(-1), scores=scores)
        assert "scores" not in plain.trace.maps[0].tensors
        assert torch.equal(detailed.trace.maps[2].tensors["scores"], scores[0, 2])

    def test_nothing_that_is_kept_holds_on_to_gradients(self) -> None:
        lens = Lens(detail=["scores"])
        scores = torch.randn(1, H, T, S, requires_grad=True)
        lens.observe(CROSS, scores.softmax(-1), scores=scores)
        assert not any(tensor.requires_grad for map in lens.trace.maps for tensor in map.tensors.values())

    def test_edges_become_a_sparse_map_for_each_head(self) -> None:
        lens = Lens()
        edges = torch.tensor([[0, 0, 2, 4], [1, 3, 2, 0]])
        weights = torch.rand(4, 3)
        lens.observe_edges(Site("gat", "nodes", "nodes"), edges, weights, keys=6)
        assert [map.kind for map in lens.trace.maps] == ["edges"] * 3
        map = lens.trace.maps[1]
        assert (map.queries, map.keys) == (5, 6)
        assert map.weights[0, 3] == weights[1, 1]
        assert int((map.weights != 0).sum()) == 4


class TestAsking:
    def test_details_may_come_from_a_generator(self) -> None:
        lens = Lens(detail=(part for part in ["scores", "state"]))
        assert lens.wants("scores")
        assert lens.wants("state")
        assert not lens.wants("beam")

    def test_wrong_settings_are_refused(self) -> None:
        for settings in ({"keep": "some"}, {"k": 0}, {"k": "3"}, {"detail": ["smell"]}, {"edits": [1]}):
            with pytest.raises(SaccadeError, match="must be"):
                Lens(**settings)  # type: ignore[arg-type]

    def test_a_lens_that_saw_nothing_says_so(self) -> None:
        with pytest.raises(SaccadeError, match="nothing was recorded"):
            Lens().trace

    def test_a_batch_has_traces_and_no_trace(self) -> None:
        lens = Lens()
        lens.observe(CROSS, attention())
        assert len(lens.traces) == N
        with pytest.raises(SaccadeError, match=r"lens\.traces"):
            lens.trace

    def test_batches_of_different_sizes_do_not_mix(self) -> None:
        lens = Lens()
        lens.observe(CROSS, attention(2))
        lens.observe(CROSS, attention(3))
        with pytest.raises(SaccadeError, match="2, 3 inputs"):
            lens.traces

    def test_a_fresh_lens_has_the_settings_and_none_of_the_records(self) -> None:
        lens = Lens("top", k=2, detail=["state"])
        lens.observe(CROSS, attention())
        fresh = lens.fresh()
        assert (fresh.keep, fresh.k, fresh.detail, fresh.records) == ("top", 2, frozenset({"state"}), [])

    def test_a_site_by_name_has_axes_of_its_own(self) -> None:
        assert Site.of("enc") == Site("enc", "enc:query", "enc:key")
        assert Site.of(CROSS) is CROSS


class TestAssemble:
    @pytest.mark.parametrize("keep", ["all", "top"])
    def test_steps_joined_are_the_sequence_seen_at_once(self, keep: str) -> None:
        weights = attention()
        at_once, stepwise = Lens(keep, k=3), Lens(keep, k=3)  # type: ignore[arg-type]
        at_once.observe(CROSS, weights)
        for step in range(T):
            stepwise.observe(CROSS, weights[:, :, step : step + 1], offset=step)
        for one, other in zip(at_once.traces, stepwise.traces, strict=True):
            assert same(one, other)

    def test_statistics_of_steps_add_up(self) -> None:
        weights = attention()
        at_once, stepwise = Lens("statistics"), Lens("statistics")
        at_once.observe(CROSS, weights)
        for first, last in ((0, 2), (2, 5)):
            stepwise.observe(CROSS, weights[:, :, first:last], offset=first)
        for one, other in zip(at_once.traces, stepwise.traces, strict=True):
            for ours, theirs in zip(one.maps, other.maps, strict=True):
                assert ours.queries == theirs.queries
                for name in ours.tensors:
                    torch.testing.assert_close(ours.tensors[name], theirs.tensors[name])

    @pytest.mark.parametrize("keep", ["all", "top"])
    def test_over_growing_keys_absent_ones_weigh_nothing(self, keep: str) -> None:
        lens = Lens(keep, k=3)  # type: ignore[arg-type]
        rows = [torch.randn(1, H, 1, step + 1).softmax(-1) for step in range(T)]
        for step, row in enumerate(rows):
            lens.observe(SELF, row, offset=step)
        trace = lens.trace
        assert len(trace.axes["target"]) == T
        for map in trace.maps:
            assert map.keys == T
            assert torch.equal(map.weights[0], torch.tensor([1.0, 0, 0, 0, 0]))
            for step, row in enumerate(rows):
                kept = min(3, step + 1)
                expected = (
                    row[0, map.head, 0].topk(kept) if keep == "top" else row[0, map.head, 0].sort(descending=True)
                )
                assert torch.equal(map.weights[step, expected.indices], expected.values)
                assert int((map.weights[step] != 0).sum()) == len(expected.values)

    def test_over_growing_keys_absent_scores_are_minus_infinity(self) -> None:
        lens = Lens(detail=["scores"])
        for step in range(3):
            scores = torch.randn(1, 1, 1, step + 1)
            lens.observe(SELF, scores.softmax(-1), offset=step, scores=scores)
        scores = lens.trace.maps[0].tensors["scores"]
        assert torch.equal(scores == -math.inf, torch.ones(3, 3).triu(1).bool())

    def test_statistics_over_growing_keys_add_up(self) -> None:
        lens = Lens("statistics")
        for step in range(3):
            lens.observe(SELF, torch.full((1, 1, 1, step + 1), 1 / (step + 1)), offset=step)
        torch.testing.assert_close(
            lens.trace.maps[0].tensors["received"], torch.tensor([1 + 1 / 2 + 1 / 3, 5 / 6, 1 / 3])
        )

    def test_two_passes_stay_apart(self) -> None:
        lens, first, second = Lens(), attention(1), attention(1, T=3)
        for offset in range(T):
            lens.observe(CROSS, first[:, :, offset : offset + 1], offset=offset)
        lens.observe(CROSS, second)
        maps = lens.trace.maps
        assert [(map.head, map.queries) for map in maps] == [(0, 5), (1, 5), (2, 5), (0, 3), (1, 3), (2, 3)]
        assert torch.equal(maps[4].weights, second[0, 1])

    def test_sites_that_take_turns_are_joined_each_for_itself(self) -> None:
        lens, cross, own = Lens(), attention(1), attention(1, S=T)
        for step in range(T):
            lens.observe(SELF, own[:, :, step : step + 1], offset=step)
            lens.observe(CROSS, cross[:, :, step : step + 1], offset=step)
        trace = lens.trace
        assert len(trace.maps) == 2 * H
        assert torch.equal(trace.map("cross", 2).weights, cross[0, 2])
        assert torch.equal(trace.map("self", 0).weights, own[0, 0])

    def test_a_map_that_begins_later_knows_its_first_step(self) -> None:
        lens = Lens()
        lens.observe(CROSS, attention(1, 1, 2), offset=3)
        trace = lens.trace
        assert trace.maps[0].step == 3
        assert len(trace.axes["target"]) == 5

    def test_signals_are_joined_along_their_axis(self) -> None:
        lens, states = Lens(), torch.randn(N, T, 4)
        for step in range(T):
            lens.signal("state", "target", states[:, step : step + 1], offset=step)
        for item, trace in enumerate(lens.traces):
            assert torch.equal(trace.signals["state"].values, states[item])
            assert trace.signals["state"].axis == "target"
            assert len(trace.axes["target"]) == T

    def test_signals_of_heads_are_joined_along_their_axis_head_by_head(self) -> None:
        lens, contexts = Lens(), torch.randn(N, 3, T, 4)
        for step in range(T):
            lens.signal("context", "target", contexts[:, :, step : step + 1], offset=step)
        for item, trace in enumerate(lens.traces):
            assert torch.equal(trace.signals["context"].values, contexts[item].transpose(0, 1))
            assert len(trace.axes["target"]) == T
            cut = trace.labelled({"target": Positions.of(T - 2)}).signals["context"]
            assert torch.equal(cut.values, contexts[item].transpose(0, 1)[: T - 2])

    def test_signals_of_a_second_pass_do_not_hide_the_first(self) -> None:
        lens, first, second, third = Lens(), *(torch.randn(1, size, 4) for size in (5, 3, 2))
        for states in (first, second, third):
            lens.signal("state", "target", states)
        signals = lens.trace.signals
        assert list(signals) == ["state", "state#2", "state#3"]
        assert torch.equal(signals["state"].values, first[0])
        assert torch.equal(signals["state#2"].values, second[0])

    def test_rows_can_be_selected_as_a_beam_reorders_its_hypotheses(self) -> None:
        lens, weights = Lens(), attention(3)
        lens.observe(CROSS, weights)
        record = lens.records[0].select(torch.tensor([2, 2, 0]))
        assert isinstance(record, Record)
        traces = [assemble([record], item) for item in range(record.size)]
        assert [torch.equal(trace.maps[0].weights, weights[row, 0]) for trace, row in zip(traces, (2, 2, 0))] == [
            True
        ] * 3

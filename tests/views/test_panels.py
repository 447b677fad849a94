"""Panels are small enough to draw, and true to what was kept."""

import numpy as np
import pytest
import torch

from saccade.trace.axes import Frames, Grid, Nodes, Tokens
from saccade.trace.lens import Lens, Site
from saccade.trace.maps import AttentionMap, Signal, Trace
from saccade.views.panels import Limits, is_ruled, panels, part, tick_step

WIDE = Limits(maps=4, labelled=(100, 100), ruled=(100, 100))
NARROW = Limits(maps=4, labelled=(5, 5), ruled=(3, 4))


def trace(*maps: AttentionMap, **axes: object) -> Trace:
    return Trace(axes=axes, maps=maps)  # type: ignore[arg-type]


def dense(weights: torch.Tensor, head: int | None = 0, site: str = "s", step: int = 0) -> AttentionMap:
    return AttentionMap(site, "q", "k", "dense", {"weights": weights}, head=head, step=step, keys=weights.shape[1])


def test_few_maps_are_drawn_each_and_many_as_the_mean_of_their_site() -> None:
    weights = [torch.rand(3, 5) for _ in range(6)]
    few = panels(trace(*(dense(one, head) for head, one in enumerate(weights[:4]))), WIDE)
    assert [panel.heads for panel in few] == [(0,), (1,), (2,), (3,)]
    assert [panel.title for panel in few] == [f"s · head {head}" for head in range(4)]
    many = panels(trace(*(dense(one, head) for head, one in enumerate(weights))), WIDE)
    assert len(many) == 1
    assert many[0].title == "s · mean of 6 heads"
    np.testing.assert_allclose(many[0].weights, torch.stack(weights).mean(0), rtol=1e-6)


def test_heads_of_different_sites_passes_and_sizes_are_not_averaged() -> None:
    maps = [dense(torch.rand(3, 5), head, site) for site in ("a", "b") for head in range(3)]
    assert [panel.site for panel in panels(trace(*maps), WIDE)] == ["a", "b"]
    twice = [dense(torch.rand(3, 5), head) for _ in range(2) for head in range(3)]
    assert [panel.heads for panel in panels(trace(*twice), WIDE)] == [(0, 1, 2), (0, 1, 2)]
    sizes = [dense(torch.rand(size, 5), head) for size in (3, 4) for head in range(3)]
    assert [len(panel.rows) for panel in panels(trace(*sizes), WIDE)] == [3, 4]


def test_the_only_head_is_not_numbered() -> None:
    assert panels(trace(dense(torch.rand(3, 5))), WIDE)[0].title == "s"


def test_long_maps_are_cut_into_blocks_shown_by_their_greatest_weight() -> None:
    weights = torch.rand(7, 11)
    (panel,) = panels(trace(dense(weights)), NARROW)
    assert panel.block == (3, 3)
    assert panel.weights is not None
    assert panel.weights.shape == (3, 4)
    for row in range(3):
        for column in range(4):
            greatest = weights[row * 3 : row * 3 + 3, column * 3 : column * 3 + 3].max()
            assert panel.weights[row, column] == greatest.item()
    assert panel.rows.labels == ("0–2", "3–5", "6–6")


def test_blocks_of_sparse_maps_are_those_of_their_dense_weights() -> None:
    weights = torch.randn(1, 1, 7, 11).softmax(-1)
    lens = Lens("top", k=3)
    lens.observe(Site("s", "q", "k"), weights)
    (sparse,) = panels(lens.trace, NARROW)
    (full,) = panels(trace(dense(lens.trace.maps[0].weights)), NARROW)
    np.testing.assert_allclose(sparse.weights, full.weights)
    edges = lens.trace.maps[0].weights.nonzero().T
    tensors = {"edges": edges, "weights": lens.trace.maps[0].weights[edges[0], edges[1]]}
    (graph,) = panels(trace(AttentionMap("s", "q", "k", "edges", tensors, keys=11)), NARROW)
    np.testing.assert_allclose(graph.weights, full.weights)


def test_a_sparse_map_over_a_long_sequence_is_never_made_dense() -> None:
    T = S = 1_000_000  # dense: 4 TB
    index = torch.arange(T).unsqueeze(1)
    tensors = {"index": index, "weights": torch.ones(T, 1), "residual": torch.zeros(T)}
    (panel,) = panels(trace(AttentionMap("s", "q", "k", "top", tensors, keys=S)), WIDE)
    np.testing.assert_array_equal(panel.weights, np.eye(100))


def test_labelled_axes_are_cut_only_when_there_are_too_many_labels() -> None:
    limits = Limits(maps=4, labelled=(20, 20), ruled=(3, 4))
    (labelled,) = panels(trace(dense(torch.rand(7, 11)), q=Tokens("abcdefg"), k=Tokens("abcdefghijk")), limits)
    assert labelled.block == (1, 1)
    (numbered,) = panels(trace(dense(torch.rand(7, 11))), limits)
    assert numbered.block == (3, 3)


def test_patches_are_never_merged() -> None:
    grid = Grid([str(patch) for patch in range(12)], height=3, width=4)
    (panel,) = panels(trace(dense(torch.rand(2, 12)), k=grid), NARROW)
    assert panel.block == (1, 1)
    assert panel.columns is grid


def test_nodes_that_look_at_nothing_keep_their_row() -> None:
    tensors = {"edges": torch.tensor([[0, 1], [1, 0]]), "weights": torch.ones(2)}
    nodes = Nodes(["a", "b", "lonely"])
    (panel,) = panels(trace(AttentionMap("s", "n", "n", "edges", tensors, keys=3), n=nodes), WIDE)
    assert panel.rows.labels == ("a", "b", "lonely")
    assert panel.weights is not None
    assert panel.weights.shape == (3, 3)


def test_a_map_that_begins_later_has_the_labels_from_there_on() -> None:
    (panel,) = panels(trace(dense(torch.rand(2, 3), step=2), q=Tokens("abcd", words=(0, 0, 1, 1), special=(3,))), WIDE)
    assert panel.rows.labels == ("c", "d")
    assert isinstance(panel.rows, Tokens)
    assert panel.rows.words == (1, 1)
    assert panel.rows.special == (1,)
    assert panel.columns.labels == ("0", "1", "2")


def test_positions_beyond_the_labels_are_numbered() -> None:
    assert part(Tokens("ab"), 1, 3).labels == ("b", "2", "3")
    assert part(None, 2, 2).labels == ("2", "3")


def test_rulers_are_for_numbers_and_seconds() -> None:
    assert is_ruled(part(None, 0, 3))
    assert is_ruled(Frames(["0.0", "0.1"]))
    assert not is_ruled(Tokens(["1", "2"]))
    assert not is_ruled(part(Nodes(["a", "b", "c"]), 1, 2))


def test_the_scale_ends_at_the_greatest_finite_weight() -> None:
    weights = torch.tensor([[0.25, torch.nan, torch.inf], [0.0, 0.5, 0.0]])
    assert panels(trace(dense(weights)), WIDE)[0].greatest == 0.5
    assert panels(trace(dense(torch.full((2, 3), torch.nan))), WIDE)[0].greatest == 0.0
    assert panels(trace(dense(torch.zeros(0, 3))), WIDE)[0].is_empty


def test_numbers_recorded_beside_a_site_belong_to_its_queries() -> None:
    map = AttentionMap("decoder.attention", "q", "k", "dense", {"weights": torch.rand(3, 2)}, keys=2, step=1)
    signals = {
        "decoder.gate": Signal("q", torch.tensor([[0.1], [0.2], [0.3]])),
        "encoder.chosen": Signal("q", torch.zeros(3, 1)),
    }
    (panel,) = panels(Trace(maps=(map,), signals=signals), Limits(1, (9, 9), (9, 9)))
    assert panel.gate is not None
    assert panel.gate.tolist()[:2] == pytest.approx([0.2, 0.3])
    assert np.isnan(panel.gate[2]), "the third query has none"
    assert panel.chosen is None, "another part's"


def test_a_block_of_queries_has_no_gate() -> None:
    map = AttentionMap("decoder.attention", "q", "k", "dense", {"weights": torch.rand(30, 2)}, keys=2)
    trace = Trace(maps=(map,), signals={"decoder.gate": Signal("q", torch.rand(30, 1))})
    (panel,) = panels(trace, Limits(1, (9, 9), (9, 9)))
    assert panel.block[0] > 1
    assert panel.gate is None


def test_blocks_of_frames_keep_their_seconds_under_their_spectrogram() -> None:
    frames = Frames.of(7, 0.1, features=torch.rand(14, 3), pooling=2, start=0.5, segments=[("a", 0.5, 1.0)])
    columns = panels(trace(dense(torch.rand(2, 7)), k=frames), Limits(1, (9, 9), (9, 9), heard=3))[0].columns
    assert isinstance(columns, Frames) and columns.spectrogram is not None
    assert (len(columns), columns.seconds, columns.start) == (3, pytest.approx(0.3), 0.5)
    assert columns.spectrogram.shape == (3, 18), "two columns per frame, and nine frames in the blocks"
    assert columns.segments == (("a", 0.5, 1.0),)


@pytest.mark.parametrize(
    ("seconds", "room", "step"), [(2.1, 10.5, 0.2), (60, 7, 10), (1, 1, 1), (0.3, 100, 0.005), (0, 5, 1)]
)
def test_ticks_are_round_numbers_that_fit(seconds: float, room: float, step: float) -> None:
    assert tick_step(seconds, room) == pytest.approx(step)

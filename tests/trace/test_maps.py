"""Labels cut off padding and nothing else; a trace knows what it holds."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from saccade.attention.core import weigh
from saccade.attention.scores import scaled_dot
from saccade.errors import SaccadeError
from saccade.trace.axes import Nodes, Positions, Tokens
from saccade.trace.file import same
from saccade.trace.lens import Lens, Site
from saccade.trace.maps import AttentionMap, Signal, Trace

CROSS = Site("cross", "target", "source")
T, S = 5, 7


def padded(queries: int = 3, keys: int = 4) -> torch.Tensor:
    """One head's weights [1, 1, T, S], of which all beyond ``queries`` × ``keys`` is padding (queries still look)."""
    weights = torch.randn(1, 1, T, S)
    weights[..., keys:] = -torch.inf
    return weights.softmax(-1)


def seen(keep: str, weights: torch.Tensor, **settings: int) -> Trace:
    lens = Lens(keep, **settings)  # type: ignore[arg-type]
    lens.observe(CROSS, weights)
    return lens.trace


def labels(queries: int = 3, keys: int = 4) -> dict[str, Tokens]:
    return {"target": Tokens(list("uvwxyz")[:queries]), "source": Tokens(list("abcdefgh")[:keys])}


class TestLabelled:
    def test_it_labels_the_axes_and_remembers_what_it_is_about(self) -> None:
        trace = seen("all", padded()).labelled(labels(T, S), model="m").labelled({}, output="x")
        assert trace.axes["source"].labels == tuple("abcdefg")
        assert trace.about == {"model": "m", "output": "x"}

    def test_padding_is_cut_off_a_dense_map(self) -> None:
        weights = padded()
        lens = Lens(detail=["scores"])
        lens.observe(CROSS, weights, scores=weights.log())
        map = lens.trace.labelled(labels()).maps[0]
        assert torch.equal(map.weights, weights[0, 0, :3, :4])
        assert map.tensors["scores"].shape == (3, 4)
        assert (map.queries, map.keys) == (3, 4)

    @pytest.mark.parametrize("k", [2, 4, 6, 16])
    def test_padding_is_cut_off_a_top_map(self, k: int) -> None:
        weights = padded()
        map = seen("top", weights, k=k).labelled(labels()).maps[0]
        kept, index = weights[0, 0, :3].topk(min(k, 4))
        assert torch.equal(map.weights, torch.zeros(3, 4).scatter(1, index, kept))
        assert map.tensors["residual"].shape == (3,)

    def test_all_keys_may_be_padding(self) -> None:
        nothing = torch.zeros(1, 1, T, S)
        for keep in ("all", "top", "statistics"):
            map = seen(keep, nothing, k=3).labelled(labels(3, 0)).maps[0]
            assert (map.queries, map.keys) == (3, 0)

    def test_padding_is_cut_off_statistics_where_its_queries_saw_nothing(self) -> None:
        weights = padded()
        weights[:, :, 3:] = 0
        map = seen("statistics", weights).labelled(labels()).maps[0]
        assert {name: len(tensor) for name, tensor in map.tensors.items()} == {
            "entropy": 3,
            "maximum": 3,
            "argmax": 3,
            "received": 4,
        }
        torch.testing.assert_close(map.tensors["received"], weights[0, 0, :3, :4].sum(0))

    def test_padding_is_cut_off_edges_and_nodes_without_edges_keep_their_labels(self) -> None:
        edges = torch.tensor([[0, 2, 3, 6], [1, 2, 0, 6]])
        lens = Lens()
        lens.observe_edges(Site("gat", "n", "n"), edges, torch.tensor([[0.5], [1.0], [1.0], [0.0]]), keys=7)
        assert lens.trace.labelled({"n": Nodes(list("abcdefg"))}).maps[0].keys == 7
        map = lens.trace.labelled({"n": Nodes(list("abcde"))}).maps[0]
        assert torch.equal(map.tensors["edges"], edges[:, :3])
        assert (map.queries, map.keys) == (4, 5)

    @pytest.mark.parametrize("keep", ["all", "top", "statistics"])
    def test_mass_on_keys_is_never_cut_off(self, keep: str) -> None:
        with pytest.raises(SaccadeError, match="not 0, so they are not padding"):
            seen(keep, padded(), k=4).labelled(labels(T, 3))

    def test_mass_that_queries_gave_is_never_left_in_what_keys_received(self) -> None:
        with pytest.raises(SaccadeError, match="not padding"):
            seen("statistics", padded()).labelled(labels(3, 4))

    def test_edges_with_weight_are_never_cut_off(self) -> None:
        lens = Lens()
        lens.observe_edges(Site("gat", "q", "k"), torch.tensor([[0, 1], [1, 4]]), torch.ones(2, 1), keys=5)
        with pytest.raises(SaccadeError, match="not padding"):
            lens.trace.labelled({"k": Nodes(list("abcd"))})
        with pytest.raises(SaccadeError, match="not padding"):
            lens.trace.labelled({"q": Nodes(["a"])})

    def test_nan_is_no_padding(self) -> None:
        weights = padded()
        weights[..., 6] = torch.nan
        with pytest.raises(SaccadeError, match="not padding"):
            seen("all", weights).labelled(labels())

    @pytest.mark.parametrize(("queries", "keys"), [(6, 7), (5, 8)])
    def test_more_labels_than_weights_are_an_error_with_both_numbers(self, queries: int, keys: int) -> None:
        with pytest.raises(SaccadeError, match=f"{queries} × {keys} labels .* for 5 × 7 weights"):
            seen("all", padded()).labelled(labels(queries, keys))

    def test_a_map_that_begins_later_is_cut_where_its_labels_end(self) -> None:
        lens, weights, states = Lens(), padded(), torch.randn(1, 5, 2)
        lens.observe(CROSS, weights, offset=2)
        lens.signal("state", "target", states, offset=2)
        for size, left in ((7, 5), (4, 2), (2, 0), (1, 0)):
            trace = lens.trace.labelled({"target": Positions.of(size)})
            assert trace.maps[0].queries == left
            assert torch.equal(trace.maps[0].weights, weights[0, 0, :left])
            assert torch.equal(trace.signals["state"].values, states[0, :left])


class TestMap:
    def test_the_one_map_is_found_and_several_are_listed(self) -> None:
        lens = Lens()
        lens.observe(CROSS, torch.rand(1, 2, T, S))
        lens.observe(Site("self", "target", "target"), torch.rand(1, 1, T, T))
        trace = lens.trace
        assert trace.map("cross", 1) is trace.maps[1]
        assert trace.map("self") is trace.maps[2]
        with pytest.raises(SaccadeError, match=r"found 2; maps: cross\[0\], cross\[1\], self\[0\]"):
            trace.map("cross")
        with pytest.raises(SaccadeError, match="found 0; maps: none"):
            Trace().map()

    def test_edges_that_meet_add_up_and_no_edges_are_no_rows(self) -> None:
        tensors = {"edges": torch.tensor([[1, 1], [2, 2]]), "weights": torch.tensor([0.25, 0.5])}
        map = AttentionMap("gat", "n", "n", "edges", tensors, keys=3)
        assert torch.equal(map.weights, torch.tensor([[0, 0, 0], [0, 0, 0.75]]))
        none = {"edges": torch.zeros(2, 0, dtype=torch.int64), "weights": torch.zeros(0)}
        assert AttentionMap("gat", "n", "n", "edges", none, keys=3).weights.shape == (0, 3)


class TestSame:
    def test_a_trace_is_the_same_as_itself_and_as_its_like(self) -> None:
        weights = torch.tensor([[torch.nan, 0.5]])
        one, other = (
            Trace(
                maps=(AttentionMap("s", "q", "k", "dense", {"weights": weights.clone()}),),
                about={"score": float("nan")},
            )
            for _ in range(2)
        )
        assert same(one, other)

    def test_a_difference_anywhere_is_a_difference(self) -> None:
        weights = torch.tensor([[torch.nan, 0.5]])
        trace = Trace(axes={"k": Tokens(["a"])}, maps=(AttentionMap("s", "q", "k", "dense", {"weights": weights}),))
        changed = AttentionMap("s", "q", "k", "dense", {"weights": torch.tensor([[0.5, 0.5]])})
        assert not same(trace, Trace(axes=trace.axes, maps=(changed,)))
        assert not same(trace, Trace(axes={"k": Tokens(["b"])}, maps=trace.maps))
        assert not same(trace, Trace(axes=trace.axes, maps=trace.maps, about={"model": "m"}))
        assert not same(trace, Trace(trace.axes, trace.maps, signals={"s": Signal("k", torch.zeros(1, 1))}))
        half = AttentionMap("s", "q", "k", "dense", {"weights": weights.half()})
        assert not same(trace, Trace(axes=trace.axes, maps=(half,)))


class TestSave:
    @pytest.mark.parametrize("name", ["x", "x.doc", "png", ".png"])
    def test_an_unknown_ending_is_refused_with_the_known_ones(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(SaccadeError, match=r"\.pdf, \.png, \.svg, \.trace"):
            Trace().save(tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    def test_the_ending_chooses_the_format_in_either_case(self, tmp_path: Path) -> None:
        trace = seen("all", padded()).labelled(labels(T, S))
        assert trace.save(tmp_path / "x.PNG").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in trace.save(str(tmp_path / "x.svg")).read_bytes()
        assert same(Trace.load(trace.save(tmp_path / "x.trace")), trace)

    def test_show_writes_to_standard_output(self, capsys: pytest.CaptureFixture[str]) -> None:
        seen("all", padded()).labelled(labels(T, S)).show()
        assert "abcdefg" in capsys.readouterr().out


class TestChoosing:
    def trace(self) -> Trace:
        lens = Lens()
        for site, query, H in (
            ("encoder.self", "source", 3),
            ("decoder.cross", "target", 5),
            ("late.self", "source", 3),
        ):
            weights = torch.rand(1, H, 5 if query == "source" else 7, 5)
            lens.observe(Site(site, query, "source"), weights)
        return replace(lens.trace, about={"model": "tiny", "input": "a b", "output": "c"})

    def test_sites_and_their_heads_are_listed_in_order(self) -> None:
        assert self.trace().sites == {
            "encoder.self": (0, 1, 2),
            "decoder.cross": (0, 1, 2, 3, 4),
            "late.self": (0, 1, 2),
        }
        assert self.trace().last_look == "decoder.cross"
        assert self.trace().only("encoder.self").last_look == "encoder.self"
        assert Trace().last_look is None

    def test_one_site_one_head_or_both_are_left(self) -> None:
        trace = self.trace()
        assert trace.only() is trace
        assert [map.head for map in trace.only("decoder.cross").maps] == [0, 1, 2, 3, 4]
        assert [map.site for map in trace.only(head=4).maps] == ["decoder.cross"]
        (one,) = trace.only("encoder.self", 2).maps
        assert one is trace.map("encoder.self", 2)

    def test_what_is_not_there_is_refused_with_what_is(self) -> None:
        with pytest.raises(
            SaccadeError, match=r"^site: expected one of encoder\.self, decoder\.cross, late\.self, found 'x'$"
        ):
            self.trace().only("x")
        with pytest.raises(SaccadeError, match=r"^head: expected one of 0, 1, 2 at late\.self, found 3$"):
            self.trace().only("late.self", 3)
        with pytest.raises(SaccadeError, match=r"^head: expected one of 0, 1, 2, 3, 4, found -1$"):
            self.trace().only(head=-1)

    def test_the_terminal_and_files_draw_what_was_chosen(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        trace = self.trace()
        trace.show("decoder.cross", 0)
        out = capsys.readouterr().out
        assert "decoder.cross · head 0" in out
        assert "encoder.self" not in out
        drawn = trace.save(tmp_path / "x.svg", site="late.self", head=1).read_text()
        assert "tiny · late.self · head 1" in drawn
        assert "head 0" not in drawn
        (kept,) = Trace.load(trace.save(tmp_path / "x.trace", site="late.self", head=1)).maps
        assert (kept.site, kept.head) == ("late.self", 1)


class TestReprs:
    def test_a_trace_prints_its_sites_and_sizes_and_no_numbers(self) -> None:
        assert str(TestChoosing().trace()).splitlines() == [
            "Trace of tiny: 'a b' → 'c'",
            "  encoder.self, late.self: 3 heads, source × source, dense",
            "  decoder.cross: 5 heads, target × source, dense",
            "  axes: source 5, target 7",
        ]
        assert repr(Trace()) == "Trace\n  no maps"

    def test_many_sites_alike_are_one_line(self) -> None:
        maps = tuple(AttentionMap(f"l.{n}", "q", "q", "dense", {"weights": torch.eye(3)}, 0, keys=3) for n in range(12))
        assert "  l.0 … l.11 (12 sites): 1 head, q × q, dense" in str(Trace(maps=maps)).splitlines()

    def test_its_parts_are_one_line_each(self) -> None:
        map = TestChoosing().trace().map("decoder.cross", 2)
        assert repr(map) == "AttentionMap(decoder.cross head 2: dense, target 7 × source 5)"
        assert repr(Signal("source", torch.zeros(5, 3))) == "Signal(source: 5 × 3)"

    def test_a_lens_prints_its_settings_and_where_it_looked(self) -> None:
        lens = Lens("top", k=3, detail=["state"])
        assert repr(lens) == "Lens(keep='top', k=3, detail=['state'])"
        lens.observe(Site("self", "q", "q"), torch.rand(1, 1, 3, 3))
        assert repr(lens).endswith(": recorded self")


def test_all_heads_of_a_site_are_one_tensor() -> None:
    lens, query, key = Lens(), torch.randn(1, 3, 5, 4), torch.randn(1, 3, 7, 4)
    weights = weigh(query, key, score=scaled_dot, lens=lens, site="self")
    weigh(query[:, :2], key[:, :2], score=scaled_dot, lens=lens, site="other")
    trace = lens.trace
    assert torch.equal(trace.heads("self"), weights[0]) and trace.heads("other").shape == (2, 5, 7)
    assert torch.equal(trace.only("self").heads(), weights[0])
    with pytest.raises(SaccadeError, match=r"self, other.*nothing"):
        trace.heads()
    with pytest.raises(SaccadeError, match=r"self, other.*'cross'"):
        trace.heads("cross")
    with pytest.raises(SaccadeError, match="none"):
        Trace().heads()


def test_labels_for_an_axis_that_no_map_has_are_refused_by_the_names_that_they_have() -> None:
    lens = Lens()
    weigh(torch.randn(1, 3, 4), torch.randn(1, 5, 4), score=scaled_dot, lens=lens, site=Site("look", "query", "key"))
    words = Tokens(("a", "b", "c", "d", "e"))
    with pytest.raises(SaccadeError, match=r"query, key.*'keys'"):
        lens.trace.labelled({"keys": words})
    with pytest.raises(SaccadeError, match=r"'key'.*list"):
        lens.trace.labelled({"key": ["a", "b", "c", "d", "e"]})
    with pytest.raises(SaccadeError, match=r"axes: expected a dict.*found a list"):
        lens.trace.labelled([words])
    assert lens.trace.labelled({"key": words}).axes["key"] == words

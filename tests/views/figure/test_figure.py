"""Pictures: whole files, the same every time, with every label in them and nothing left behind in matplotlib."""

import io
import logging
import math
import re
import warnings
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from saccade.errors import SaccadeError
from saccade.trace.axes import Axis, Frames, Grid, Nodes, Tokens
from saccade.trace.lens import Lens, Site
from saccade.trace.maps import AttentionMap, Signal, Trace
from saccade.views.figure.figure import LINE, Heatmap, Pictures, Reading, Statistics, draw, save
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import Labels
from saccade.views.panels import Limits, Panel, panels

HOSTILE = (
    "</script>",
    "$x_1$",
    "_",
    "\n",
    "\x1b[31m",
    "😀",
    "\ud800",
    "\u202eevil",
    "مرحبا",
    "年",
    "\\frac{1}{2}",
    "",
    "&amp;",
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Drawing says nothing: no warning about glyphs, fonts or layouts."""
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        yield
    assert caplog.messages == []


def look(weights: Any, rows: Axis | None = None, columns: Axis | None = None, **about: Any) -> Trace:
    weights = torch.as_tensor(weights, dtype=torch.float32)
    axes = {name: axis for name, axis in (("target", rows), ("source", columns)) if axis is not None}
    map = AttentionMap("cross", "target", "source", "dense", {"weights": weights}, head=0, keys=weights.shape[1])
    return Trace(axes=axes, maps=(map,), about=about)


def date() -> Trace:
    columns, rows = Tokens([*"5 de maio", "<eos>"], special=(9,)), Tokens([*"05-05", "<eos>"], special=(5,))
    weights = (torch.arange(6)[:, None] - torch.arange(10)[None]).abs().mul(-1.0).softmax(-1)
    return look(weights, rows, columns, model="dates")


def svg_texts(trace: Trace, tmp_path: Path, **options: Any) -> list[str]:
    save(trace, tmp_path / "x.svg", **options)
    root = xml.parse(tmp_path / "x.svg").getroot()
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def written(trace: Trace) -> list[str]:
    """All that is written on the page, without the time it takes to save it."""
    return [text.get_text() for text in draw(trace).axes[0].texts]


def pixels(trace: Trace, dpi: int = 100) -> np.ndarray:
    file = io.BytesIO()
    draw(trace).savefig(file, dpi=dpi)
    return np.asarray(Image.open(file).convert("RGB")).astype(int)


class TestFiles:
    @pytest.mark.parametrize(
        ("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89P")]
    )
    def test_the_same_trace_gives_the_same_bytes(self, ending: str, begins: bytes, tmp_path: Path) -> None:
        for name in ("x", "y"):
            save(date(), tmp_path / f"{name}.{ending}")
        content = (tmp_path / f"x.{ending}").read_bytes()
        assert content.startswith(begins)
        assert content == (tmp_path / f"y.{ending}").read_bytes()
        assert not re.search(rb"CreationDate|<dc:date>|Matplotlib v", content)

    def test_dots_per_inch_scale_the_picture(self, tmp_path: Path) -> None:
        for dpi in (80, 160):
            save(date(), tmp_path / f"{dpi}.png", dpi=dpi)
        files = (io.BytesIO((tmp_path / f"{dpi}.png").read_bytes()) for dpi in (80, 160))
        small, large = (Image.open(file).width for file in files)
        assert large == pytest.approx(2 * small, abs=2)

    def test_a_place_that_cannot_be_written_is_one_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(SaccadeError, match="could not write"):
            save(date(), tmp_path / "file" / "x.png")

    def test_other_endings_and_sizes_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SaccadeError, match=r"\.png, \.svg or \.pdf, found '\.gif'"):
            save(date(), tmp_path / "x.gif")
        with pytest.raises(SaccadeError, match="dpi must be"):
            save(date(), tmp_path / "x.png", dpi=0)
        assert list(tmp_path.iterdir()) == []

    def test_matplotlib_is_left_as_it_was(self, tmp_path: Path) -> None:
        theirs = {"font.size": 31.0, "axes.facecolor": "red", "savefig.facecolor": "red", "savefig.bbox": "tight"}
        with matplotlib.rc_context(theirs):
            before = dict(matplotlib.rcParams)
            save(date(), tmp_path / "styled.png")
            assert dict(matplotlib.rcParams) == before
        save(date(), tmp_path / "plain.png")
        assert (tmp_path / "styled.png").read_bytes() == (tmp_path / "plain.png").read_bytes()

    def test_no_figure_is_left_in_pyplot(self) -> None:
        from matplotlib import pyplot

        draw(date())
        assert pyplot.get_fignums() == []


class TestLabels:
    def test_every_label_is_text_in_an_svg(self, tmp_path: Path) -> None:
        texts = svg_texts(date(), tmp_path)
        assert texts[0] == "dates · cross"
        for label in ("m", "a", "i", "o", "␣", "5", "-", "<eos>", "0.63", "target ↓  source →", "Σ mass received"):
            assert label in texts

    def test_an_svg_falls_back_on_any_face_without_serifs(self, tmp_path: Path) -> None:
        save(date(), tmp_path / "x.svg")
        assert b"font-family: 'DejaVu Sans', sans-serif" in (tmp_path / "x.svg").read_bytes()

    def test_hostile_labels_survive(self, tmp_path: Path) -> None:
        trace = look(torch.eye(13), Tokens(HOSTILE), Tokens(HOSTILE), model="$m$ </text>")
        texts = svg_texts(trace, tmp_path)
        for label in (
            "</script>",
            "$x_1$",
            "_",
            "\\n",
            "\\x1b[31m",
            "U+D800",
            "U+202Eevil",
            "مرحبا",
            "\\frac{1}{2}",
            "∅",
        ):
            assert texts.count(label) == 2
        assert "&amp;" in texts
        assert "$m$ </text> · cross" in texts
        for ending in ("png", "pdf"):
            save(trace, tmp_path / f"x.{ending}")

    def test_a_title_replaces_the_name_of_the_model(self, tmp_path: Path) -> None:
        assert svg_texts(date(), tmp_path, title="$5$ → 05")[0] == "$5$ → 05"
        assert "dates · cross" not in svg_texts(date(), tmp_path, title="")

    def test_a_long_title_is_cut_at_the_page(self, tmp_path: Path) -> None:
        title = svg_texts(date(), tmp_path, title="word " * 200)[0]
        assert title.endswith("word…")
        assert len(title) < 100

    def test_characters_stand_upright_and_words_are_turned(self) -> None:
        face = Typeface(["a"])
        characters = Labels(Tokens([*"terça", "<eos>"], special=(5,)), 0.2, face, "top")
        assert characters.turns == [0, 0, 0, 0, 0, 45]
        assert Labels(Tokens(["gestern", ".", "Hund"]), 0.36, face, "top").turns == [45, 45, 45]
        assert Labels(Tokens(["gestern", ".", "Hund"]), 0.1, face, "top").turns == [90, 90, 90]
        assert Labels(Tokens(["gestern", ".", "Hund"]), 0.1, face, "left").turns == [0, 0, 0]
        assert Labels(Tokens(["ab", "cd"]), 0.36, face, "top").turns == [0, 0]

    def test_more_than_120_labels_are_thinned_and_that_is_said(self) -> None:
        face = Typeface(["w"])
        all_of_them = Labels(Tokens([f"w{number}" for number in range(120)]), 11 / 120, face, "top")
        assert (all_of_them.every, all_of_them.note) == (1, "")
        words = Tokens([f"w{number}" for number in range(300)])
        thinned = Labels(words, 11 / 300, face, "top")
        assert thinned.every > 1
        texts = written(look(torch.rand(3, 300), Tokens("abc"), words))
        assert sum(text.startswith("w") for text in texts) == len(range(0, 300, thinned.every))
        assert any(f"one label in {thinned.every}" in text for text in texts)

    def test_rulers_count_in_round_steps(self) -> None:
        face = Typeface(["0"])
        (panel,) = panels(look(torch.eye(700)), Limits(1, (1000, 1000), (1000, 1000)))
        assert Labels(panel.columns, 11 / 700, face, "top").every in (20, 50)
        assert Labels(panel.rows, 11 / 700, face, "left").every in (20, 50)


class TestHeatmap:
    def test_weights_run_from_white_to_dark(self) -> None:
        (panel,) = panels(look(torch.eye(5), Tokens("abcde"), Tokens("vwxyz")), Limits(1, (9, 9), (9, 9)))
        block = Heatmap(panel, Typeface(["a"]), (0.2, 0.2), 1.0, "alone")
        picture = pixels(look(torch.eye(5), Tokens("abcde"), Tokens("vwxyz")))
        left, top = 0.25 + block.left, 0.25 + 0.38 + block.above
        for row in range(5):
            for column in range(5):
                colour = picture[round((top + 0.2 * (row + 0.5)) * 100), round((left + 0.2 * (column + 0.5)) * 100)]
                assert (colour.sum() < 250) == (row == column)
                assert (colour.sum() > 755) == (row != column)

    def test_numbers_stand_in_few_and_wide_cells_only(self) -> None:
        words = Tokens(["one", "two", "three"])
        weights = [[0.93, 0.07, 0.0], [0.5, 0.5, 0.0], [0.001, 0.0, 0.999]]
        texts = written(look(weights, words, words))
        assert [texts.count(number) for number in (".93", ".07", ".50", "1.00", ".00")] == [1, 1, 2, 2, 0]
        many = Tokens([f"word{number}" for number in range(13)])
        assert ".93" not in written(look(torch.eye(13) * 0.93, many, many))

    def test_pages_stay_within_bounds(self) -> None:
        for rows, columns in ((1, 1), (3, 500), (500, 3), (900, 900), (5, 40)):
            figure = draw(
                look(torch.rand(rows, columns), *(Tokens([f"w{n}" for n in range(size)]) for size in (rows, columns)))
            )
            width, height = figure.get_size_inches()
            assert 2 < width < 14
            assert 1 < height < 14

    def test_nan_is_shaded_and_said(self) -> None:
        texts = written(look([[math.nan, 0.5], [math.nan, math.nan]], Tokens("ab"), Tokens("xy")))
        assert any("shaded: not a number" in text for text in texts)

    @pytest.mark.parametrize("weight", [math.inf, -1.0, 0.0, 1e-30])
    def test_odd_weights_do_not_crash(self, weight: float) -> None:
        assert pixels(look([[weight, 0.5], [0.1, 0.0]], Tokens("ab"), Tokens("xy"))).size

    def test_the_mass_that_was_not_kept_is_a_hatched_column(self) -> None:
        lens = Lens("top", k=2)
        lens.observe(Site("self", "target", "source"), torch.rand(1, 1, 3, 7).softmax(-1))
        assert any("hatched: the mass that was not kept" in text for text in written(lens.trace))

    def test_blocks_of_a_long_map_say_what_they_are(self) -> None:
        index = torch.arange(30_000).unsqueeze(1)
        tensors = {"index": index, "weights": torch.ones(30_000, 1), "residual": torch.zeros(30_000)}
        trace = Trace(maps=(AttentionMap("s", "q", "k", "top", tensors, keys=30_000),))
        assert any("the greatest of 30 × 30 weights" in text for text in written(trace))


class TestManyMaps:
    def heads(self, count: int, sites: int = 1) -> Trace:
        lens = Lens()
        for site in range(sites):
            lens.observe(Site(f"layer.{site}", "target", "source"), torch.randn(1, count, 3, 5).softmax(-1))
        return lens.trace.labelled({"target": Tokens("xyz"), "source": Tokens("abcde")})

    def test_heads_are_panels_and_only_the_outer_ones_carry_labels(self) -> None:
        texts = written(self.heads(8))
        assert texts[0] == "layer.0"
        assert [f"head {head}" in texts for head in range(8)] == [True] * 8
        across, down = texts.count("a"), texts.count("x")
        assert across * down >= 8
        assert across < 8
        assert down < 8

    def test_layers_are_rows_and_heads_are_columns(self) -> None:
        texts = written(self.heads(6, sites=4))
        assert [texts.count(f"layer.{site}") for site in range(4)] == [1, 1, 1, 1]
        assert texts.count("head 5") == 4

    def test_panels_of_sites_of_unequally_many_heads_say_which_site_they_are_of(self) -> None:
        lens = Lens()
        for site, heads in (("layer.0", 2), ("layer.1", 2), ("pool", 1)):
            lens.observe(Site(site, "target", "source"), torch.randn(1, heads, 3, 5).softmax(-1))
        texts = written(lens.trace.labelled({"target": Tokens("xyz"), "source": Tokens("abcde")}))
        assert {f"layer.{layer} · head {head}" for layer in (0, 1) for head in (0, 1)} <= set(texts)

    def test_few_tokens_are_labelled_on_many_panels_once_for_maps_over_the_same_axes(self) -> None:
        texts = written(self.heads(6, sites=4))
        assert (texts.count("a"), texts.count("x")) == (6, 4), "over the first row, beside each row"

    def test_each_row_over_other_axes_has_its_own_labels(self) -> None:
        lens = Lens()
        for site, query, key in (("self", "source", "source"), ("cross", "target", "source")):
            sizes = {"source": 5, "target": 3}
            lens.observe(Site(site, query, key), torch.randn(1, 9, sizes[query], sizes[key]).softmax(-1))
        texts = written(lens.trace.labelled({"target": Tokens("xyz"), "source": Tokens("abcde")}))
        assert (texts.count("a"), texts.count("x")) == (9 + 1 + 9, 1)

    def test_many_panels_of_many_tokens_say_how_to_draw_one_of_them(self) -> None:
        lens = Lens()
        lens.observe(Site("self", "source", "source"), torch.randn(1, 17, 16, 16).softmax(-1))
        trace = lens.trace.labelled({"source": Tokens([f"w{number}" for number in range(16)])})
        hint = "for one head with labels: save(…, site=…, head=…) or view --site --head"
        assert hint in " ".join(written(trace))
        assert "w1" not in written(trace)
        alone = written(trace.only(head=3))
        assert alone[0] == "self · head 3"
        assert "w1" in alone
        assert hint not in " ".join(alone)

    def test_a_picture_says_what_was_read_and_written(self) -> None:
        trace = replace(self.heads(8), about={"model": "m", "input": "a\nb", "output": "x y"})
        assert written(trace)[:2] == ["m · layer.0", "a b → x y"]
        assert "a b → x y" not in [text.get_text() for text in draw(trace, title="mine").axes[0].texts]
        assert draw(trace).get_size_inches()[1] == pytest.approx(draw(self.heads(8)).get_size_inches()[1] + 0.2)

    def test_panels_over_different_axes_carry_their_own_labels(self) -> None:
        maps = [
            AttentionMap(site, "q", key, "dense", {"weights": torch.rand(2, 3)}, head=0, keys=3)
            for site, key in (("one", "k"), ("two", "l"))
        ]
        trace = Trace(axes={"q": Tokens("xy"), "k": Tokens("abc"), "l": Tokens("def")}, maps=tuple(maps))
        texts = written(trace)
        assert all(label in texts for label in ("a", "b", "c", "d", "e", "f", "one", "two"))

    def test_one_scale_serves_all_heads(self) -> None:
        maps = [
            AttentionMap("s", "q", "k", "dense", {"weights": torch.full((2, 7), weight)}, head=head, keys=7)
            for head, weight in enumerate((0.2, 0.8))
        ]
        assert "0.80" in written(Trace(maps=tuple(maps)))

    def test_an_even_map_is_pale(self) -> None:
        even = AttentionMap("s", "q", "k", "dense", {"weights": torch.full((3, 10), 0.1)}, keys=10)
        assert "0.40" in written(Trace(maps=(even,))), "the strong end is four times an even look"


class TestOtherAxes:
    def blocks(self, trace: Trace) -> tuple[Panel, Typeface]:
        (panel,) = panels(trace, Limits(1, (100, 100), (100, 100)))
        return panel, Typeface(["a"])

    def picture_of(
        self,
        weights: list[float],
        signals: dict[str, Signal] | None = None,
        box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0),
    ) -> tuple[Trace, Pictures]:
        """A black image of 2 × 3 patches, and its block."""
        image = torch.zeros(20, 30, 3, dtype=torch.uint8)
        grid = Grid([str(patch) for patch in range(6)], height=2, width=3, image=image, box=box)
        map = AttentionMap(
            "decoder.attention", "target", "image", "dense", {"weights": torch.tensor([weights])}, keys=6
        )
        trace = Trace({"target": Tokens(["cat"]), "image": grid}, (map,), signals=signals or {})
        panel, face = self.blocks(trace)
        return trace, Pictures(panel, face, 1.0)

    def brightness(self, trace: Trace, block: Pictures, column: float, row: float, *, picture: int = 1) -> int:
        """The sum of the three bytes at a place of a picture, in shares of it; the first picture is the image."""
        drawn = pixels(trace)
        across = 0.25 + picture * (block.side + block.gap) + block.side * column
        return int(drawn[round((0.25 + 0.38 + 0.22 + block.tall * row) * 100), round(across * 100)].sum())

    def test_patches_fade_the_image_where_it_was_not_looked_at(self) -> None:
        trace, block = self.picture_of([1.0, 0, 0, 0, 0, 0])
        assert not block.scaled
        assert self.brightness(trace, block, 1 / 6, 1 / 4) < 60
        assert self.brightness(trace, block, 5 / 6, 3 / 4) > 640

    def test_the_image_itself_comes_first(self) -> None:
        trace, block = self.picture_of([1.0, 0, 0, 0, 0, 0])
        assert self.brightness(trace, block, 5 / 6, 3 / 4, picture=0) == 0

    def test_a_map_is_drawn_in_its_box_of_the_image(self) -> None:
        trace, block = self.picture_of([1.0, 1, 1, 1, 1, 1], box=(0.5, 0.0, 1.0, 1.0))
        assert self.brightness(trace, block, 0.75, 0.5) < 120
        assert self.brightness(trace, block, 0.25, 0.5) > 640

    def test_hard_attention_shows_the_patch_that_was_read_and_no_halo(self) -> None:
        chosen = {"decoder.chosen": Signal("target", torch.tensor([[2.0]]))}
        trace, block = self.picture_of([0.6, 0, 0.4, 0, 0, 0], chosen)
        assert self.brightness(trace, block, 4.1 / 6, 0.25) == self.brightness(trace, block, 5.9 / 6, 0.4) == 0
        assert self.brightness(trace, block, 3.9 / 6, 0.25) > 640
        assert self.brightness(trace, block, 1 / 6, 0.25) > 640, "the greatest weight is not the choice"
        assert "clear: the patch that was read" in block.notes

    def test_the_gate_is_written_beside_its_word(self) -> None:
        trace, block = self.picture_of([1.0, 0, 0, 0, 0, 0], {"decoder.gate": Signal("target", torch.tensor([[0.73]]))})
        assert "β 0.73" in written(trace)
        assert "β: how much of what was seen was let in" in block.notes
        assert not any("β" in note for note in self.picture_of([1.0, 0, 0, 0, 0, 0])[1].notes)

    def test_patches_without_an_image_are_a_small_heatmap(self) -> None:
        grid = Grid([str(patch) for patch in range(6)], height=2, width=3)
        assert "dog" in written(look(torch.rand(2, 6), Tokens(["cat", "dog"]), grid))

    def test_of_many_pictures_the_first_are_drawn_and_that_is_said(self) -> None:
        grid = Grid(["0", "1"], height=1, width=2)
        texts = written(look(torch.rand(50, 2), Tokens([f"w{number}" for number in range(50)]), grid))
        assert "the first 40 of 50" in texts

    def test_one_query_over_a_text_shades_the_text_line_by_line(self) -> None:
        words = ("The room was clean and the breakfast wonderful " * 6).split()
        trace = look(torch.rand(1, len(words)).softmax(-1), Tokens(["label"]), Tokens(words))
        block = Reading(*self.blocks(trace), greatest=0.1)
        assert block.height > LINE
        assert all(word.left + word.width <= block.width for word in block.words)
        assert written(trace).count("breakfast") == 6

    def test_statistics_are_bars_with_their_labels(self) -> None:
        lens = Lens("statistics")
        lens.observe(Site("self", "target", "source"), torch.rand(1, 1, 3, 5).softmax(-1))
        trace = lens.trace.labelled({"target": Tokens("xyz"), "source": Tokens("abcde")})
        assert isinstance(Statistics(*self.blocks(trace)).labels[0], Labels)
        texts = written(trace)
        assert all(label in texts for label in "abcdexyz")
        assert "entropy of each position of target, in nats" in texts

    def test_a_spectrogram_stands_over_its_frames(self) -> None:
        frames = Frames([f"{number / 10:.1f}" for number in range(9)], seconds=0.1, spectrogram=torch.rand(4, 9))
        bare = Frames(frames.labels, seconds=0.1)
        heights = [draw(look(torch.rand(3, 9), Tokens("abc"), axis)).get_size_inches()[1] for axis in (frames, bare)]
        assert heights[0] == pytest.approx(heights[1] + 0.55)

    def test_true_segments_are_named_over_the_spectrogram_and_end_in_lines(self) -> None:
        segments = [("early", 0.0, 1.0), ("he", 1.9, 2.3), ("", 2.3, 2.5), ("l", 2.5, 2.51), ("o", 2.51, 9.0)]
        frames = Frames.of(9, 0.1, features=torch.rand(9, 4), start=2.0, segments=segments)
        trace = look(torch.rand(3, 9), Tokens("abc"), frames)
        texts = written(trace)
        assert {"he", "o"} <= set(texts)
        assert any("red lines: true boundaries" in text for text in texts)
        assert not {"early", "l"} & set(texts), "one lies before the frames, one is narrower than its name"
        block = Heatmap(*self.blocks(trace), (0.2, 0.2), 1.0, "alone")
        inches = [(symbol, round(left, 3), round(right, 3)) for symbol, left, right in block.known]
        assert inches == [("he", 0.0, 0.6), ("", 0.6, 1.0), ("l", 1.0, 1.02), ("o", 1.02, 1.8)]

    def test_graphs_are_drawn_with_their_lonely_nodes(self) -> None:
        lens = Lens()
        lens.observe_edges(Site("gat", "n", "n"), torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 1), keys=3)
        trace = lens.trace.labelled({"n": Nodes(["paper", "essay", "lonely"])})
        assert written(trace).count("lonely") == 2


class TestNothing:
    def test_a_trace_without_maps_says_so(self) -> None:
        assert written(Trace()) == ["this trace holds no attention maps"]

    @pytest.mark.parametrize("keep", ["all", "top", "statistics"])
    @pytest.mark.parametrize(("shape", "empty"), [((0, 3), "target"), ((3, 0), "source"), ((0, 0), "target")])
    def test_no_queries_and_no_keys_are_a_sentence(self, keep: str, shape: tuple[int, int], empty: str) -> None:
        lens = Lens(keep)  # type: ignore[arg-type]
        lens.observe(Site("cross", "target", "source"), torch.zeros(1, 1, *shape))
        assert f"nothing to draw: {empty} has no positions" in written(lens.trace)

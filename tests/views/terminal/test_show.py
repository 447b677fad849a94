"""The alignment as text: what is written where, in every terminal, whatever the labels."""

import io
import math
import re
import sys
from itertools import pairwise
from typing import Any

import pytest
import torch
from rich.cells import cell_len

from saccade.trace.axes import Axis, Frames, Grid, Nodes, Sentences, Tokens
from saccade.trace.lens import Lens, Site
from saccade.trace.maps import AttentionMap, Signal, Trace
from saccade.views.terminal.show import render, show

ESCAPE = re.compile("\x1b\\[[0-9;]*m")


def look(weights: Any, rows: Axis | None = None, columns: Axis | None = None, **about: Any) -> Trace:
    weights = torch.as_tensor(weights, dtype=torch.float32)
    axes = {name: axis for name, axis in (("target", rows), ("source", columns)) if axis is not None}
    map = AttentionMap("cross", "target", "source", "dense", {"weights": weights}, head=0, keys=weights.shape[1])
    return Trace(axes=axes, maps=(map,), about=about)


def text(trace: Trace, width: int = 80, **how: Any) -> str:
    return render(trace, **{"width": width, "colour": "none", "unicode": True, **how})


def date(source: str = "5 de maio", target: str = "05-05") -> Trace:
    columns = Tokens([*source, "<eos>"], special=(len(source),))
    rows = Tokens([*target, "<eos>"], special=(len(target),))
    weights = (torch.arange(len(rows))[:, None] - torch.arange(len(columns))[None]).abs().mul(-2.0).softmax(-1)
    return look(weights, rows, columns, input=source, output=target, model="dates")


SHADES = ("truecolor", "256", "none")


class TestAlignment:
    def test_a_small_alignment_is_drawn_to_the_letter(self) -> None:
        weights = [[1.0, 0, 0, 0, 0, 0], [0, 0, 0.25, 0.75, 0, 0], [0, 0, 0, 0, 0, 1.0]]
        trace = look(weights, Tokens(["5", "m", "<eos>"]), Tokens([*"5 mai", "<eos>"]))
        assert text(trace).split("\n") == [
            "cross",
            "      5␣mai■",
            "    5 █       ← 5 1.00",
            "    m   ░▓    ← mai 1.00",
            "<eos>      █  ← <eos> 1.00",
            "    Σ █ ▂▆ █",
            "",
            "target ↓ source →   0  ░░▒▒▓▓█ 1.00   Σ mass received   ■ <eos>",
        ]

    def test_the_heading_says_whose_it_is_and_what_became_of_what(self) -> None:
        lines = text(date()).split("\n")
        assert lines[:2] == ["dates", "5 de maio → 05-05"]

    def test_the_standard_case_fits_in_eighty_columns_in_one_panel(self) -> None:
        trace = date("a" * 39, "b" * 15)
        lines = text(trace).split("\n")
        assert sum("a" * 39 in line for line in lines[2:]) == 1
        assert all("←" in line for line in lines if line.startswith("    b "))

    @pytest.mark.parametrize("width", [20, 36, 50, 80, 200])
    @pytest.mark.parametrize("colour", SHADES)
    @pytest.mark.parametrize("unicode", [True, False])
    def test_no_line_is_wider_than_the_terminal(self, width: int, colour: str, unicode: bool) -> None:
        long = look(
            torch.rand(4, 9), Tokens(["Geschwindigkeitsbegrenzung", *"abc"]), Tokens([*"abcdefg", "x" * 70, "yy"])
        )
        for trace in (date("terça-feira, 5 de maio de 2009", "2009-05-05"), long, look(torch.rand(5, 30))):
            drawn = render(trace, width=width, colour=colour, unicode=unicode)  # type: ignore[arg-type]
            assert max(cell_len(ESCAPE.sub("", line)) for line in drawn.split("\n")) <= width

    def test_a_map_wider_than_the_terminal_is_wrapped_between_words(self) -> None:
        trace = date("terça-feira, 5 de maio de 2009")
        drawn = text(trace, width=34).partition("cross\n")[2]
        headers = [line.strip() for line in drawn.split("\n") if re.fullmatch("[terçafi,␣5dmo209■-]{8,}", line.strip())]
        assert "".join(headers) == "terça-feira,␣5␣de␣maio␣de␣2009■"
        assert len(headers) == 2
        assert all(not (one[-1].isalnum() and other[0].isalnum()) for one, other in pairwise(headers))

    def test_rows_end_with_the_word_they_looked_at_and_the_mass_on_it(self) -> None:
        weights = torch.zeros(2, 9)
        weights[0, 5:9] = torch.tensor([0.3, 0.2, 0.4, 0.03])
        weights[1, 0] = 0.6
        weights[1, 5:9] = 0.1
        trace = look(weights, Tokens("xy"), Tokens("5 de maio"))
        assert "← maio 0.93" in text(trace)
        assert "← 5 0.60" in text(trace)

    def test_all_shades_of_a_row_stand_under_their_label(self) -> None:
        weights = torch.eye(7)
        drawn = text(look(weights, Tokens("abcdefg"), Tokens("年b月d日fg"))).split("\n")
        for place, line in enumerate(drawn[2:9]):
            assert line.index("██") == 2 + 2 * place
        assert drawn[1] == "  年b 月d 日f g"

    def test_words_stand_side_by_side_where_they_fit_and_are_stacked_where_not(self) -> None:
        words = ["The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "today"]
        trace = look(torch.eye(10), Tokens(words), Tokens(words))
        assert " The quick brown fox jumps over the lazy dog today" in text(trace, 120)
        stacked = text(trace, 60)
        assert "quick brown" not in stacked
        column = next(line for line in stacked.split("\n") if line.endswith("y"))
        assert column.split() == ["e", "k", "n", "x", "s", "r", "e", "y", "g", "y"]

    def test_coloured_words_carry_their_numbers_in_the_cells(self) -> None:
        trace = look([[0.93, 0.07], [0.5, 0.5]], Tokens(["I", "saw"]), Tokens(["Ich", "sah"]))
        drawn = render(trace, width=80, colour="truecolor", unicode=True)
        assert ".93" in drawn
        assert ".07" not in drawn
        assert "←" not in drawn

    def test_long_sentences_are_numbered_with_a_legend(self) -> None:
        sentences = Sentences([f"This is sentence {number}, and it is long." for number in range(5)])
        drawn = text(look(torch.eye(5), Tokens("abcde"), sentences))
        assert "  1  2  3  4  5" in drawn
        assert "5 This is sentence 4, and it is long." in drawn

    def test_words_of_joined_letters_are_numbered_not_stacked(self) -> None:
        words = ["رأيت", "كلبا", "كبيرا", "الحديقة"] * 5
        drawn = text(look(torch.eye(20), Tokens(["w"] * 20), Tokens(words)), width=60)
        assert "20 \u200eالحديقة\u200e" in drawn

    def test_frames_are_measured_with_a_ruler(self) -> None:
        frames = Frames([f"{frame * 0.04:.2f}" for frame in range(40)], seconds=0.04)
        drawn = text(look(torch.eye(40)[::4], Tokens("abcdefghij"), frames), unicode=False)
        assert "  0.00 0.20 0.40 0.60" in drawn

    def test_a_long_map_is_shown_in_blocks_and_says_so(self) -> None:
        drawn = text(look(torch.eye(3000)))
        assert "a cell is the greatest of 47 × 47 weights" in drawn
        assert len(drawn.split("\n")) < 80
        assert "Σ" not in drawn


class TestSound:
    """Seven outputs, the last of them silent, that look at 20 frames of 0.05 s, from second 3 on."""

    LOOKED = (1, 4, 8, 8, 13, 18)

    def trace(self, **more: Any) -> Trace:
        frames = Frames.of(20, 0.05, start=3.0, **more)
        weights = torch.nn.functional.one_hot(torch.tensor(self.LOOKED), 20).float()
        return look(torch.cat([weights, torch.zeros(1, 20)]), Tokens("hello!x"), frames)

    def test_a_staircase_has_two_outputs_per_line_in_half_blocks_and_their_times(self) -> None:
        assert text(self.trace(), 48).split("\n")[:6] == [
            "cross",
            "    3.0 s     3.5 s",
            "h e  ▀  ▄                3.08 3.23 s",
            "l l         █            3.42 3.42 s",
            "o !              ▀    ▄  3.67 3.92 s",
            "  x                      – s",
        ]

    def test_more_room_repeats_frames_and_less_keeps_the_greatest(self) -> None:
        wide = text(self.trace(), 120).split("\n")[2]
        assert wide.startswith("h e" + " " * 6 + "▀" * 5 + " " * 10 + "▄" * 5 + " ")
        narrow = text(self.trace(), 20).split("\n")  # 16 cells for 20 frames
        assert [line.rstrip() for line in narrow[2:5]] == ["h e  ▀ ▄", "l l        █", "o !            ▀   ▄"]

    def test_true_segments_stand_under_the_ruler(self) -> None:
        segments = [("he", 3.0, 3.25), ("", 3.25, 3.5), ("llo", 3.5, 3.6), ("o", 3.6, 4.0), ("far", 4.5, 5.0)]
        assert text(self.trace(segments=segments), 48).split("\n")[2] == "    │he  │    │ │o"

    def test_the_spectrogram_stands_over_coloured_stairs(self) -> None:
        features = torch.zeros(20, 8)
        features[:10, :4] = 1.0  # low tones first
        drawn = text(self.trace(features=features), 48, colour="truecolor", background="dark").split("\n")
        pixel, ground = "38;2;217;217;217;48;2;217;217;217", "38;2;0;0;0;48;2;0;0;0"
        assert [line.count(pixel) for line in drawn[2:6]] == [0, 0, 1, 1]
        assert all(ground in line for line in drawn[2:6])
        light = text(self.trace(features=features), 48, colour="truecolor", background="light").split("\n")
        assert "38;2;38;38;38;48;2;38;38;38" in light[5]


class TestStrength:
    def test_colours_become_256_become_shades_become_ascii(self) -> None:
        trace = look([[0.0, 0.5, 1.0], [1.0, 0.0, 0.0]], Tokens("ab"), Tokens("xyz"))
        assert "48;2;" in text(trace, colour="truecolor")
        assert "48;5;" in text(trace, colour="256")
        assert "a  ▒█" in text(trace)
        assert "a  =@" in text(trace, unicode=False) or "a  +@" in text(trace, unicode=False)

    @pytest.mark.parametrize("colour", SHADES)
    def test_ascii_terminals_get_ascii_alone(self, colour: str) -> None:
        trace = date("terça-feira 年", "ß-05")
        assert text(trace, colour=colour, unicode=False).isascii()

    def test_without_colour_there_are_no_escapes(self) -> None:
        assert "\x1b" not in text(date())

    def test_the_background_turns_the_scale_round(self) -> None:
        trace = look([[1.0, 0.0], [0.0, 1.0]], Tokens("ab"), Tokens("xy"))
        dark, light = (text(trace, colour="truecolor", background=ground) for ground in ("dark", "light"))

        def strongest(drawn: str) -> int:
            return max(sum(map(int, rgb)) for rgb in re.findall(r"48;2;(\d+);(\d+);(\d+)", drawn.split("\n")[2]))

        assert strongest(dark) > 500 > strongest(light)

    def test_the_strongest_weight_is_the_end_of_the_scale(self) -> None:
        drawn = text(look([[0.2, 0.8, 0, 0, 0], [0.4, 0, 0, 0.6, 0]], Tokens("ab"), Tokens("vwxyz")))
        assert "0  ░░▒▒▓▓█ 0.80" in drawn
        assert "a ░█" in drawn

    def test_an_even_look_is_pale(self) -> None:
        drawn = text(look([[0.2] * 5] * 3, Tokens("abc"), Tokens("vwxyz")))
        assert "0  ░░▒▒▓▓█ 0.80" in drawn
        assert "a ░░░░░" in drawn

    def test_nan_is_a_question_and_not_a_crash(self) -> None:
        weights = [[1.0, math.nan, 1.0], [math.nan] * 3, [0.0] * 3]
        drawn = text(look(weights, Tokens("abc"), Tokens("x-z"))).split("\n")
        assert drawn[2:5] == ["a █?█  ← x 1.00", "b ???  ← ?", "c      ← nothing"]

    @pytest.mark.parametrize("weight", [math.inf, -1.0, 0.0, 1e-30, 1e30])
    def test_odd_weights_do_not_crash(self, weight: float) -> None:
        for colour in SHADES:
            assert text(look([[weight, 0.5], [0.1, 0.2]], Tokens("ab"), Tokens("xy")), colour=colour)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_every_precision_is_drawn(self, dtype: torch.dtype) -> None:
        map = AttentionMap("s", "q", "k", "dense", {"weights": torch.eye(3, dtype=dtype, requires_grad=True)}, keys=3)
        assert "0 █" in text(Trace(maps=(map,)))


HOSTILE = [
    "\x1b[2J",
    "\x1b]0;gotcha\x07",
    "\x9b31m",
    "\n",
    "\r",
    "\u202eevil",
    "\u2028",
    "\ud800",
    "\x00",
    "",
    "\u200c",
]


class TestLabels:
    @pytest.mark.parametrize("colour", SHADES)
    @pytest.mark.parametrize("unicode", [True, False])
    @pytest.mark.parametrize("characters", [True, False])
    def test_no_label_reaches_the_terminal_raw(self, colour: str, unicode: bool, characters: bool) -> None:
        labels = [*(label[:1] for label in HOSTILE)] if characters else HOSTILE
        size = len(labels)
        map = AttentionMap("\x1b[1msite\n", "q\x1b", "k\x07", "dense", {"weights": torch.eye(size)}, head=0, keys=size)
        about = {"input": "\x1b[2J\n", "output": "\x1b[2J", "model": "\x07"}
        trace = Trace(axes={"q\x1b": Tokens(labels), "k\x07": Tokens(labels)}, maps=(map,), about=about)
        drawn = ESCAPE.sub("", text(trace, colour=colour, unicode=unicode))
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", drawn)
        drawn.encode("utf-8")
        # Each query is a line of its own: no newline of a label became one of the picture.
        plain = text(Trace(axes={}, maps=(map,)), colour=colour, unicode=unicode)
        assert sum(line.rstrip().endswith("1.00") for line in drawn.split("\n")) >= sum(
            line.rstrip().endswith("1.00") for line in plain.split("\n")
        )

    def test_spaces_and_lone_marks_can_be_seen(self) -> None:
        drawn = text(look(torch.eye(4), Tokens("abcd"), Tokens(["क", "\u093f", " ", "\u0902"])))
        assert "क ◌\u093f ␣ ◌\u0902" in drawn

    def test_right_to_left_letters_stay_in_reading_order_of_the_positions(self) -> None:
        drawn = text(look(torch.eye(3), Tokens("abc"), Tokens("مرح")))
        assert "\u200eم\u200e\u200eر\u200e\u200eح\u200e" in drawn

    def test_markers_among_characters_take_one_cell_and_are_explained(self) -> None:
        axis = Tokens(["<bos>", "a", "<eos>", "<lang>"], special=(0, 2, 3))
        drawn = text(look(torch.eye(4), Tokens("wxyz"), axis))
        assert "▸a■◆" in drawn
        assert "▸ <bos>   ■ <eos>\n◆ <lang>" in drawn


class TestManyMaps:
    def heads(self, count: int, sites: int = 1) -> Trace:
        lens = Lens()
        for site in range(sites):
            lens.observe(Site(f"layer.{site}", "target", "source"), torch.randn(1, count, 3, 5).softmax(-1))
        return lens.trace

    def test_up_to_four_are_drawn_each_with_its_title(self) -> None:
        drawn = text(self.heads(4))
        assert [f"layer.0 · head {head}" in drawn for head in range(4)] == [True] * 4
        assert "mean" not in drawn

    def test_more_are_averaged_over_the_heads_of_each_site_and_that_is_said(self) -> None:
        trace = self.heads(3, sites=2)
        drawn = text(trace)
        assert "6 maps at 2 sites: the mean over the heads of each" in drawn
        assert drawn.count("mean of 3 heads") == 2
        mean = torch.stack([map.weights for map in trace.maps[:3]]).mean(0)
        assert f"0  ░░▒▒▓▓█ {max(0.8, mean.max()):.2f}" in drawn, "at least four times an even look at 5 keys"


class TestOtherAxes:
    def test_patches_are_drawn_as_pictures(self) -> None:
        grid = Grid([str(patch) for patch in range(6)], height=2, width=3)
        drawn = text(look([[1.0, 0, 0, 0, 0, 0.5], [0, 0, 1.0, 0, 0, 0]], Tokens(["cat", "dog"]), grid)).split("\n")
        assert drawn[1:4] == ["cat       dog", "██· ·     · · ██", "· · ▒▒    · · ·"]

    def photo(self, *, gate: float | None = None, chosen: int | None = None) -> Trace:
        """One query over 2 × 3 patches of a red image, which looks at the first."""
        image = torch.tensor([200, 0, 0], dtype=torch.uint8).expand(8, 12, 3)
        grid = Grid([str(patch) for patch in range(6)], height=2, width=3, image=image)
        map = AttentionMap("decoder.attention", "target", "image", "dense", {"weights": torch.eye(6)[:1]}, keys=6)
        beside = {"gate": gate, "chosen": chosen}
        signals = {
            f"decoder.{name}": Signal("target", torch.tensor([[float(number)]]))
            for name, number in beside.items()
            if number is not None
        }
        return Trace({"target": Tokens(["cat"]), "image": grid}, (map,), signals=signals)

    def test_a_photo_is_drawn_in_half_blocks_under_a_veil(self) -> None:
        drawn = text(self.photo(), colour="truecolor", background="light").split("\n")
        photo = [line for line in drawn if "▀" in line]
        assert [len(ESCAPE.sub("", line)) for line in photo] == [28] * 9, "28 × 18 pixels of 12 × 8"
        colours = re.findall(r"38;2;(\d+);(\d+);(\d+)", "".join(photo))
        assert any(int(red) < 210 and int(green) < 20 for red, green, _ in colours), "what was looked at is red"
        assert any(int(green) > 200 for _, green, _ in colours), "the rest is nearly white"
        assert "clear: looked at; veiled: not" in ESCAPE.sub("", drawn[-1])

    def test_hard_attention_shows_one_patch_of_the_photo(self) -> None:
        drawn = text(self.photo(chosen=5), colour="truecolor", background="light").split("\n")
        photo = [line for line in drawn if "▀" in line]
        assert "38;2;200;0;0" in photo[-1]
        assert "38;2;200;0;0" not in photo[0], "the greatest weight is not the choice"

    def test_the_gate_stands_beside_its_word(self) -> None:
        assert "cat β 0.25" in text(self.photo(gate=0.25))
        assert "cat β 0.25" in ESCAPE.sub("", text(self.photo(gate=0.25), colour="256"))
        assert "β" not in text(self.photo())

    def test_without_colours_a_photo_is_its_patches(self) -> None:
        assert text(self.photo()).split("\n")[2] == "██· ·"

    def itself(self, image: torch.Tensor | None = None, keys: tuple[int, int] = (5, 7)) -> Trace:
        """5 × 7 patches that look at each other: evenly, but for three of them, two of which lie side by side."""
        height, width = keys
        queries = Grid([f"{n // 7},{n % 7}" for n in range(35)], height=5, width=7, image=image)
        pooled = Grid([str(n) for n in range(height * width)], height=height, width=width, image=image)
        weights = torch.full((35, height * width), 1 / (height * width))
        for query, most in ((15, 0.9), (16, 0.8), (34, 0.7)):  # 2,1 and 2,2 and 4,6
            weights[query] = (1 - most) / (height * width - 1)
            weights[query, 3] = most
        return look(weights.tolist(), queries, pooled)

    def test_an_image_that_looks_at_itself_shows_the_mean_and_the_patches_with_the_greatest_weights(self) -> None:
        drawn = text(self.itself(), width=200).split("\n")
        names = drawn[1].split()
        assert names[0] == "mean" and {"2,1", "4,6"} <= set(names) and "2,2" not in names, "2,2 lies beside 2,1"
        assert len(names) <= 6 and names[1:] == sorted(names[1:])
        column = drawn[1].index("2,1")
        picture = [line[column : column + 14] for line in drawn[2:7]]
        assert picture[2][2:4] == "[]" and picture[0][6:8] == "██"
        assert "mean: of all 35 patches" in drawn[-1] and "[] the patch that looks" in drawn[-1]
        assert f"{len(names) - 1} of them with the greatest weights" in drawn[-1]

    def test_the_patch_that_looks_is_found_among_pooled_ones(self) -> None:
        drawn = text(self.itself(keys=(2, 3)), width=200).split("\n")
        column = drawn[1].index("4,6")
        assert drawn[3][column + 4 : column + 6] == "[]", "the last row and column of 5 × 7 is that of 2 × 3"

    def test_on_a_photo_the_patch_that_looks_is_pink(self) -> None:
        image = torch.zeros(10, 14, 3, dtype=torch.uint8)
        drawn = text(self.itself(image), width=31, colour="truecolor", background="light").split("\n")
        photos = [part for part in "\n".join(drawn).split("\n\n") if "▀" in part]
        assert [part.count("255;64;153") > 0 for part in photos] == [False] + [True] * (len(photos) - 1)
        assert len(photos) > 2 and "pink: the patch that looks" in ESCAPE.sub("", "\n".join(drawn))

    def test_one_query_over_a_text_shades_the_text(self) -> None:
        words = ["the", "room", "was", "clean"]
        trace = look([[0.1, 0.2, 0.1, 0.6]], Tokens(["label"]), Tokens(words))
        coloured = text(trace, colour="truecolor")
        assert "the room was clean" in ESCAPE.sub("", coloured)
        assert re.search(r"48;2;[\d;]+mclean\x1b", coloured)
        assert "clean ████" in text(trace)

    def test_statistics_are_bars_of_mass_and_entropy(self) -> None:
        lens = Lens("statistics")
        lens.observe(Site("self", "target", "source"), torch.tensor([[[[0.5, 0.5, 0, 0], [0, 0, 0, 1.0]]]]))
        trace = lens.trace.labelled({"target": Tokens("xy"), "source": Tokens("abcd")})
        lines = text(trace).split("\n")
        assert lines[1] == "mass that each position of source received"
        assert lines[2].split() == ["a", "█" * 20, "0.50"]
        assert lines[5].split() == ["d", "█" * 40, "1.00"]
        assert lines[7] == "entropy of each position of target, in nats"
        assert lines[8].split() == ["x", "█" * 40, "0.69", "←", "a", "0.50"]
        assert lines[9].split() == ["y", "0.00", "←", "d", "1.00"]

    def test_of_many_statistics_the_greatest_are_shown(self) -> None:
        lens = Lens("statistics")
        lens.observe(Site("self", "target", "source"), torch.eye(1000).view(1, 1, 1000, 1000))
        drawn = text(lens.trace)
        assert "the greatest 24 of 1,000" in drawn
        assert len(drawn.split("\n")) < 60

    def test_the_mass_that_was_not_kept_is_a_column_of_its_own(self) -> None:
        lens = Lens("top", k=1)
        lens.observe(Site("self", "target", "source"), torch.tensor([[[[0.5, 0.25, 0.25], [0, 1.0, 0]]]]))
        lines = text(lens.trace).split("\n")
        assert lines[1:4] == ["  012  …", "0 ▒    ▒  ← 0 0.50", "1  █      ← 1 1.00"]
        assert "… the mass that was not kept" in lines[-1]

    def test_graphs_are_drawn_with_their_lonely_nodes(self) -> None:
        lens = Lens()
        lens.observe_edges(Site("gat", "n", "n"), torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 1), keys=3)
        drawn = text(lens.trace.labelled({"n": Nodes(["paper", "essay", "lonely"])}))
        assert "lonely                     ← nothing" in drawn


class TestNothing:
    def test_a_trace_without_maps_says_so(self) -> None:
        assert text(Trace()) == "This trace holds no attention maps."

    @pytest.mark.parametrize("keep", ["all", "top", "statistics"])
    def test_no_queries_and_no_keys_are_a_sentence(self, keep: str) -> None:
        for shape, sentence in (
            ((0, 3), "target has no positions"),
            ((3, 0), "source has no positions"),
        ):
            lens = Lens(keep)  # type: ignore[arg-type]
            lens.observe(Site("cross", "target", "source"), torch.zeros(1, 1, *shape))
            assert sentence in text(lens.trace)

    def test_one_query_and_one_key_are_drawn(self) -> None:
        assert "a █" in text(look([[1.0]], Tokens("a"), Tokens("x")))


class TestShow:
    @pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "█"), ("ascii", "@"), ("latin-1", "@")])
    def test_it_prints_what_standard_output_can_write(
        self, encoding: str, sign: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        show(date("terça 年"))
        written = raw.getvalue().decode(encoding)
        assert sign in written
        assert written.endswith("\n")
        assert "\x1b" not in written

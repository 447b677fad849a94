"""Words by label as pictures and as a page."""

from __future__ import annotations

import pytest

from saccade.errors import SaccadeError
from saccade.views.charts.words import Bars, Table, draw_bars, draw_weights, page, save_bars, save_weights

PANELS = [Bars("pos", [("good", 0.5), ("$x$ <b>", 0.25), ("年", 0.1)], "7 texts"), Bars("neg", [("bad", 0.4)])]


def test_a_panel_a_label_and_a_bar_a_word_the_largest_on_top() -> None:
    figure = draw_bars(PANELS, across="mean weight", title="words")
    first, second = figure.axes
    assert [bar.get_width() for bar in first.patches] == [0.5, 0.25, 0.1] and len(second.patches) == 1
    assert first.get_ylim()[0] > first.get_ylim()[1]
    assert first.get_xlim() == second.get_xlim() and first.get_ylim() == second.get_ylim()


def heads(figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_labels_that_are_too_long_are_cut_so_that_they_stay_apart() -> None:
    names = ("Cause-Effect", "Component-Whole", "Content-Container", "Instrument-Agency", "Member-Collection")
    labels = [f"{name}({way})" for name in names for way in ("e1,e2", "e2,e1")] + ["Other"]
    figure = draw_bars([Bars(label, [("of", 0.5)], "1,234 texts") for label in labels], across="mean weight")
    shown = heads(figure)
    assert len(set(shown)) == len(labels) and "Other" in shown
    assert [name.endswith(("(e1,e2)", "(e2,e1)")) for name in shown] == [True] * (len(labels) - 1) + [False]
    for axes in figure.axes:
        label, note = (text.get_window_extent() for text in (axes._left_title, axes._right_title))
        assert label.x1 < note.x0 and label.x0 >= axes.get_window_extent().x0
    places = {word: dict.fromkeys(labels, (0.5,)) for word in ("the", "notwithstanding")}
    assert len(set(heads(draw_weights(places, labels)))) == 2 * len(labels)


def test_labels_are_cut_where_that_tells_them_apart() -> None:
    same = "a-beginning-that-is-long-enough", "an-end-that-is-as-long-as-that"
    for labels in (
        [f"{same[0]}-{n}" for n in range(3)],
        [f"{n}-{same[1]}" for n in range(3)],
        [f"in-{n}-{same[0]}{same[1]}" for n in range(10, 13)],
        [f"{same[0]}-{n}-{same[1]}" for n in range(12)],  # no cut of this length does: they are numbered
    ):
        shown = heads(draw_bars([Bars(label, [("of", 0.5)], "7 texts") for label in labels], across="x"))
        assert len(set(shown)) == len(labels) and all("…" in name and len(name) < 27 for name in shown)


def test_long_words_stay_apart_too() -> None:
    words = ["internationalisation", "internationalisations", "short"]
    [axes] = draw_bars([Bars("pos", [(word, 0.5) for word in words])], across="x").axes
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert len(set(shown)) == 3 and shown[2] == "short" and max(map(len, shown)) <= 18


def test_histograms_of_one_word_share_their_scale_and_mark_the_mean() -> None:
    words = {"good": {"pos": (0.1, 0.9, 0.8), "neg": (0.2,)}, "bad": {"neg": (0.05,)}}
    figure = draw_weights(words, ["pos", "neg"])
    assert len(figure.axes) == 4
    good_pos, good_neg, bad_pos, bad_neg = figure.axes
    assert good_pos.get_xlim() == good_neg.get_xlim() == (0, 0.9) and good_pos.get_ylim() == good_neg.get_ylim()
    assert good_pos.lines[0].get_xdata()[0] == pytest.approx(0.6)
    assert sum(bar.get_height() for bar in good_pos.patches) == pytest.approx(1.0)
    assert not bad_pos.patches and bad_neg.patches and "no occurrence" in bad_pos.get_xlabel()


def test_many_labels_are_wrapped_and_each_word_begins_a_row() -> None:
    labels = [f"label {n}" for n in range(7)]
    figure = draw_weights({word: {"label 0": (0.5,)} for word in ("good", "bad")}, labels)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"{w} · {name}" for w in ("good", "bad") for name in labels
    ]
    places = [axes.get_position() for axes in figure.axes]
    assert places[0].x0 == places[4].x0 == places[7].x0 and places[6].y0 > places[7].y0
    assert len({place.y0 for place in places}) == 4 and figure.get_figwidth() < 11


@pytest.mark.filterwarnings("error:Glyph")
def test_labels_in_letters_that_no_font_here_has_are_written_too(tmp_path) -> None:
    save_bars([Bars("\U00013000", [("a", 0.5)])], tmp_path / "a.png", across="x")


def test_the_same_numbers_give_the_same_bytes(tmp_path) -> None:
    for name in ("one", "two"):
        save_bars(PANELS, tmp_path / f"{name}.png", across="x")
        save_weights({"good": {"pos": (0.1, 0.9)}}, ["pos"], tmp_path / f"{name}.svg")
    for kind in ("png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(SaccadeError, match="at least one word"):
        draw_bars([Bars("pos", [])], across="x")
    with pytest.raises(SaccadeError, match="at least one word and one label"):
        draw_weights({}, ["pos"])


def test_the_page_needs_nothing_else_and_words_cannot_write_into_it() -> None:
    rows = [("<script>alert(1)</script>", ["7", "0.5"], 0.5), ("\x1b[31m", ["3", "0.25"], 0.25)]
    text = page([Table("pos & neg", "9 texts", rows)], ["word", "count", "mean"], title="a <title>", about="so")
    assert "<script>" not in text and "&lt;script&gt;alert(1)" in text and "\x1b" not in text
    assert "pos &amp; neg" in text and "--share: 100.0%" in text and "--share: 50.0%" in text
    assert "http" not in text and "a &lt;title&gt;" in text

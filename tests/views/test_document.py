"""Documents: a bar for each sentence, words shaded by both levels, wherever words lie in sentences."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.cells import cell_len

from saccade.trace.axes import Axis, Sentences, Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.document import documents
from saccade.views.figure.figure import LINE, Prose, Reading, draw, save
from saccade.views.panels import Limits, panels
from saccade.views.terminal.show import render

TEXT = "It was dull. But the end, superb!"
LABELS = ("It", "was", "dull", ".", "But", "the", "end", ",", "superb", "!")
WITHIN = (0, 0, 0, 0, 1, 1, 1, 1, 1, 1)
WORDS = torch.tensor([[0.1, 0.2, 0.6, 0.1, *[0.0] * 6], [*[0.0] * 4, 0.1, 0.1, 0.1, 0.0, 0.6, 0.1]])
SENTENCES = torch.tensor([[0.25, 0.75]])
ESCAPE = re.compile("\x1b\\[[0-9;]*m")


def spans() -> tuple[tuple[int, int], ...]:
    found, place = [], 0
    for label in LABELS:
        place = TEXT.index(label, place)
        found.append((place, place + len(label)))
        place += len(label)
    return tuple(found)


def nested(words=WORDS, sentences=SENTENCES, labels=LABELS, **about) -> Trace:
    axes: dict[str, Axis] = {
        "text": Tokens(labels, "sentences", WITHIN, TEXT, spans()),
        "sentences": Sentences(("It was dull.", "But the end, superb!")),
        "label": Tokens(("pos",), text="pos"),
    }
    maps = (
        AttentionMap("words", "sentences", "text", "dense", {"weights": words}, head=0, keys=10),
        AttentionMap("sentences", "label", "sentences", "dense", {"weights": sentences}, head=0, keys=2),
    )
    return Trace(axes, maps, about={"input": TEXT, "output": "pos", **about})


def test_a_word_is_as_strong_as_the_root_of_its_sentence_times_its_own_weight() -> None:
    (found,) = documents(nested())
    strengths = found.strengths
    assert strengths[2] == pytest.approx(0.5 * 0.6) and strengths[8] == pytest.approx(0.75**0.5 * 0.6)
    assert found.sentences is not None and found.sentences.tolist() == [0.25, 0.75]
    assert [places for _, places in found.lines()] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]


def test_both_maps_are_one_panel_and_either_alone_is_what_it_is() -> None:
    limits = Limits(4, (100, 100), (100, 100))
    (panel,) = panels(nested(), limits)
    assert panel.title == "sentences · words" and panel.rows.labels == ("pos",) and panel.weights.shape == (1, 10)
    (words,) = panels(nested().only("words"), limits)
    assert words.document is not None and words.document.sentences is None and words.title == "words"
    (sentences,) = panels(nested().only("sentences"), limits)
    assert sentences.document is None and sentences.weights.shape == (1, 2)


def test_a_trace_without_sentences_is_no_document() -> None:
    trace = nested()
    flat = replace(trace, axes={**trace.axes, "text": Tokens(LABELS)})
    assert documents(flat) == []
    heads = replace(trace, maps=(*trace.maps, replace(trace.maps[0], head=1)))
    assert documents(heads) == []
    statistics = {
        "entropy": torch.ones(2),
        "maximum": torch.ones(2),
        "argmax": torch.zeros(2),
        "received": torch.ones(10),
    }
    counted = replace(trace, maps=(replace(trace.maps[0], kind="statistics", tensors=statistics), trace.maps[1]))
    assert documents(counted) == []


def test_the_terminal_draws_a_bar_a_number_and_the_text() -> None:
    lines = render(nested(), width=80, colour="none", unicode=True).split("\n")
    assert lines[:5] == [
        "It was dull. But the end, superb! → pos",
        "",
        "sentences · words",
        "██▋      0.25 It was dull.  ← dull 0.60",
        "████████ 0.75 But the end, superb!  ← superb 0.60",
    ]


def test_colours_are_red_for_sentences_and_the_scale_for_words() -> None:
    drawn = render(nested(), width=80, colour="truecolor", unicode=True, background="light")
    assert "\x1b[38;2;205;62;58m████████\x1b[0m 0.75" in drawn
    assert re.search("\x1b\\[48;2;[0-9;]+;97msuperb\x1b\\[0m", drawn)  # the strongest has white letters
    assert "√(weight of the sentence)" in drawn and "behind" not in drawn
    assert "mean over the heads" not in drawn
    plain = render(nested(), width=80, colour="256", unicode=False, background="dark")
    assert plain.isascii() and "sqrt(weight" in plain


@pytest.mark.parametrize("width", [20, 33, 80])
@pytest.mark.parametrize("colour", ["truecolor", "256", "none"])
def test_no_line_is_wider_than_the_terminal_and_every_word_is_there(width, colour) -> None:
    drawn = ESCAPE.sub("", render(nested(), width=width, colour=colour, unicode=True))
    assert all(cell_len(line) <= width for line in drawn.split("\n"))
    assert all(label in drawn for label in LABELS)


def test_labels_that_are_no_words_and_weights_that_are_no_numbers_do_no_harm(tmp_path) -> None:
    labels = ("\x1b[31m", "\n", "مرحبا", "", "$x_1$", "</script>", "年", "😀", "a" * 300, "_")
    broken = nested(WORDS.clone().index_fill_(1, torch.tensor([1]), float("nan")), labels=labels)
    for colour in ("truecolor", "none"):
        drawn = render(broken, width=40, colour=colour, unicode=True)
        assert "\x1b[31m" not in drawn and all(cell_len(line) <= 40 for line in ESCAPE.sub("", drawn).split("\n"))
    save(broken, tmp_path / "x.png")
    nothing = nested(torch.zeros(2, 10), torch.zeros(1, 2))
    assert "← nothing" in render(nothing, width=60, colour="none", unicode=True)
    save(nothing, tmp_path / "y.pdf")
    save(nested(sentences=torch.full((1, 2), float("nan"))), tmp_path / "z.png")


def test_the_picture_has_the_words_the_bars_and_what_they_mean(tmp_path) -> None:
    save(nested(model="han"), tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text()
    written = {"".join(node.itertext()).strip() for node in xml.fromstring(drawn).iter() if node.tag.endswith("text")}
    assert {*LABELS, "0.25", "0.75", "→ pos"} <= written
    assert any("red: the weight of a sentence" in text and "√(weight of its sentence)" in text for text in written)
    assert "#c8382f" in drawn and "han · sentences · words" in written
    save(nested(model="han"), tmp_path / "y.svg")
    assert drawn == (tmp_path / "y.svg").read_text()


def test_bars_are_as_long_as_the_weights_and_lines_break_between_words() -> None:
    from saccade.views.figure.fonts import Typeface

    (panel,) = panels(nested(), Limits(4, (100, 100), (100, 100)))
    block = Prose(panel, panel.document, Typeface(LABELS), panel.greatest, width=1.0)
    assert [weight for _, weight in block.bars] == [0.25, 0.75]
    rights = [word.left + word.width for word in block.words]
    assert max(rights) <= 1.0 + 1e-6 and block.height > 3 * LINE
    assert max(word.strength for word in block.words) == pytest.approx(1.0)
    assert [word.text for word in block.words] == list(LABELS)
    figure = draw(nested())
    assert np.isfinite(figure.get_size_inches()).all() and not isinstance(block, Reading)

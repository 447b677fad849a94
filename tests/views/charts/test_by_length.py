"""The chart of figures by length: a line a run, whole files, the same every time."""

import logging
import warnings
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from saccade.errors import SaccadeError
from saccade.views.charts.by_length import COLOURS, Chart, Line, draw, save

BUCKETS = ("1–10", "11–20", "≥ 21")


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        yield
    assert caplog.messages == []


def line(name: str, *values: float | None) -> Line:
    low, high = ([None if value is None else value + by for value in values] for by in (-2.0, 3.0))
    return Line(name, values, low, high)


def chart(*lines: Line, **how: str) -> Chart:
    return Chart(lines, BUCKETS, (5, 1234, 7), "source words", "BLEU", **how)


def test_there_is_one_line_a_run_through_its_figures_and_one_name_in_the_legend() -> None:
    runs = [line("rnnsearch", 38.0, 37.0, 36.5), line("luong", 37.0, 36.0, 35.0), line("seq2seq", 33.0, 20.0, 9.0)]
    above, below = draw(chart(*runs)).axes
    assert [drawn.get_ydata().tolist() for drawn in above.lines] == [list(run.values) for run in runs]
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["rnnsearch", "luong", "seq2seq"]
    assert len({drawn.get_color() for drawn in above.lines}) == 3
    assert [bar.get_height() for bar in below.patches] == [5, 1234, 7]
    assert [text.get_text() for text in below.get_xticklabels()] == list(BUCKETS)


def test_each_line_has_its_band() -> None:
    above, _ = draw(chart(line("one", 38.0, 37.0, 36.5), line("two", 30.0, 31.0, 32.0))).axes
    bands = [band for band in above.collections if band.get_facecolor().size]
    tops = [round(float(band.get_paths()[0].vertices[:, 1].max()), 3) for band in bands]
    assert tops == [41.0, 35.0]


def test_a_bucket_without_a_figure_is_a_gap() -> None:
    above, _ = draw(chart(line("one", None, 37.0, 36.5))).axes
    assert np.isnan(above.lines[0].get_ydata()[0])
    draw(chart(line("none", None, None, None)))


def test_more_runs_than_colours_differ_in_their_dashes() -> None:
    count = len(COLOURS) + 2
    above, _ = draw(chart(*(line(f"run {number}", 30.0 + number, 31, 32) for number in range(count)))).axes
    kinds = {(drawn.get_color(), str(drawn._unscaled_dash_pattern)) for drawn in above.lines}
    assert len(kinds) == count


def test_a_scale_begins_at_0_where_a_line_comes_near_it() -> None:
    above, _ = draw(chart(line("one", 38.0, 20.0, 5.0))).axes
    assert above.get_ylim()[0] == 0.0
    above, _ = draw(chart(line("one", 38.0, 37.0, 36.0))).axes
    assert above.get_ylim()[0] > 25


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_chart_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        save(chart(line("rnnsearch", 38.0, 37.0, 36.5), title="BLEU by length"), tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_a_png_opens_and_an_svg_holds_its_names_as_text(tmp_path: Path) -> None:
    hostile = chart(line("<run> & $x_1$ 年", 38.0, 37.0, 36.5), title="a title")
    save(hostile, tmp_path / "x.png", dpi=100)
    with Image.open(tmp_path / "x.png") as picture:
        width, height = picture.size
    assert width == 640
    assert 400 < height < 500
    save(hostile, tmp_path / "x.svg")
    texts = "".join(xml.parse(tmp_path / "x.svg").getroot().itertext())
    for text in ("<run> & $x_1$", "a title", "1–10", "1,234", "BLEU", "source words", "inputs"):
        assert text in texts


def test_faults_are_told(tmp_path: Path) -> None:
    with pytest.raises(SaccadeError, match=r"expected a picture ending in .png, .svg or .pdf, found '.gif'"):
        save(chart(line("one", 1, 2, 3)), tmp_path / "x.gif")
    with pytest.raises(SaccadeError, match="at least one line"):
        chart()
    with pytest.raises(SaccadeError, match=r"one: expected .* each of 3 buckets"):
        chart(line("one", 1.0, 2.0))

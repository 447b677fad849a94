"""Records over time: a signed bar per code, the risk after each visit, wherever codes that contribute lie in visits."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.cells import cell_len

from saccade.trace.axes import Axis, Sentences, Tokens, Visits
from saccade.trace.maps import AttentionMap, Signal, Trace
from saccade.views.figure.figure import draw, save
from saccade.views.panels import Limits, panels
from saccade.views.terminal.show import render
from saccade.views.timeline import timelines

CODES = ("I10", "E11", "I50", "日本 code", "E11")
WITHIN = (0, 0, 2, 2, 2)
VALUES = torch.tensor([[0.5, 0.0], [-1.25, 0.1], [2.5, -0.2], [0.0, 0.3], [-0.01, 0.4]])
RISK = torch.tensor([[0.25, 0.5], [0.2, 0.5], [0.9, 0.75]])
ESCAPE = re.compile("\x1b\\[[0-9;]*m")


def record(values: torch.Tensor = VALUES, **changes) -> Trace:
    axes: dict[str, Axis] = {
        "visits": Visits(("visit 1", "visit 2", "visit 3"), times=("2020-01-01", "2020-01-09", "2021-01-01")),
        "codes": Tokens(CODES, "visits", WITHIN),
    }
    weights = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    maps = (AttentionMap("visits", "visits", "visits", "dense", {"weights": weights}, head=0, keys=3),)
    signals = {"contributions": Signal("codes", values), "risk": Signal("visits", RISK)}
    return replace(Trace(axes, maps, signals, about={"outcomes": ["heart failure", "death"]}), **changes)


def test_a_trace_with_contributions_of_codes_in_visits_has_a_record_per_outcome() -> None:
    first, second = timelines(record())
    assert (first.outcome, second.outcome) == ("heart failure", "death")
    assert first.inside(0) == [0, 1] and first.inside(1) == [] and first.inside(2) == [2, 3, 4]
    assert np.allclose(second.risk, RISK[:, 1]) and first.strongest(2) == {1, 2}
    drawn = panels(record(), Limits(4, (200, 400), (64, 64)))
    assert [panel.timeline is not None for panel in drawn] == [True, True, False]


def test_the_axes_decide_and_nothing_else() -> None:
    trace = record()
    assert not timelines(replace(trace, signals={"risk": trace.signals["risk"]}))
    elsewhere = {**trace.axes, "visits": Sentences(("a", "b", "c"))}
    assert not timelines(replace(trace, axes=elsewhere))
    assert not timelines(replace(trace, axes={**trace.axes, "codes": Tokens(CODES)}))
    without = replace(trace, signals={"contributions": trace.signals["contributions"]}, about={})
    assert [each.outcome for each in timelines(without)] == ["outcome 1", "outcome 2"]
    assert timelines(without)[0].risk is None


@pytest.mark.parametrize("width", [34, 60, 100])
@pytest.mark.parametrize("unicode", [True, False])
def test_a_terminal_shows_signs_sizes_and_risk(width: int, unicode: bool) -> None:
    text = render(record(VALUES[:, :1]), width=width, colour="none", unicode=unicode, background="dark")
    lines = ESCAPE.sub("", text).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    of = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert "+2.500" in of["I50"] and "+0.500" in of["I10"]
    if width > 34:
        bar = "│" if unicode else "|"
        left, right = of["I50"].split(bar)
        assert "█" in right or "#" in right
        assert "█" not in left and "#" not in left
        negative = next(line for line in lines if "-1.250" in line)
        assert "█" in negative.split(bar)[0] or "#" in negative.split(bar)[0]
        assert any("visit 3" in line and "0.900" in line and "2021-01-01" in line for line in lines)
    assert "+1.740" in text  # the sum


def test_of_many_codes_the_strongest_are_shown_and_the_others_summed() -> None:
    count = 100
    codes = Tokens(tuple(f"c{number}" for number in range(count)), "visits", (1,) * count)
    values = torch.full((count, 1), 0.01)
    values[7] = -3.0
    trace = replace(
        record(), axes={**record().axes, "codes": codes}, signals={"contributions": Signal("codes", values)}
    )
    text = render(trace, width=80, colour="none", unicode=True, background="dark")
    assert "-3.000" in text and "60 more: +0.600" in text


def test_numbers_that_are_none_are_drawn_without_a_bar(tmp_path) -> None:
    values = VALUES.clone()
    values[2, 0], values[0, 0] = float("nan"), float("inf")
    text = render(record(values), width=80, colour="none", unicode=True, background="dark")
    assert "nan" in text
    record(values).save(tmp_path / "x.png")


def test_a_picture_has_bars_up_and_down_and_the_dates(tmp_path) -> None:
    save(record(), tmp_path / "x.svg")
    content = (tmp_path / "x.svg").read_bytes()
    words = "".join(xml.fromstring(content).itertext())
    for word in ("2020-01-09", "I50", "+2.50", "-1.25", "contributions to heart failure", "red: the risk"):
        assert word in words
    save(record(), tmp_path / "y.svg")
    assert (tmp_path / "y.svg").read_bytes() == content
    boxes = [patch for patch in draw(record()).axes[0].patches if patch.get_height() > 0.01]
    assert len({patch.get_facecolor() for patch in boxes}) >= 2


def test_a_record_without_codes_is_drawn_too(tmp_path) -> None:
    empty = {**record().axes, "codes": Tokens((), "visits", ())}
    trace = replace(record(), axes=empty, signals={"contributions": Signal("codes", VALUES[:0])})
    assert "visit" in render(trace, width=80, colour="none", unicode=True, background="dark")
    trace.save(tmp_path / "x.png")

"""Every number on the page comes from the trace: change the model, or one weight of a map, and the page changes with it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from saccade.trace.maps import Trace
from tests.web import made
from tests.web.explorer import number
from tests.web.made_model import seen

VIEWS = ("steps", "alignment", "arcs", "beam")


def tables(page) -> dict[str, list[list[str]]]:
    """The numbers of each view: its table twin."""
    return {view: page.go(view=view).table() for view in VIEWS}


def test_changing_one_weight_of_the_bundle_changes_the_page(opened, bundle):
    changed = copy.copy(bundle)
    changed.network = copy.deepcopy(bundle.network)
    with torch.no_grad():
        changed.network.v[3] += 0.75
    (output, trace), (other_output, other) = seen(bundle), seen(changed)
    assert output == other_output, "the same words, so that the tables can be laid one on the other"
    before, after = tables(opened(trace)), tables(opened(other))
    for view in VIEWS:
        assert before[view] != after[view], view
        assert [row[0] for row in before["alignment"]] == [row[0] for row in after["alignment"]]
    assert shown(before["alignment"]) == pytest.approx(trace.maps[0].weights.flatten().tolist(), abs=6e-4)
    assert shown(after["alignment"]) == pytest.approx(other.maps[0].weights.flatten().tolist(), abs=6e-4)


def shown(table: list[list[str]]) -> list[float]:
    return [number(text) for row in table[1:] for text in row[1:]]


def nudged(trace: Trace, row: int, column: int) -> Trace:
    """The same trace with one weight of its map changed."""
    (map,) = trace.maps
    weights = map.tensors["weights"].clone()
    weights[row, column] += 0.125
    return replace(trace, maps=(replace(map, tensors={**map.tensors, "weights": weights}),))


def test_changing_one_weight_of_the_map_changes_that_number_and_no_other(opened):
    page = opened({"before": made.decode(), "after": nudged(made.decode(), 2, 4)}, hash="view=alignment")
    before = page.table()
    after = page.go(trace=1, view="alignment").table()
    different = [(r, c) for r, row in enumerate(before) for c, text in enumerate(row) if text != after[r][c]]
    assert different == [(1 + 2, 1 + 4)]


def test_the_sentence_says_the_number_of_the_trace(opened):
    page = opened({"before": made.decode(), "after": nudged(made.decode(), 2, 4)}, hash="view=alignment&step=2&key=4")
    weight = float(made.decode().maps[0].weights[2, 4])
    assert f"{weight:.2f}" in page.said
    assert f"{weight + 0.125:.2f}" in page.go(trace=1, view="alignment", step=2, key=4).said

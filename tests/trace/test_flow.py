"""Flows: what a model declares of a step is what it computes."""

from __future__ import annotations

import importlib

import pytest
import torch

from saccade.models import MODELS, luong, rnnsearch
from saccade.trace.edits import Even
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site
from saccade.trace.maps import Trace

SOURCE, LENGTHS = torch.tensor([[3, 5, 7, 4, 2]]), torch.tensor([5])
TARGET = torch.tensor([[1, 6, 8]])
NETWORKS = {
    "rnnsearch": lambda: rnnsearch.RNNSearch(rnnsearch.Config(6, 4, 3, init="torch"), 9, 11),
    "luong": lambda: luong.Luong(luong.Config(hidden=6, embedding=4, init="torch"), 9, 11),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_state_of_a_step_takes_in_its_context_where_the_flow_says_so(name: str) -> None:
    torch.manual_seed(3)
    network = NETWORKS[name]().eval()
    (site,) = network.sites

    def states(*edits: Even) -> torch.Tensor:
        lens = Lens(edits=edits, detail=("state",))
        network(SOURCE, LENGTHS, TARGET, lens=lens)
        return lens.trace.signals["decoder.state"].values

    moved = (states() - states(Even(site=site.name, step=1))).abs().amax(1) > 1e-7
    flow = site.flow
    assert flow is not None
    assert moved.tolist() == [False, "c[t]" in flow.state, True], "the step that was edited, and the one after it"
    asks = flow.query[0]
    assert (asks == flow.state[0]) is (name == "luong"), "Luong's state moves before it asks"


def test_the_copying_network_declares_that_its_weights_are_output_too() -> None:
    config = rnnsearch.Config(6, 4, 3, copy=True, init="torch")
    network, lens = rnnsearch.RNNSearch(config, 11, 11), Lens()
    network(SOURCE, LENGTHS, TARGET, lens=lens)
    assert lens.trace.about["flow"][rnnsearch.SITE.name]["output"][-1] == "α[t]"


def test_a_trace_carries_the_flow_of_each_site_through_its_file(tmp_path) -> None:
    lens = Lens()
    NETWORKS["luong"]()(SOURCE, LENGTHS, TARGET, lens=lens)
    declared = {luong.SITE.name: luong.FLOW.to_json()}
    assert lens.trace.about["flow"] == declared
    assert Trace.load(lens.trace.save(tmp_path / "x.trace")).about["flow"] == declared


def test_every_site_that_a_shipped_model_names_declares_its_flow() -> None:
    modules = {importlib.import_module(place.partition(":")[0]) for place in MODELS.values()}
    sites = [part for module in modules for part in vars(module).values() if isinstance(part, Site)]
    assert len(sites) > 10
    assert [site.name for site in sites if not isinstance(site.flow, Flow)] == []

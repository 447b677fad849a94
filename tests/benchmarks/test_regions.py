"""The benchmark of regions: captions of one length, what it times is the network's own attention, a line per setting."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "captions" / "regions.py"

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("captions_regions", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "captions_regions", module)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the script adds to it
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def test_captions_have_as_many_words_as_were_asked_for(script: Any) -> None:
    for kind in script.KINDS:
        network = script.network_of(kind, 3, script.Sizes((3,), 5, 7, 6, 11), torch.device("cpu"))
        memory = network.encode(torch.randn(2, 9, 5))
        for beam in (1, 5):
            best = [found[0] for found in script.searching(network, memory, beam, 4)()]
            assert [len(hypothesis.tokens) for hypothesis in best] == [4, 4]


@torch.no_grad()
def test_the_attention_that_is_timed_is_that_of_the_network(script: Any) -> None:
    for kind in script.KINDS:
        network = script.network_of(kind, 3, script.Sizes((3,), 5, 7, 6, 11), torch.device("cpu"))
        memory, hidden = network.encode(torch.randn(4, 9, 5)), torch.randn(4, 7)
        found = script.attending(network, memory, hidden)["attention"]()
        context = (found[1] if kind == "soft" else found).squeeze(1)
        gated = torch.sigmoid(network.gate(hidden)) * context
        torch.testing.assert_close(gated, network._context(hidden, memory, 0, None, None))


def test_the_table_has_a_line_per_number_of_regions_and_way_to_write(script: Any, tmp_path: Path) -> None:
    script.main(["--tiny", "--out", str(tmp_path / "regions.md")])
    lines = [line for line in (tmp_path / "regions.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    assert [line.split(" | ")[0] for line in lines] == ["| regions", *["| 4"] * 3, *["| 9"] * 3]
    assert len({line.count("|") for line in lines}) == 1

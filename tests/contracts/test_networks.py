"""The promise about looks that classifiers, taggers and rankers share: each way to break it is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.attention.core import attend
from saccade.attention.scores import dot
from saccade.attention.windows import everywhere, padding
from saccade.testing.networks import check_lens
from saccade.testing.promises import ContractBroken
from saccade.trace.lens import Lens, Site

LENGTHS = (4, 2, 5)
SITE = Site("pool", query="label", key="text")


class Looking:
    """One look at each row, by a normaliser and a window that may be wrong."""

    batch = (torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64),)

    def __init__(self, normalise: Any = None, window: Any = None, named: tuple[Site, ...] = (SITE,)) -> None:
        self.options = {} if normalise is None else {"normalise": normalise}
        self.window = padding(torch.tensor(LENGTHS)) if window is None else window
        self.network = SimpleNamespace(sites=named)

    def predict(self, network: Any, batch: tuple[Tensor], lens: Lens | None = None) -> Tensor:
        (states,) = batch
        return attend(
            states[:, :1], states, states, score=dot, window=self.window, lens=lens, site=SITE, **self.options
        )


def broken(subject: Looking) -> str:
    with pytest.raises(ContractBroken) as found:
        check_lens(subject, lambda item: {"label": 1, "text": LENGTHS[item]})
    return str(found.value)


def test_a_look_that_keeps_to_its_row_is_no_fault():
    check_lens(Looking(), lambda item: {"label": 1, "text": LENGTHS[item]})


def test_weight_on_padding_is_found():
    assert "pool: item 0 has weight" in broken(Looking(window=everywhere))


def test_a_weight_below_0_is_found():
    assert "the least weight is -" in broken(Looking(normalise=lambda scores: scores.softmax(-1) * (scores > 0) - 0.1))


def test_a_row_of_more_than_1_is_found():
    assert "pool: a row sums to 1.5" in broken(Looking(normalise=lambda scores: 1.5 * scores.softmax(-1)))


def test_a_look_that_no_site_names_is_found():
    assert "sites names [], the lens saw ['pool']" in broken(Looking(named=()))

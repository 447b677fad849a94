"""What tasks with a decoder share."""

from __future__ import annotations

import pytest
import torch

from saccade.models.transformer import Config, Transformer
from saccade.nn.cuda_graphs import EagerDevice
from saccade.nn.search.beam_search import Search
from saccade.nn.search.fast_beam import Recorder
from saccade.tasks.decoding import read_and_search

LENGTHS, LIMITS = torch.tensor([67, 3, 5]), [70, 33, 5]


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal"])
@pytest.mark.parametrize("beam", [1, 3])
def test_recorded_steps_write_the_same_up_to_the_last_place(positions: str, beam: int) -> None:
    """Where steps are recorded sources are padded to few lengths, 67 to 72: more than there are places."""
    torch.manual_seed(1)
    sizes = {"width": 8, "heads": 2, "hidden": 12, "layers": 2, "places": 70}
    network = Transformer(Config(**sizes, positions=positions), 20, 20).eval()  # type: ignore[arg-type]
    source = torch.randint(4, 20, (3, 67))
    found = [
        read_and_search(
            network, source, LENGTHS, LIMITS, Search(beam=beam), bos=1, eos=2, forbidden=(0, 1), recorder=how
        )
        for how in (None, Recorder(EagerDevice()))
    ]
    tokens = [[hypotheses[0].tokens for hypotheses, _ in each] for each in found]
    assert tokens[0] == tokens[1]

"""A network that breaks a promise is told which one, with numbers; the shipped ones are tried in tests/contracts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from saccade.attention.windows import everywhere
from saccade.models import rnnsearch
from saccade.models.rnnsearch import Config, RNNSearch
from saccade.nn.decoder import EncoderDecoder
from saccade.testing import ContractBroken, check_model
from saccade.trace import Site

SMALL = Config(6, 4, 3, init="torch")


class Wide(RNNSearch):
    def _read_out(self, state, embedded, context):
        return super()._read_out(state, embedded, context)[..., :-1]


class TwoWays(RNNSearch):
    """``teach`` is not what ``step`` does."""

    def teach(self, memory, target, *, lens=None):
        return super().teach(memory, target, lens=lens) * 1.01


class Leaking(RNNSearch):
    """Looks at padding."""

    def window(self, state, real):
        return everywhere


class Summing(RNNSearch):
    """What stands in the padding goes into the first state."""

    def encode(self, source, lengths, *, lens=None):
        memory = super().encode(source, lengths, lens=lens)
        return memory._replace(start=memory.start + 1e-3 * self.source_embedding(source).mean())


class Foreseeing(RNNSearch):
    def teach(self, memory, target, *, lens=None):
        return super().teach(memory, target, lens=lens) + target[:, -1:].unsqueeze(-1)


class Rigid(RNNSearch):
    """Remembers the start of the batch on the module, where no beam can reorder it."""

    def start(self, memory):
        self.kept = memory.start.detach()
        return memory.start

    def step(self, token, state, memory, *, offset, lens=None):
        logits, moved = super().step(token, state, memory, offset=offset, lens=lens)
        rows = torch.arange(len(token)) % len(self.kept)
        return logits + self.kept[rows].sum(-1, keepdim=True), moved

    def teach(self, memory, target, *, lens=None):
        return super(RNNSearch, self).teach(memory, target, lens=lens)


class Silent(RNNSearch):
    def step(self, token, state, memory, *, offset, lens=None):
        return super().step(token, state, memory, offset=offset)

    def teach(self, memory, target, *, lens=None):
        return super().teach(memory, target)


class Misnamed(RNNSearch):
    sites = (Site("decoder.atention", query="target", key="source"),)


class Heavy(RNNSearch):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.normalise = lambda scores: 2 * torch.softmax(scores, -1)


class Watched(RNNSearch):
    """Another result under a lens."""

    def teach(self, memory, target, *, lens=None):
        return super().teach(memory, target, lens=lens) + (lens is not None)


class Useless(RNNSearch):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.unused = nn.Linear(3, 5)


class Unsaved(RNNSearch):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.noise = torch.randn(())

    def _read_out(self, state, embedded, context):
        return super()._read_out(state, embedded, context) * (1 + self.noise)


class Counting(RNNSearch):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("calls", torch.zeros(()))

    def encode(self, source, lengths, *, lens=None):
        self.calls += 1
        return super().encode(source, lengths, lens=lens)


class Dropping(RNNSearch):
    def _drop(self, x):
        return nn.functional.dropout(x, 0.5)


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_network_that_keeps_its_promises_passes_by_class_and_by_name():
    assert len(check_model(RNNSearch, SMALL)) == 12
    assert check_model("saccade.models.rnnsearch:RNNSearch", SMALL) == check_model("rnnsearch", SMALL)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Wide, r"logits are numbers .*expected \[3, 5, 13\], found \[3, 5, 12\]"),
        (TwoWays, r"encode, start and step give the same logits as teach: step 0: .*numbers differ"),
        (Leaking, r"an item gives the same result alone .*item 1 of 3 in a batch of 7.*has weight 3\.\d+ on padding"),
        (Summing, r"values in padding do not change the result: another padding: .*numbers differ"),
        (Foreseeing, r"a step does not depend on later tokens: the first 3 steps: .*numbers differ"),
        (Rigid, r"rows of memory and state can be selected and reordered.*the second step"),
        (Silent, r"the lens sees exactly the sites .*names \['decoder\.attention'\], the lens saw \[\]"),
        (Misnamed, r"names \['decoder\.atention'\], the lens saw \['decoder\.attention'\]"),
        (Heavy, r"decoder\.attention: a row sums to 2"),
        (Watched, r"the result is the same with and without a lens: under Lens\('all'\)"),
        (Useless, r"reach every parameter: unused\.weight \[5, 3\] got none"),
        (Unsaved, r"a saved state restores the network: .*numbers differ"),
        (Counting, r"in eval mode equal inputs .*calls, which a call changed"),
        (Dropping, r"in eval mode equal inputs give equal outputs"),
    ],
)
def test_a_broken_promise_is_named_with_numbers(network, message):
    with pytest.raises(ContractBroken, match=f"(?s){network.__name__} breaks .*{message}"):
        check_model(network, SMALL)


def test_what_is_no_network_is_refused():
    with pytest.raises(ContractBroken, match=r"Config is not a class derived from saccade\.nn\.EncoderDecoder"):
        check_model(rnnsearch.Config)
    with pytest.raises(ContractBroken, match=r"Bare has no config_class"):
        check_model(type("Bare", (EncoderDecoder,), {}))


def test_the_same_numbers_are_drawn_afterwards_as_without_the_check():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    check_model(RNNSearch, SMALL)
    assert torch.equal(torch.rand(3), expected)

"""A task that breaks a promise is told which one; the shipped ones are tried in tests/contracts."""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest
import torch

from saccade.data.labels.records import LabelledData
from saccade.data.pairs.records import Pair, PairData
from saccade.data.splits import Splits
from saccade.data.toy.opinions import Opinions
from saccade.models import attentive_classifier
from saccade.models.rnnsearch import Config
from saccade.task import Loss
from saccade.tasks.classify import Classify
from saccade.tasks.translate import Translate
from saccade.testing import ContractBroken, check_task

DATA = PairData(train="no file is read")
SMALL = Config(6, 4, 3)


class Short(Translate):
    """Short texts and their reverses, kept right; the base of those that are not."""

    @staticmethod
    def load(data, folder, seed):
        texts = [f"{number:b}" for number in range(1, 36)]
        pairs = [Pair(text, text[::-1]) for text in texts]
        return Splits(pairs[:23], pairs[23:28], pairs[28:])


class Drawing(Short):
    @staticmethod
    def load(data, folder, seed):
        splits = Short.load(data, folder, seed)
        return replace(splits, train=random.sample(splits.train, len(splits.train)))


class Bare(Short):
    @staticmethod
    def load(data, folder, seed):
        splits = Short.load(data, folder, seed)
        return replace(splits, test=[(pair.source, pair.target) for pair in splits.test])


class Losing(Short):
    def corpus(self, pairs, where):
        return super().corpus(pairs[1:], where)


class Skipping(Short):
    def plan(self, corpus, **options):
        return super().plan(corpus, **options)[1:]


class Restless(Short):
    def plan(self, corpus, **options):
        batches = super().plan(corpus, **options)
        return [batches[number] for number in torch.randperm(len(batches))]


class Crowded(Short):
    def plan(self, corpus, *, records, **options):
        return super().plan(corpus, records=records * 2, **options)


class Selfish(Short):
    """Every rank takes all."""

    def plan(self, corpus, *, rank=0, ranks=1, **options):
        return super().plan(corpus, **options)


class Stopping(Short):
    """One rank of several stops a batch early."""

    def plan(self, corpus, *, rank=0, ranks=1, **options):
        return super().plan(corpus, rank=rank, ranks=ranks, **options)[: -1 if rank else None]


class Raw(Short):
    Data = dict


class Foreign(Short):
    @dataclass(frozen=True)
    class Data:
        train: str = "other"


class Formless(Short):
    output = "sound"


class Careless(Short):
    def read(self, given, where, network=None):
        return super().read(given or "0", where, network)


class Placeless(Short):
    def read(self, given, where, network=None):
        return super().read(given, "somewhere", network)


class Secretive(Short):
    def describe(self):
        return {"vocabulary": self.target}


class Proud(Short):
    """Its scores are not those of its predictions."""

    def scorer(self, network, given, output, *, ended=True):
        score = super().scorer(network, given, output, ended=ended)
        return lambda lens: replace(score(lens), log_probs=tuple(each / 2 for each in score(lens).log_probs))


class Stubborn(Short):
    def constrain(self, items, constraints, dictionary):
        return [items[0] for _ in items]


class Padded(Short):
    """Its loss counts padding."""

    def loss(self, network, batch, *, smoothing=0.0, sampling=0.0):
        loss = super().loss(network, batch, smoothing=smoothing, sampling=sampling)
        return Loss(loss.total + batch.target_out.eq(0).sum(), loss.count)


class Plain(Short):
    def loss(self, network, batch, *, smoothing=0.0, sampling=0.0):
        return super().loss(network, batch).total


class Detached(Short):
    def loss(self, network, batch, *, smoothing=0.0, sampling=0.0):
        loss = super().loss(network, batch)
        return Loss(loss.total.detach() + 0 * sum(parameter.sum() for parameter in network.parameters()), loss.count)


class Shuffled(Short):
    def predict(self, network, inputs, **options):
        return super().predict(network, inputs, **options)[::-1]


class Blind(Short):
    def predict(self, network, inputs, *, lens=None, **options):
        return super().predict(network, inputs, **options)


class Unmeasured(Short):
    metrics = ("exact_match", "loudness")

    def evaluate(self, network, corpus, *, metrics, **options):
        return super().evaluate(network, corpus, metrics=["exact_match"], **options)


class Boundless(Short):
    def evaluate(self, network, corpus, *, limit=None, **options):
        return super().evaluate(network, corpus, **options)


class Resting(Short):
    def predict(self, network, inputs, **options):
        network.eval()
        return super().predict(network, inputs, **options)


class Forgetful(Short):
    @classmethod
    def restore(cls, data, files):
        return cls.learn(data, [Pair("0", "0")])


class Wandering(Short):
    def files(self):
        return {f"vocabulary/{name}": text for name, text in super().files().items()}


class Dumb(Short):
    def examples(self, folder, seed, test=None):
        return []


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Drawing, r"load gives the same records each time.*other train records in a second call"),
        (Bare, r"a record of test is not a dataclass with a source: \[\('"),
        (Losing, r"the corpus of 23 records has 22"),
        (Skipping, r"a plan has every record once.*epoch 0 leaves out \d records"),
        (Restless, r"plan.*depends on its arguments only: (the plan of epoch 0 differs|plan draws from torch)"),
        (Crowded, r"a batch holds 6 records, where at most 3 were asked for"),
        (Selfish, r"ranks share a plan.*3 ranks together visit 46 records more than once"),
        (Stopping, r"ranks share a plan.*3 ranks have unequally many batches: \[3, 2, 2\]"),
        (Raw, r"Data is not a dataclass: <class 'dict'>"),
        (Foreign, r"Data is Data, the data to try it with is PairData"),
        (Formless, r"output must be one of text, .*: found 'sound'"),
        (Careless, r"errors of malformed inputs name the input.*: read takes None for an input"),
        (Placeless, r"read does not say which input it refuses: somewhere: expected a text, found NoneType"),
        (
            Secretive,
            r"predictions can be written as JSON: it raised TypeError: Object of type Tokenizer is not JSON serializable",
        ),
        (Proud, r"sum to the prediction's: the sum of scorer's log_probs"),
        (Stubborn, r"capabilities work: empty constraints change the output"),
        (Padded, r"the loss does not depend on how records are cut into batches: the loss in batches of 1"),
        (Plain, r"loss gave Tensor, not a Loss"),
        (Detached, r"the loss has finite gradients: every gradient is 0"),
        (Shuffled, r"an input gets the same prediction.*together they are \[.*\], one by one \["),
        (Blind, r"under a lens a prediction has no map"),
        (Unmeasured, r"loudness was asked for, exact_match computed"),
        (Boundless, r"with limit=1 there are 7 outputs"),
        (Resting, r"do not change the network: a network in training was left in eval"),
        (Forgetful, r"its files restore it: the files of the restored task differ"),
        (Wandering, r"its files restore it: files must be plain names and texts: \['vocabulary/"),
        (Dumb, r"its examples can be predicted: it shows no examples"),
    ],
)
def test_a_broken_promise_is_named(task, message):
    with pytest.raises(ContractBroken, match=f"(?s){task.__name__} breaks .*{message}"):
        check_task(task, DATA, "rnnsearch", SMALL)


class Miscounting(Classify):
    def logits_of(self, network, corpus):
        return super().logits_of(network, corpus)[:, 1:]


class Misnumbering(Classify):
    def logits_of(self, network, corpus):
        return super().logits_of(network, corpus).roll(1, -1)


class Sampled(Classify):
    def check_search(self, how):
        pass


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Classify, None),
        (Miscounting, r"capabilities work: logits_of: expected \[7, 3\], found \[7, 2\]"),
        (Misnumbering, r"capabilities work: the largest logits are those of \["),
        (Sampled, r"it samples, though it does not derive from Searches"),
    ],
)
def test_a_broken_capability_is_named(task, message):
    data = LabelledData(source="opinions", opinions=Opinions(train=23, valid=5, test=7))
    expected = nullcontext() if message is None else pytest.raises(ContractBroken, match=f"(?s){message}")
    with expected:
        check_task(task, data, "attentive_classifier", attentive_classifier.Config(5, encoder="gru", hidden=4))


def test_what_does_not_derive_from_the_contract_is_not_a_task():
    with pytest.raises(ContractBroken, match=r"does not derive from saccade\.task\.Task"):
        check_task(PairData, DATA, "rnnsearch", SMALL)


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_task_that_keeps_its_promises_passes_with_inputs_and_metrics_of_its_own():
    assert len(check_task(Short, DATA, "rnnsearch", SMALL, inputs=["101"], metrics=["cer"])) == 16

"""The task classify: records become rows, a network says labels, and what it looked at is labelled with the words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import saccade
from saccade.data.labels.batch import IGNORED
from saccade.data.labels.records import Labelled, LabelledData
from saccade.data.toy.opinions import Opinions, deciding
from saccade.errors import InputError, SaccadeError
from saccade.models.attentive_classifier import AttentiveClassifier, Config
from saccade.nn.classifier import Classifier
from saccade.nn.search.beam_search import Sampling, Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.classify import Classify
from saccade.testing import check_task
from saccade.trace import Lens, Mask
from saccade.trace.lens import Site
from saccade.training.config import Train
from saccade.training.graphs import Graphs
from tests.training.recorders import Repeater

SMALL = Config(5, encoder="gru", hidden=4)
SINGLE = [Labelled(f"word{n % 5} word{n % 7} end", "pos" if n % 5 < 2 else "neg") for n in range(40)]
PAIRS = [Labelled((f"a{n % 3} b{n % 5}", f"a{n % 4}"), "same" if n % 3 == n % 4 else "other") for n in range(40)]


def task(records=SINGLE, **fields) -> Classify:
    return Classify.learn(LabelledData(train="x", **fields), records)


def network(of: Classify, config: Config = SMALL) -> AttentiveClassifier:
    made = of.network(AttentiveClassifier, config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made.eval()


class Marked(Classifier):
    """A network that wants the marks, as BERT does, and looks at every position from every other."""

    config_class = Config
    layout = "marked"
    sites = (Site("self", query="text", key="text"),)
    longest = 9

    def __init__(self, config: Config, vocabulary: int, classes: int) -> None:
        super().__init__()
        from saccade.nn import MultiHead

        self.embedding, self.types = nn.Embedding(vocabulary, 6), nn.Embedding(2, 6)
        self.heads, self.output = MultiHead(6, 2), nn.Linear(6, classes)

    def forward(self, tokens, lengths, segments=None, *, lens=None):
        from saccade.attention.windows import padding

        segments = torch.zeros_like(tokens) if segments is None else segments
        x = self.embedding(tokens) + self.types(segments)
        return self.output(self.heads(x, window=padding(lengths), lens=lens, site=self.sites[0])[:, 0])


@pytest.mark.parametrize("config", [SMALL, Config(5, hidden=4, pool="mean")], ids=["looking", "not looking"])
def test_the_task_keeps_every_promise_of_a_task(config) -> None:
    data = LabelledData(source="opinions", opinions=Opinions(train=37, valid=5, test=7))
    check_task(Classify, data, AttentiveClassifier, config)


def test_it_does_so_with_pairs_and_with_a_network_that_wants_marks(tmp_path) -> None:
    lines = "".join(f"{a}\t{b}\t{label}\n" for (a, b), label in ((each.source, each.target) for each in PAIRS))
    (tmp_path / "x.tsv").write_text(f"text\tother\tlabel\n{lines}")
    columns = saccade.data.labels.records.LabelColumns(second="other")
    data = LabelledData(train="x.tsv", columns=columns, hold_out=0.2, max_length=6)
    for kind in (AttentiveClassifier, Marked):
        check_task(Classify, data, kind, SMALL, folder=tmp_path)


# Loss -----------------------------------------------------------------------------------------------------------------


def test_the_loss_is_the_cross_entropy_of_the_labels() -> None:
    of = task()
    made, corpus = network(of), of.corpus(SINGLE, "data.train")
    loss = of.loss(made, of.batch(corpus, [0, 3, 7]))
    expected = -sum(math.log(each.probabilities[record.target]) for each, record in said(of, made, [0, 3, 7]))
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5) and loss.count == 3


def said(of: Classify, made, numbers):
    records = [SINGLE[number] for number in numbers]
    return list(zip(of.predict(made, [record.source for record in records], how=Search()), records))


def test_balance_weighs_a_label_by_how_rare_it_is() -> None:
    plain, balanced = task(), task(balance="weights")
    made = network(plain)
    weights = dict(zip(balanced.classes.names, balanced.classes.weights))
    assert weights["neg"] < 1 < weights["pos"]
    corpus = plain.corpus(SINGLE, "data.train")
    for number in (0, 3):
        batch = plain.batch(corpus, [number])
        ratio = float(balanced.loss(made, batch).total.detach() / plain.loss(made, batch).total.detach())
        assert ratio == pytest.approx(weights[SINGLE[number].target], rel=1e-5)


def test_a_run_that_begins_from_another_weighs_labels_by_its_own_records() -> None:
    first = task(balance="weights")
    other = [replace(record, target="neg" if record.target == "pos" else "pos") for record in SINGLE]
    then = Classify.continue_from(first.data, other, first.files())
    assert then.classes.names == first.classes.names and then.tokenizer.size == first.tokenizer.size
    assert then.classes.weights == first.classes.weights[::-1] != first.classes.weights
    unknown = Classify(first.data, first.tokenizer, replace(first.classes, counts=(0, 0)))  # as a network taken over
    then = Classify.continue_from(first.data, SINGLE, unknown.files())
    assert then.classes == first.classes
    assert "data.train" in then.corpus(SINGLE, "data.train").note


def test_a_bucket_is_not_wider_than_the_longest_row() -> None:
    of = task([Labelled("w " * 27, "a"), Labelled("v " * 27, "b")], max_length=27)
    batch = of.batch(of.corpus([Labelled("w " * 27, "a")], "x"), [0])
    assert batch.text.shape[1] == 29 and batch.bucketed().text.shape[1] == 29


def test_rows_that_fill_a_bucket_up_weigh_nothing() -> None:
    of = task(PAIRS)
    made = of.network(AttentiveClassifier, SMALL).eval()
    batch = of.batch(of.corpus(PAIRS, "x"), [0, 1, 2])
    wide = batch.bucketed()
    assert (wide.labels == IGNORED).sum() == 5
    torch.testing.assert_close(of.loss(made, wide).total, of.loss(made, batch).total)
    assert of.loss(made, wide).count == batch.tokens == 3


@pytest.mark.parametrize("records", [SINGLE, PAIRS], ids=["single", "pairs"])
def test_recorded_updates_have_the_gradients_of_live_ones(records) -> None:
    of = task(records, balance="weights")
    made, corpus, said = of.network(AttentiveClassifier, SMALL), of.corpus(records, "x"), list[str]()
    recorder = Repeater()
    graphs = Graphs(recorder, of, made, Train(), backward=lambda mean: mean.backward(), say=said.append)
    for numbers in ([0, 1, 2], [3, 4, 5, 6, 7]):  # one shape: the first is recorded, the second repeats it
        batch = of.batch(corpus, numbers)
        with recorder.entered():
            mean = graphs.gradient(batch)
        found = {
            name: parameter.grad.clone() for name, parameter in made.named_parameters() if parameter.grad is not None
        }
        made.zero_grad(set_to_none=True)
        live = of.loss(made, batch).mean
        live.backward()
        torch.testing.assert_close(mean, live.detach())
        for name, parameter in made.named_parameters():
            if parameter.grad is not None:
                torch.testing.assert_close(found[name], parameter.grad)
    assert (recorder.recorded, recorder.repeated, said) == (1, 2, [])


def test_what_means_nothing_to_a_classifier_is_refused() -> None:
    of = task()
    made, corpus = network(of), of.corpus(SINGLE, "x")
    with pytest.raises(InputError, match=r"train\.sampling: expected 0.*found 0\.5"):
        read_recipe("attentive_opinions", ["train.sampling=0.5"])
    with pytest.raises(SaccadeError, match=r"search\.sample: expected nothing: the task classify"):
        of.predict(made, ["a"], how=Search(sample=Sampling()))
    with pytest.raises(InputError, match="expected any of accuracy, f1, relation_f1, ece, brier, nll, found 'bleu'"):
        of.evaluate(made, corpus, how=Search(), metrics=["bleu"])
    with pytest.raises(InputError, match="a network that classifies texts"):
        of.network(nn.Linear, None)


# Over-long texts and strange labels -----------------------------------------------------------------------------------


def test_long_texts_are_refused_or_cut_and_reported() -> None:
    long = [Labelled("one two three four five", "pos"), Labelled("six", "neg")]
    with pytest.raises(
        InputError, match=r"data\.train, record 1 \('one two three four five'\): expected at most 3 tokens"
    ):
        task(long, max_length=3).corpus(long, "data.train")
    first, last = (task(long, max_length=3, too_long="truncate", keep=keep) for keep in ("first", "last"))
    corpus = last.corpus(long, "data.train")
    assert corpus.cut == "data.train: 1 of 2 texts cut to their last 3 tokens"
    assert corpus.note == "data.train: neg 1 (50.0 %), pos 1 (50.0 %); 1 of 2 texts cut to their last 3 tokens"
    made = network(last)
    found = last.predict(made, [long[0].source], how=Search(), lens=Lens())[0]
    assert found.notes == ("cut to its last 3 tokens",)
    assert found.trace.axes["text"].labels == ("three", "four", "five")
    assert first.predict(made, [long[0].source], how=Search(), lens=Lens())[0].trace.axes["text"].labels[0] == "one"
    assert last.evaluate(made, corpus, how=Search(), metrics=["accuracy"]).notes == (corpus.cut,)


def test_a_network_that_reads_fewer_positions_than_the_recipe_allows_is_refused() -> None:
    with pytest.raises(InputError, match=r"data\.max_length: expected at most 7: .* has 9 positions.*found 8"):
        task(max_length=8).network(Marked, SMALL)
    task(max_length=7).network(Marked, SMALL)
    with pytest.raises(InputError, match="expected at most 6"):
        task(PAIRS, max_length=7).network(Marked, SMALL)


def test_counts_and_imbalance_are_reported_when_training_begins() -> None:
    few = [Labelled(f"w{n}", "rare" if n < 2 else "often") for n in range(20)]
    note = task(few).corpus(few, "data.train").note
    assert note == "data.train: often 18 (90.0 %), rare 2 (10.0 %); data.balance: weights makes every label count alike"
    assert task(few, balance="weights").corpus(few, "data.train").note.endswith("every label counts alike in the loss")
    assert task(few).corpus(few, "data.test").note == "data.test: often 18 (90.0 %), rare 2 (10.0 %)"
    assert task(few).corpus(few[2:], "data.test").note == "data.test: often 18 (100.0 %); none of rare"


def test_a_listed_label_that_training_lacks_is_reported_when_training_begins() -> None:
    few = [Labelled(f"w{n}", "rare" if n < 2 else "often") for n in range(20)]
    listed = task(few, labels=("rare", "never", "often"))
    note = listed.corpus(few, "data.train").note
    assert "; none of never; data.balance: weights" in note
    assert "none of" not in task(few).corpus(few, "data.train").note


def test_a_label_that_training_lacks_is_refused_unless_it_is_listed() -> None:
    strange = [*SINGLE, Labelled("w", "new")]
    with pytest.raises(
        InputError,
        match=r"data\.test, record 41 \('w'\): expected a label of the training records \(neg, pos\), found 'new'",
    ):
        task().corpus(strange, "data.test")
    listed = task(labels=("pos", "neg", "new"))
    assert listed.targets_of(listed.corpus(strange, "data.test"))[-1] == 2
    assert listed.classes.weights[2] == 0.0


def test_a_batch_too_small_for_a_record_is_reported() -> None:
    of = task()
    with pytest.raises(SaccadeError, match=r"record 1 \('\S.*'\) does not fit into a batch of 4 tokens: it takes 5"):
        of.plan(of.corpus(SINGLE, "x"), tokens=4, records=None, seed=1, epoch=0)
    assert max(map(len, of.plan(of.corpus(SINGLE, "x"), tokens=15, records=None, seed=1, epoch=0))) == 3


# Predictions ----------------------------------------------------------------------------------------------------------


def test_a_prediction_has_a_label_and_the_probability_of_every_label() -> None:
    of = task()
    made = network(of)
    found = of.predict(made, ["word1 strange"], how=replace(Search(), beam=2, n_best=2))[0]
    assert next(iter(found.probabilities)) == found.value and set(found.probabilities) == {"pos", "neg"}
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.score == found.probabilities[found.value] and found.log_prob == pytest.approx(
        math.log(found.score), abs=1e-5
    )
    assert [each.value for each in found.alternatives] == list(found.probabilities)[1:]
    assert found.notes == ("1 of 2 tokens not in the vocabulary",)


def test_a_pair_is_a_tuple_or_a_text_with_a_tab() -> None:
    of = task(PAIRS)
    made = network(of)
    two = of.predict(made, [("a1 b1", "a1"), "a1 b1\ta1"], how=Search())
    assert two[0].probabilities == two[1].probabilities
    with pytest.raises(InputError, match=r"input 1: expected two texts, as in training, found 1 text\(s\).*tab"):
        of.predict(made, ["a1 b1"], how=Search())
    with pytest.raises(InputError, match="input 1: expected a text, found whitespace only"):
        of.predict(made, [("a", " ")], how=Search())
    with pytest.raises(InputError, match="input 1: expected a text, found tuple"):
        task().predict(network(task()), [("a", "b")], how=Search())


def test_the_trace_of_a_pair_names_the_words_of_both_and_the_mark_between() -> None:
    of = task(PAIRS)
    trace = of.predict(network(of), [("a1 b9", "a2")], how=Search(), lens=Lens(detail=["outputs", "state"]))[0].trace
    text = trace.axes["text"]
    assert text.labels == ("a1", "b9", "<eos>", "a2") and text.special == (2,)
    assert [text.text[a:b] for a, b in text.spans] == ["a1", "b9", "", "a2"]
    assert trace.map("pool").weights.shape == (1, 4) and len(trace.axes["label"]) == 1
    assert trace.outputs.probability.sum() == pytest.approx(1.0) and trace.signals["encoder.state"].values.shape[0] == 4


def test_a_network_that_wants_marks_gets_them_in_its_trace_too() -> None:
    of = task(max_length=7)
    made = of.network(Marked, SMALL).eval()
    trace = of.predict(made, ["word1 end", "word2 word3 word4 end"], how=Search(), lens=Lens())[0].trace
    assert trace.axes["text"].labels == ("<bos>", "word1", "end", "<eos>") and trace.axes["text"].special == (0, 3)
    assert {tuple(map.weights.shape) for map in trace.maps} == {(4, 4)} and len(trace.maps) == 2


def test_an_edit_that_never_applies_is_reported() -> None:
    of = task()
    with pytest.raises(SaccadeError, match="never applied"):
        of.predict(network(of), ["word1"], how=Search(), lens=Lens(edits=[Mask(site="elsewhere", keys=(0,))]))


# The whole way --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_unchecked):
    changes = {"train": {"epochs": 2, "threads": 1, "device": "cpu"}, "data.opinions": {"train": 2500, "test": 200}}
    return saccade.train(
        read_recipe("attentive_opinions", changes=changes), folder=tmp_path_factory.mktemp("run") / "run"
    )


def test_it_learns_the_rule_and_looks_where_the_deciding_word_is(trained) -> None:
    assert trained.figures["test"]["accuracy"] > 0.9
    records = trained.records_of(None)[0][:100]
    near = 0.0
    for record, found in zip(records, trained.predict([record.source for record in records], lens=Lens())):
        axis, weights = found.trace.axes["text"], found.trace.map("pool").weights[0]
        place = [start for start, _ in axis.spans].index(deciding(record.source)[0])
        near += float(weights[max(0, place - 2) : place + 3].sum())
    assert near / 100 > 0.9  # five words of twenty and more; states of the words beside it know the word too


def test_a_bundle_keeps_the_labels_and_says_the_same(trained) -> None:
    again = saccade.load(trained.folder, device="cpu")
    kept = json.loads((Path(trained.folder) / "labels.json").read_text())
    assert kept["labels"] == ["blame", "neither", "praise"] and sum(kept["counts"]) == 2500
    text = "about the cake : i found it dull ."
    assert again.predict(text)[0].probabilities == trained.predict(text)[0].probabilities
    assert again.evaluate([("about the cake : i found it dull .", "blame")]) == {"accuracy": 1.0, "f1": 1.0}


def test_records_in_hand_train_and_a_run_begins_from_another(trained, tmp_path, shapes_unchecked) -> None:
    words = {"blame": ("dull", "awful"), "praise": ("superb", "lovely"), "neither": ("plain", "usual")}
    rows = [(f"about the cake : i found it {word} .", label) for label in words for word in words[label] * 9]
    recipe = read_recipe(
        "attentive_opinions", changes={"train": {"from": str(trained.folder), "epochs": 1, "device": "cpu"}}
    )
    found = saccade.train(recipe, rows, folder=tmp_path / "next")
    assert found.task.classes.names == trained.task.classes.names
    assert found.predict("about the cake : i found it dull .")[0].value == "blame"
    assert sum(found.task.classes.counts) < len(rows)  # its own records, less those that were held out


def test_a_trace_of_a_pair_says_how_to_ask_again(tmp_path) -> None:
    changes = {"train": {"epochs": 1, "updates": 1, "device": "cpu"}, "data.contrasts": {"train": 40, "test": 5}}
    bundle = saccade.train(read_recipe("atae_aspects", changes=changes), folder=tmp_path / "run")
    given = bundle.examples(1)[0]
    about = bundle.predict([given], lens=Lens())[0].trace.about
    assert about["input"] == given.replace("\t", "\n")
    assert bundle.predict([about["asked"]], lens=Lens())[0].trace.about == about

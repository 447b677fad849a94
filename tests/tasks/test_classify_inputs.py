"""Texts that are read sentence by sentence: from the recipe to the batch, the loss, the prediction and the nested trace."""

from __future__ import annotations

import pytest
import torch

import saccade
from saccade.data.labels.records import LabelColumns, Labelled, LabelledData
from saccade.data.tokenizers.sentences import Nesting
from saccade.data.toy.needles import Needles, deciding
from saccade.errors import InputError, SaccadeError
from saccade.explain import erasure
from saccade.models.attentive_classifier import AttentiveClassifier
from saccade.models.attentive_classifier import Config as Attentive
from saccade.models.han import Config, Han
from saccade.nn.search.beam_search import Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.classify import Classify
from saccade.testing import check_task
from saccade.trace import Boost, Lens, Mask
from saccade.training.config import Train
from saccade.training.graphs import Graphs
from tests.training.recorders import Repeater

SMALL = Config(5, hidden=4)
TEXTS = [
    Labelled(f"We came. It was {'good' if n % 3 else 'bad'} on day {n % 5}! Why?", "pos" if n % 3 else "neg")
    for n in range(40)
]


def task(records=TEXTS, *, most: int = 9, words: int = 9, **fields) -> Classify:
    return Classify.learn(LabelledData(train="x", sentences=Nesting(most, words), **fields), records)


def network(of: Classify, config: Config = SMALL) -> Han:
    torch.manual_seed(1)
    made = of.network(Han, config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    return made.eval()


@pytest.mark.parametrize("pool", ["attention", "max"])
def test_the_task_keeps_every_promise_of_a_task(pool) -> None:
    needles = Needles(train=37, valid=5, test=7, sentences=3, words=4)
    data = LabelledData(source="needles", needles=needles, sentences=Nesting(9, 9))
    check_task(Classify, data, Han, Config(5, hidden=4, pool=pool))


def test_a_text_becomes_its_sentences() -> None:
    of = task()
    corpus = of.corpus(TEXTS[:2], "data.train")
    assert [[of.tokenizer.decode(each) for each in document] for document, _ in corpus.rows] == [
        ["We came .", "It was bad on day 0 !", "Why ?"],
        ["We came .", "It was good on day 1 !", "Why ?"],
    ]
    batch = of.batch(corpus, [1, 0])
    assert batch.text.shape == (2, 3, 7) and batch.lengths.tolist() == [[3, 7, 2]] * 2 and batch.tokens == 2


def test_a_long_sentence_becomes_several_and_a_long_text_is_cut_and_reported() -> None:
    text = "One two three four five six. Seven eight! Nine."
    long = [Labelled(text, "pos"), Labelled("Ten.", "neg")]
    of = task(long, words=4)
    made = network(of)
    assert of.corpus(long, "x").cut == ""  # nothing is lost
    found = of.predict(made, [text], how=Search(), lens=Lens())[0]
    assert found.notes == ()
    assert found.trace.axes["sentences"].labels == ("One two three four", "five six.", "Seven eight!", "Nine.")
    with pytest.raises(
        InputError, match=r"record 1 \('One .*…'\): expected at most 2 sentences, found 3.*sentences\.most: 3"
    ):
        task(long, most=2).corpus(long, "data.train")
    first, last = (task(long, most=2, max_length=6, too_long="truncate", keep=keep) for keep in ("first", "last"))
    corpus = last.corpus(long, "data.train")
    assert corpus.cut == "data.train: 1 of 2 texts cut to their last 6 tokens and 2 sentences"
    for of, labels in ((first, ("One two three four five six",)), (last, ("Seven eight!", "Nine."))):
        found = of.predict(network(of), [text], how=Search(), lens=Lens())[0]
        assert found.trace.axes["sentences"].labels == labels
        assert found.notes == (f"cut to its {of.data.keep} 6 tokens and 2 sentences",)


def test_networks_and_data_must_agree_on_sentences() -> None:
    with pytest.raises(
        InputError, match=r"data\.sentences: expected \{most: 50.*han reads a text sentence by sentence"
    ):
        Classify.learn(LabelledData(train="x"), TEXTS).network(Han, SMALL)
    with pytest.raises(
        InputError, match=r"data\.sentences: expected nothing: attentive_classifier.*found \{most: 9, words: 9\}"
    ):
        task().network(AttentiveClassifier, Attentive(4))
    with pytest.raises(ValueError, match="sentences must be left out where records are pairs"):
        LabelledData(train="x", sentences=Nesting(), columns=LabelColumns(second="other"))


def test_the_trace_nests_words_in_sentences() -> None:
    of = task(words=20)
    text = "We came.  It was\nbad… <br /><br />Why strange?"
    found = of.predict(network(of), [text, "Why?"], how=Search(), lens=Lens(detail=["state", "outputs", "context"]))[0]
    trace = found.trace
    words, sentences = trace.axes["text"], trace.axes["sentences"]
    assert sentences.labels == ("We came.", "It was bad… <br /><br />", "Why strange?")
    assert words.parent == "sentences" and [words.text[a:b] for a, b in words.spans] == list(words.labels)
    assert (
        words.labels[:6] == ("We", "came", ".", "It", "was", "bad") and words.within == (0,) * 3 + (1,) * 12 + (2,) * 3
    )
    maps = {map.site: (map.query, map.key, tuple(map.weights.shape)) for map in trace.maps}
    assert maps == {"words": ("sentences", "text", (3, 18)), "sentences": ("label", "sentences", (1, 3))}
    inside = torch.tensor(words.within) == torch.arange(3).unsqueeze(1)
    assert torch.equal(trace.map("words").weights > 0, inside)
    assert trace.signals["words.state"].values.shape[0] == 18 and trace.signals["sentences.state"].values.shape[0] == 3
    assert found.notes == ("10 of 18 tokens not in the vocabulary",)
    assert trace.last_look == "sentences"


def test_a_document_is_judged_alike_alone_and_among_others() -> None:
    of = task(too_long="truncate", max_length=30)
    made = network(of)
    texts = [TEXTS[0].source, "Why? " * 9, "good", TEXTS[1].source * 3]
    for text, found in zip(texts, of.predict(made, texts, how=Search()), strict=True):
        alone = of.predict(made, [text], how=Search())[0].probabilities
        assert alone == pytest.approx(dict(found.probabilities), abs=1e-6)


def test_edits_speak_of_words_of_the_text_and_of_sentences() -> None:
    of = task()
    made, text = network(of), TEXTS[0].source

    def under(*edits):
        return of.predict(made, [text], how=Search(), lens=Lens(edits=edits))[0]

    plain = under()
    hidden = under(Mask(site="words", keys=(5,)))
    assert hidden.trace.map("words").weights[1, 5] == 0 and hidden.probabilities != plain.probabilities
    moved = under(Boost(site="sentences", keys=(2,), factor=1e6))
    assert moved.trace.map("sentences").weights[0, 2] > 0.99 and moved.probabilities != plain.probabilities
    with pytest.raises(SaccadeError, match="there are 12 keys"):
        under(Mask(site="words", keys=(99,)))


def test_a_text_of_nothing_that_counts_is_one_unknown_word() -> None:
    of = task()
    found = of.predict(network(of), ["\u200b"], how=Search(), lens=Lens())[0]
    assert len(found.trace.axes["text"]) == 1
    with pytest.raises(InputError, match="whitespace only"):
        of.predict(network(of), [" \n "], how=Search())


def test_what_fills_a_bucket_up_weighs_nothing() -> None:
    of = task()
    made, batch = network(of), of.batch(of.corpus(TEXTS, "x"), [0, 1, 2])
    wide = batch.bucketed()
    assert wide.text.shape == (8, 8, 8)
    torch.testing.assert_close(of.loss(made, wide).total, of.loss(made, batch).total)
    assert of.loss(made, wide).count == batch.tokens == 3


def test_recorded_updates_have_the_gradients_of_live_ones(monkeypatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # as on a GPU: nothing is asked of the lengths
    of = task()
    made, corpus, said = network(of).train(), of.corpus(TEXTS, "x"), list[str]()
    recorder = Repeater()
    graphs = Graphs(recorder, of, made, Train(), backward=lambda mean: mean.backward(), say=said.append)
    for numbers in ([0, 1, 2], [3, 4, 5, 6, 7]):
        batch = of.batch(corpus, numbers)
        with recorder.entered():
            mean = graphs.gradient(batch)
        found = {name: each.grad.clone() for name, each in made.named_parameters() if each.grad is not None}
        made.zero_grad(set_to_none=True)
        live = of.loss(made, batch).mean
        live.backward()
        torch.testing.assert_close(mean, live.detach())
        for name, parameter in made.named_parameters():
            torch.testing.assert_close(found[name], parameter.grad)
    assert (recorder.recorded, recorder.repeated, said) == (1, 2, [])


# The whole way --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_unchecked):
    sizes = {"train": 600, "valid": 60, "test": 100, "sentences": 3, "words": 4}
    changes = {"train": {"epochs": 6, "threads": 1, "device": "cpu"}, "data.needles": sizes}
    return saccade.train(read_recipe("han_needles", changes=changes), folder=tmp_path_factory.mktemp("run") / "run")


def test_it_finds_the_needle_at_both_levels(trained) -> None:
    assert trained.figures["test"]["accuracy"] > 0.9
    records = [record for record in trained.records_of(None)[0] if deciding(record.source)]
    right = 0
    for record, found in zip(records, trained.predict([each.source for each in records], lens=Lens()), strict=True):
        words = found.trace.axes["text"]
        place = [start for start, _ in words.spans].index(deciding(record.source)[0])
        sentence = words.within[place]
        right += int(found.trace.map("words").weights[sentence].argmax()) == place
        right += int(found.trace.map("sentences").weights[0].argmax()) == sentence
    assert right / (2 * len(records)) > 0.8


def test_without_the_needles_sentence_there_is_nothing_and_erasure_says_so(trained) -> None:
    text = "Gold kettle turns again. Narrow street opens early. Some feather keeps quiet."
    assert trained.predict(text)[0].value == "gold"
    assert trained.predict("Narrow street opens early. Some feather keeps quiet.")[0].value == "nothing"
    told = erasure.curve(saccade.load(trained.folder, device="cpu"), text)
    assert told["figures"]["drop, most looked at"] > told["figures"]["drop, least looked at"]

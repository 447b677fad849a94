"""The task label: sentences become rows, a network says tags, and what it looked at is labelled with the words and tags."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import saccade
from saccade.data.tags.records import Tagged, TaggedData, TagTokens
from saccade.data.tags.schemes import tags_with
from saccade.data.tags.tagset import Tags
from saccade.data.toy.repeats import Repeats, first_of
from saccade.errors import InputError, SaccadeError
from saccade.explain import erasure
from saccade.models.attentive_classifier import AttentiveClassifier
from saccade.models.attentive_tagger import AttentiveTagger, Config
from saccade.models.bert import BertTagger
from saccade.models.bert import Config as BertConfig
from saccade.nn.search.beam_search import Sampling, Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.label import Label, file_shares
from saccade.testing import check_task
from saccade.trace import Lens
from saccade.training.config import Train
from saccade.training.graphs import Graphs
from saccade.views.html.payload import page_data
from tests.training.recorders import Repeater

SMALL = Config(5, character_embedding=3, character_hidden=4, hidden=3, dropout=0.0)
SOFTMAX = replace(SMALL, output="softmax", characters="none")
TINY_BERT = BertConfig(layers=2, width=6, heads=2, feed_forward=8, positions=20, dropout=0.0, init=0.5)
RECORDS = [
    Tagged(
        (f"Name{n % 5}", f"of{n % 3}", "sits", f"in{n % 2}", f"Place{n % 4}")[: 3 + n % 3],
        ("B-PER", "I-PER" if n % 3 else "O", "O", "O", "B-LOC")[: 3 + n % 3],
    )
    for n in range(40)
]
BIOES = {"scheme": "bio", "learn": "bioes"}


def task(records=RECORDS, **fields) -> Label:
    return Label.learn(TaggedData(train="x", **{**BIOES, **fields}), records)


def network(of: Label, config=SMALL, kind=AttentiveTagger):
    torch.manual_seed(3)
    made = of.network(kind, config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made.eval()


def written(path: Path) -> None:
    path.write_text("\n\n".join("\n".join(map(" ".join, zip(each.source, each.target))) for each in RECORDS) + "\n")


# Promises ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SMALL, replace(SOFTMAX, attention="none")], ids=["crf", "softmax, not looking"])
def test_the_task_keeps_every_promise_of_a_task(config) -> None:
    data = TaggedData(source="repeats", repeats=Repeats(train=37, valid=5, test=7, again=3))
    check_task(Label, data, AttentiveTagger, config, metrics=["accuracy"])


def test_it_does_so_with_spans_in_parts_and_in_pieces_of_words(tmp_path) -> None:
    written(tmp_path / "x.conll")
    data = TaggedData(train="x.conll", **BIOES, hold_out=0.2, max_length=3, too_long="split")
    inputs = ["Name1 sits .", ["Name2", "of 1"]]
    check_task(Label, data, AttentiveTagger, SMALL, folder=tmp_path, inputs=inputs)
    pieces = replace(data, tokens=TagTokens(kind="bert", size=60), max_length=15)
    check_task(Label, pieces, BertTagger, TINY_BERT, folder=tmp_path, inputs=inputs)


# Loss -------------------------------------------------------------------------------------------------------------------


def test_the_loss_of_a_softmax_is_the_cross_entropy_of_the_tags() -> None:
    of = task(scheme="none", learn=None)
    made, corpus = network(of, SOFTMAX), of.corpus(RECORDS, "data.train")
    batch = of.batch(corpus, [0, 3, 5])
    loss = of.loss(made, batch)
    emissions, rows = of.emissions(made, batch)
    expected = sum(
        float(functional.cross_entropy(emissions[row, place].detach(), torch.tensor(tag)))
        for row, number in enumerate((0, 3, 5))
        for place, tag in enumerate(corpus.rows[number][0].tags)
    )
    assert loss.count == sum(len(RECORDS[number].source) for number in (0, 3, 5)) == int((rows.tags >= 0).sum())
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_a_sentence_that_is_refused_is_called_by_how_it_begins() -> None:
    with pytest.raises(
        InputError, match=r"data\.train, sentence 2 \('Name1 of1 sits in1'\): expected at most 3 tokens"
    ):
        task(max_length=3, too_long="error").corpus(RECORDS, "data.train")
    strange = [*RECORDS, Tagged(("an", "odd", "one"), ("O", "B-ODD", "O"))]
    with pytest.raises(InputError, match=r"data\.test, sentence 41 \('an odd one'\): expected one of the types"):
        task().corpus(strange, "data.test")


def test_a_split_sentence_is_learnt_from_in_all_its_parts() -> None:
    whole, split = task(max_length=9), task(max_length=2, too_long="split")
    made, long = network(whole), [RECORDS[2]]
    for of in (whole, split):
        loss = of.loss(made, of.batch(of.corpus(long, "x"), [0]))
        assert loss.count == 5 and math.isfinite(float(loss.total.detach()))
    assert split.batch(split.corpus(long, "x"), [0]).text.shape == (3, 4)


def test_batches_are_recorded_in_few_shapes_and_give_the_same_gradient() -> None:
    of = task()
    made, corpus, said = of.network(AttentiveTagger, SMALL), of.corpus(RECORDS, "x"), list[str]()
    recorder = Repeater()
    graphs = Graphs(recorder, of, made, Train(), backward=lambda mean: mean.backward(), say=said.append)
    for numbers in ([0, 3, 6], [9, 12, 15, 18, 21]):
        batch = of.batch(corpus, numbers)
        with recorder.entered():
            mean = graphs.gradient(batch)
        found = {name: each.grad.clone() for name, each in made.named_parameters() if each.grad is not None}
        made.zero_grad(set_to_none=True)
        live = of.loss(made, batch).mean
        live.backward()
        torch.testing.assert_close(mean, live.detach())
        for name, parameter in made.named_parameters():
            if parameter.grad is not None:
                torch.testing.assert_close(found[name], parameter.grad)
    assert (recorder.recorded, recorder.repeated, said) == (1, 2, [])


def test_what_means_nothing_to_a_tagger_is_refused() -> None:
    of = task()
    made = network(of)
    with pytest.raises(InputError, match=r"train\.sampling: expected 0.*label.*found 0\.5"):
        read_recipe("tagger_repeats", ["train.sampling=0.5"])
    with pytest.raises(SaccadeError, match=r"search\.n_best: expected 1: the task label"):
        of.predict(made, ["a"], how=Search(n_best=2, beam=2))
    with pytest.raises(SaccadeError, match=r"search\.sample: expected nothing: the task label"):
        of.predict(made, ["a"], how=Search(sample=Sampling()))
    with pytest.raises(InputError, match=r"model.name: expected a network that tags words.*'attentive_classifier'"):
        of.network(AttentiveClassifier, AttentiveClassifier.config_class())
    with pytest.raises(InputError, match=r"data.max_length: expected at most 18.*found 200"):
        task(tokens=TagTokens(kind="bert", size=60)).network(BertTagger, TINY_BERT)
    with pytest.raises(SaccadeError, match=r"characters"):
        task(tokens=TagTokens(kind="bert", size=60)).network(AttentiveTagger, SMALL)


# Predictions ------------------------------------------------------------------------------------------------------------


def test_an_illegal_sequence_is_never_predicted_and_tags_are_in_the_files_scheme() -> None:
    of = task()
    for config in (SMALL, replace(SMALL, output="softmax")):
        for each in of.predict(network(of, config), [record.source for record in RECORDS], how=Search()):
            assert all(tag[0] in "BIO" for tag in each.value)
            marked = {(span["first"], span["last"], span["type"]) for span in each.spans}
            assert len(marked) == sum(tag[0] == "B" for tag in each.value)


def test_a_text_is_cut_into_words_and_a_list_is_taken_as_it_is() -> None:
    of, made = task(), network(task())
    text, words, typed = of.predict(made, ["Name1 isn't (in)", ["Name1", "isn't"], '["Name1", "isn\'t"]'], how=Search())
    assert [token["text"] for token in text.tokens] == ["Name1", "isn", "'", "t", "(", "in", ")"]
    assert [(token["start"], token["end"]) for token in text.tokens][:3] == [(0, 5), (6, 9), (9, 10)]
    for each in (words, typed):
        assert [token["text"] for token in each.tokens] == ["Name1", "isn't"] and each.value == words.value
    assert len(words.value) == 2 and text.notes == ("6 of 7 tokens not in the vocabulary",)
    log_prob = sum(math.log(token["probability"]) for token in text.tokens)
    assert text.log_prob == pytest.approx(log_prob, rel=1e-4) and all(
        0 < token["probability"] <= 1 for token in text.tokens
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "expected a text, found nothing"),
        (" \t", "expected a text, found whitespace only"),
        ([], "expected words, each a text, found an empty list"),
        (["a", " "], "expected words, each a text, found ' '"),
        ('["a", 3]', "expected words, each a text, found 3"),
        (7, "expected a text or a list of words, found int"),
        ("a b c d", r"expected at most 3 tokens, found 4 \(set data.too_long"),
    ],
)
def test_inputs_that_cannot_be_read_are_named(given, message) -> None:
    of = task(max_length=3, records=[Tagged(("a", "b"), ("B-A", "O"))])
    with pytest.raises(InputError, match=f"input 2: {message}"):
        of.read(given, "input 2")
    with pytest.raises(InputError, match=f"input 1: {message}"):
        of.predict(network(of), [given], how=Search())


def test_a_long_input_is_tagged_in_parts_but_not_looked_at() -> None:
    of = task(max_length=2, too_long="split")
    made = network(of)
    found = of.predict(made, ["Name1 sits in Place1 now"], how=Search())[0]
    assert len(found.value) == 5 and "read in parts of at most 2 tokens" in found.notes
    with pytest.raises(InputError, match=r"input 2: expected at most 2 tokens under a lens.*found 5"):
        of.predict(made, ["Name1 sits", "Name1 sits in Place1 now"], how=Search(), lens=Lens())
    with pytest.raises(InputError, match=r"expected at most 2 tokens under a lens.*found 5"):
        of.scorer(made, "Name1 sits in Place1 now", None)


def test_examples_can_be_looked_at_and_those_that_can_be_typed_come_first() -> None:
    of = task(max_length=2, too_long="split")
    test = [Tagged(("U.N.", "of", "1"), ("B-A", "O", "O")), Tagged(("Name1", "sits", "in"), ("B-A", "O", "O"))]
    shown = of.examples(Path(), 1, test=test)
    assert shown == ["Name1 sits", '["U.N.", "of"]']
    assert len(of.predict(network(of), shown, how=Search(), lens=Lens())) == 2


# What it looked at --------------------------------------------------------------------------------------------------------


def test_the_trace_has_words_across_and_words_with_their_tags_down() -> None:
    of = task()
    found = of.predict(network(of), ["Name1 sits here"], how=Search(), lens=Lens(detail=["outputs", "state"]))[0]
    trace = found.trace
    one = trace.map("attention")
    assert (one.query, one.key) == ("tag", "text") and one.weights.shape == (3, 3)
    torch.testing.assert_close(one.weights.sum(-1), torch.ones(3))
    assert trace.axes["text"].labels == ("Name1", "sits", "here")
    assert trace.axes["tag"].labels == tuple(
        f"{word} [{tag}]" for word, tag in zip(("Name1", "sits", "here"), found.value)
    )
    assert trace.about["output"] == " ".join(found.value) and trace.last_look == "attention"
    assert trace.outputs.axis == "tag" and trace.outputs.probability.shape == (3, 5)  # O, B- and I- of two types
    torch.testing.assert_close(trace.outputs.probability.sum(-1), torch.ones(3))
    assert trace.signals["encoder.state"].axis == "text"


def test_pieces_and_marks_have_places_of_their_own_and_the_last_layer_leads_to_the_tags() -> None:
    of = task(tokens=TagTokens(kind="bert", size=60), max_length=15)
    made = network(of, TINY_BERT, BertTagger)
    found = of.predict(made, ["Name1 quits"], how=Search(), lens=Lens(detail=["outputs"]))[0]
    text, tag = found.trace.axes["text"], found.trace.axes["tag"]
    assert text.special == (0, len(text) - 1) and "".join(text.labels[1:-1]) == "Name1quits"
    assert len(found.value) == 2 and sum("[" in label and label not in ("[CLS]", "[SEP]") for label in tag.labels) == 2
    queries = {map.site: map.query for map in found.trace.maps}
    assert list(queries.values()) == ["text", "tag"] and len(found.trace.outputs.labels) == len(text)
    tagged = [place for place, tag in enumerate(found.trace.about["tags"]) if tag]
    assert [found.trace.about["tags"][place] for place in tagged] == found.value and len(tag) == len(text)
    likely = found.trace.outputs.labels
    assert [place for place, labels in enumerate(likely) if labels] == tagged, "marks and later pieces have no tag"
    assert erasure.curve(type("Bundle", (), {"task": of, "network": made}), "Name1 quits", found.value)["curves"]


def test_likely_tags_are_in_the_files_scheme_and_contain_the_prediction() -> None:
    of = task()
    made = network(of)
    asked = "Name1 of1 sits in1 Place2"
    found = of.predict(made, [asked], how=Search(), lens=Lens(detail=["outputs"]))[0]
    outputs = found.trace.outputs
    assert all(set(labels) == {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"} for labels in outputs.labels)
    torch.testing.assert_close(outputs.probability.sum(-1), torch.ones(5))
    assert (outputs.probability.diff(dim=-1) <= 0).all(), "the likeliest first"
    assert found.trace.about["tags"] == found.value
    for token, labels, shares in zip(found.tokens, outputs.labels, outputs.probability.tolist(), strict=True):
        told = dict(zip(labels, shares, strict=True))
        assert told[token["tag"]] >= token["probability"] - 1e-6, "it holds that of the learnt tag"


@pytest.mark.parametrize(
    ("scheme", "learn", "said", "expected"),
    [
        # What begins a span in BIOES begins one in BIO, whether it ends there or not; what goes on with one goes on.
        ("bio", "bioes", ["O", "S-X", "O"], {"O": 1, "B-X": 2 + 16, "I-X": 4 + 8}),
        # IOB1 marks a beginning only right after a span of the same type.
        ("iob1", "bioes", ["O", "S-X", "O"], {"O": 1, "B-X": 0, "I-X": 2 + 4 + 8 + 16}),
        ("iob1", "bioes", ["S-X", "S-X", "O"], {"O": 1, "B-X": 2 + 16, "I-X": 4 + 8}),
        # Whether a span of BIO ends at a word is for the next to say.
        ("bioes", "bio", ["O", "B-X", "O"], {"O": 1, "B-X": 0, "I-X": 0, "E-X": 4, "S-X": 2}),
        ("bioes", "bio", ["O", "B-X", "I-X"], {"O": 1, "B-X": 2, "I-X": 4, "E-X": 0, "S-X": 0}),
        ("bio", "bio", ["O", "B-X", "O"], {"O": 1, "B-X": 2, "I-X": 4}),
    ],
)
def test_shares_of_learnt_tags_that_become_the_same_are_added(scheme, learn, said, expected) -> None:
    tags = Tags(tuple(tags_with(["X"], learn)), (), scheme, learn)
    shares = 2.0 ** torch.arange(len(tags.names)).expand(3, -1)  # O, B, I and, of BIOES, E, S: 1, 2, 4, 8, 16
    names, told = file_shares(shares, said, tags)
    assert dict(zip(names, told[1].tolist(), strict=True)) == expected


def test_outputs_of_tags_come_back_from_a_file_and_lie_in_a_page(tmp_path) -> None:
    of = task(tokens=TagTokens(kind="bert", size=60), max_length=15)
    made = network(of, TINY_BERT, BertTagger)
    trace = of.predict(made, ["Name1 quits"], how=Search(), lens=Lens(detail=["outputs"]))[0].trace
    trace.save(tmp_path / "x.trace")
    assert saccade.Trace.load(tmp_path / "x.trace").outputs.labels == trace.outputs.labels
    (page,) = page_data(trace).header["traces"]
    assert page["outputs"]["labels"][0] == [] and page["about"]["tags"] == trace.about["tags"]


# Figures ------------------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_what_is_predicted() -> None:
    of = task()
    made = network(of)
    corpus = of.corpus(RECORDS, "test")
    found = of.evaluate(made, corpus, how=Search(), metrics=of.metrics)
    said = [each.value for each in of.predict(made, [record.source for record in RECORDS], how=Search())]
    assert [output.split() for output in found.outputs] == said
    right = sum(one == other for tags, record in zip(said, RECORDS) for one, other in zip(tags, record.target))
    assert found.figures["accuracy"] == pytest.approx(right / sum(len(record.source) for record in RECORDS))
    assert set(found.details) >= {"PER", "LOC"} and found.notes[0].startswith("f1 by type (spans): PER")
    assert found.signatures["f1"] == "spans, micro" and all(found.higher_is_better.values())


def test_parts_of_a_sentence_are_judged_as_the_whole() -> None:
    of = task(max_length=2, too_long="split")
    found = of.evaluate(network(of), of.corpus(RECORDS, "test"), how=Search(), metrics=["f1"])
    assert [len(output.split()) for output in found.outputs] == [len(record.source) for record in RECORDS]
    assert "sentences read in parts of at most 2 tokens" in found.notes[0]


def test_spans_have_figures_only_where_tags_mark_some() -> None:
    of = task(scheme="none", learn=None)
    with pytest.raises(
        InputError, match=r"metrics: expected any of accuracy, found 'f1' \(f1, precision and recall are of"
    ):
        of.check_metrics(["accuracy", "f1"])
    found = of.evaluate(network(of), of.corpus(RECORDS, "x"), how=Search(), metrics=["accuracy"])
    assert found.notes[0].startswith("most often confused: ") and "O" in found.details


def test_a_run_asks_before_it_trains_whether_its_metrics_can_be(tmp_path) -> None:
    recipe = read_recipe("tagger_repeats", changes={"metrics": ["f1"], "train.watch": "f1", "train.device": "cpu"})
    with pytest.raises(InputError, match=r"tagger_repeats\.yaml: metrics\[0\]: expected any of accuracy, found 'f1'"):
        saccade.train(recipe, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# The whole way --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_unchecked):
    train = {"epochs": 3, "threads": 1, "device": "cpu"}
    repeats = {"train": 1000, "valid": 50, "test": 50, "words": 12, "most": 5, "again": 6}
    recipe = read_recipe("tagger_repeats", changes={"train": train, "data.repeats": repeats})
    return saccade.train(recipe, folder=tmp_path_factory.mktemp("run") / "run")


def test_it_learns_to_look_at_earlier_mentions(trained) -> None:
    assert trained.figures["test"]["accuracy"] > 0.9
    words = ["kefo", "2", "kelu", "0", "kemi", "1", "kera", "3", "kemi", "kefo", "kera"]
    found = trained.predict([words], lens=Lens())[0]
    weights = found.trace.map("attention").weights
    for place in (8, 9, 10):
        first = first_of(words, place)
        others = [weights[place, other] for other in range(len(words)) if words[other] != words[place]]
        assert weights[place, first] > 2 * max(others)
    assert found.value[8:] == ["B", "C", "D"]


def test_a_bundle_keeps_words_and_tags_and_says_the_same(trained) -> None:
    again = saccade.load(trained.folder, device="cpu")
    kept = json.loads((Path(trained.folder) / "labels.json").read_text())
    assert kept["tags"] == ["A", "B", "C", "D"] and kept["scheme"] == "none"
    text = "kefo 2 kelu 0 kefo"
    assert again.predict(text)[0].tokens == trained.predict(text)[0].tokens
    assert again.evaluate([(["kefo", "2", "kefo"], ["C", "C", "C"])]) == {"accuracy": 1.0}
    assert again.examples(2)[0].startswith("kefo 2")


def test_a_run_begins_from_another_and_from_records_in_hand(trained, tmp_path, shapes_unchecked) -> None:
    rows = [(["kefo", str(n % 4), "kefo"], ["ABCD"[n % 4]] * 3) for n in range(24)]
    rows += [([f"kelu{n}", "0"], ["A", "A"]) for n in range(8)]
    changes = {"train": {"from": str(trained.folder), "epochs": 1, "device": "cpu"}}
    found = saccade.train(read_recipe("tagger_repeats", changes=changes), rows, folder=tmp_path / "next")
    assert found.task.tags.names == trained.task.tags.names
    assert found.predict([["kefo", "1", "kefo"]])[0].value == ["B", "B", "B"]


def test_hiding_what_was_looked_at_costs_the_tags(trained) -> None:
    found = erasure.curve(trained, "kefo 2 kelu 0 kemi 1 kera 3 kemi kefo kera", draws=3)
    assert found["figures"]["drop, most looked at"] > found["figures"]["drop, at random"]
    assert "at each step" in found["sentence"]


def test_a_run_begun_from_another_keeps_its_tags_unless_new_ones_are_met() -> None:
    first = task(scheme="none", learn=None)
    met = sorted({tag for record in RECORDS for tag in record.target})
    some = [Tagged(record.source, (met[0],) * len(record.source)) for record in RECORDS]
    assert Label.continue_from(first.data, some, first.files()).labels == first.labels
    new = [*RECORDS, Tagged(("alpha",), ("X-new",))]
    then = Label.continue_from(first.data, new, first.files())
    assert set(then.labels) == {*met, "X-new"}
    assert then.sizes()["labels"] == len(then.labels) == then.sizes(more=1)["labels"] - 1
    assert then.tokenizer.size == first.tokenizer.size
    listed = Label.continue_from(replace(first.data, labels=(*met, "Y")), RECORDS, first.files())
    assert set(listed.labels) == {*met, "Y"}


def test_the_scheme_is_the_new_runs_own_and_what_is_learnt_otherwise_starts_again() -> None:
    first = task()  # bio, learnt as bioes
    marked = Label.continue_from(replace(first.data, scheme="bioes", learn=None), RECORDS, first.files())
    assert (marked.tags.scheme, marked.tags.learn, marked.labels) == ("bioes", "bioes", first.labels)
    plain = [Tagged(record.source, ("NOUN", *["VERB"] * (len(record.source) - 1))) for record in RECORDS]
    speech = Label.continue_from(replace(first.data, scheme="none", learn=None), plain, first.files())
    assert (speech.tags.scheme, speech.labels) == ("none", ("NOUN", "VERB"))
    simple = Label.continue_from(replace(first.data, learn=None), RECORDS, first.files())
    assert simple.tags.learn == "bio" and set(simple.labels) == {"O", "B-LOC", "B-PER", "I-LOC", "I-PER"}


def test_what_the_vocabulary_lacks_is_counted() -> None:
    first = task()
    corpus = first.corpus([Tagged(("Name1", "Zeppelin", "sits"), ("B-PER", "I-PER", "O"))], "data.train")
    (note,) = first.unknown_tokens(corpus)
    assert "1 of 3 tokens" in note and "not in the vocabulary" in note
    assert first.unknown_tokens(first.corpus(RECORDS, "data.train")) == []

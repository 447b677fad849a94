"""The task vectors: pairs, the loss, nearest words, figures, and a run that goes on exactly."""

import json
import math
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from saccade import api
from saccade.data.texts.masking import Visit
from saccade.data.texts.records import CommonWords, Text, WordData
from saccade.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from saccade.data.toy.topics import Topics
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.models.bert import Bert
from saccade.models.bert import Config as BertConfig
from saccade.models.skipgram import Config, Skipgram
from saccade.nn.search.beam_search import Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.vectors import WordVectors, neighbours
from saccade.trace import Lens
from saccade.training import stepping
from saccade.training.config import Train
from tests.training.recorders import Repeater
from tests.training.test_loop import StopAt, assert_same_run

TOKENS = CommonWords(size=300, min_count=1)
DATA = WordData(source="topics", topics=Topics(train=40, valid=7, test=9), tokens=TOKENS, window=3, negatives=2)
SMALL = (
    "data.topics.train=60", "data.topics.valid=9", "data.topics.test=9", "model.embedding=5", "train.epochs=3",
    "train.batch_tokens=200", "train.device=cpu", "train.save_every=2",
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("module_unchecked")


@pytest.fixture(scope="module")
def task() -> WordVectors:
    return WordVectors.learn(DATA, WordVectors.load(DATA, Path(), 1).train)


@pytest.fixture
def network(task) -> Skipgram:
    made = task.network(Skipgram, Config(5))
    torch.nn.init.normal_(made.embedding.weight)
    torch.nn.init.normal_(made.context.weight)
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return api.train(small(), folder=tmp_path_factory.mktemp("runs") / "whole").folder


def small(*more: str):
    return read_recipe("skipgram_topics", [*SMALL, *more])


def of(*texts: str, **changes) -> WordVectors:
    data = replace(DATA, source=None, train="-", **changes)
    return WordVectors.learn(data, [Text(text) for text in texts])


def test_counts_are_those_of_the_training_words():
    task = of("a b a", "a c", "b")
    pieces = task.tokenizer.pieces(range(task.tokenizer.size))
    counts = dict(zip(pieces, task.counts))
    assert counts == {**dict.fromkeys(SPECIAL, 0), "a": 3, "b": 1, "c": 1}  # a text of one word has no pair


def test_rare_words_are_left_out_and_windows_reach_over_them():
    task = of("a rare b", "a odd b", tokens=CommonWords(min_count=2), window=1, subsample=0.0)
    corpus = task.corpus([Text("a rare b")], "data.test")
    batch = task.batch(corpus, Visit([0], 1))
    a, b = task.tokenizer.encode("a b")
    assert sorted(zip(batch.centres.tolist(), batch.contexts.tolist())) == [(a, b), (b, a)]
    assert "2 known words in 1 stretches" in corpus.note
    with pytest.raises(InputError, match=r"data.test: expected texts with at least two known words, found none in 1"):
        task.corpus([Text("rare")], "data.test")


def test_the_loss_is_that_of_the_paper_written_out(task, network):
    corpus = task.corpus(WordVectors.load(DATA, Path(), 1).test, "data.test")
    batch = task.batch(corpus, Visit([0, 1], 3))
    v, u = network.embedding.weight.detach(), network.context.weight.detach()
    expected = 0.0
    for centre, context, drawn in zip(batch.centres.tolist(), batch.contexts.tolist(), batch.against.tolist()):
        expected -= math.log(torch.sigmoid(u[context] @ v[centre]))
        expected -= sum(math.log(torch.sigmoid(-u[each] @ v[centre])) for each in drawn if each != context)
    loss = task.loss(network, batch)
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-4) and loss.count == batch.tokens
    assert float(task.loss(network, batch.bucketed()).total.detach()) == pytest.approx(expected, rel=1e-4)
    for name in ("label_smoothing", "sampling"):
        with pytest.raises(InputError, match=rf"train\.{name}: expected 0.*vectors.*found 0\.1"):
            read_recipe("skipgram_topics", [f"train.{name}=0.1"])


def test_recorded_updates_are_those_done_live(task, monkeypatch):
    corpus = task.corpus(WordVectors.load(DATA, Path(), 1).train, "data.train")
    found = []
    for recorder in (None, Repeater()):
        monkeypatch.setattr(stepping, "recorder_for", lambda device, recorder=recorder: recorder)
        torch.manual_seed(3)
        network = task.network(Skipgram, Config(5))
        stepper = stepping.Stepper(task, network, Train(device="cpu", batch_tokens=100, clip=None))
        for numbers in task.plan(corpus, tokens=100, records=None, seed=1, epoch=0)[:6]:
            stepper.update(task.batch(corpus, numbers), 0.05).read()
        found.append(network.embedding.weight.detach().clone())
        if recorder is not None:
            assert recorder.repeated > recorder.recorded >= 1
    torch.testing.assert_close(found[0], found[1])


def test_the_nearest_words_come_with_their_cosines(task, network):
    dog, cat, owl = (task.tokenizer.encode(word)[0] for word in ("dog", "cat", "owl"))
    with torch.no_grad():
        network.embedding.weight[:] = torch.tensor([1.0, 0, 0, 0, 0])
        network.embedding.weight[[dog, cat, owl]] = torch.tensor(
            [[0.0, 3.0, 0, 0, 0], [0.0, 2.0, 0.5, 0, 0], [0, 1.0, 1.0, 0, 0]]
        )
    (near,) = task.predict(network, ["Dog"], how=Search(n_best=2, beam=2))
    assert near.value == "cat 0.970, owl 0.707" and list(near.choices[0]) == ["cat", "owl"]
    assert near.score == pytest.approx(2 / math.hypot(2, 0.5))
    assert len(task.predict(network, ["dog"], how=Search())[0].choices[0]) == 10
    unit = torch.nn.functional.normalize(network.embedding.weight.detach(), dim=-1)
    (sum_,) = task.predict(network, ["owl - cat + dog"], how=Search())
    wanted = torch.nn.functional.normalize(unit[owl] - unit[cat] + unit[dog], dim=0)
    assert sum_.score == pytest.approx(
        max(float(unit[n] @ wanted) for n in range(len(SPECIAL), len(unit)) if n not in (dog, cat, owl)), abs=1e-5
    )
    assert not {"dog", "cat", "owl", *SPECIAL} & set(sum_.choices[0])


def test_a_vector_of_a_mark_is_never_near(task, network):
    with torch.no_grad():
        network.embedding.weight[: len(SPECIAL)] = network.embedding.weight[task.tokenizer.encode("dog")[0]]
    assert not set(SPECIAL) & set(task.predict(network, ["dog"], how=Search())[0].choices[0])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("xqzt", "input 1: expected words of the vocabulary, found 'xqzt'"),
        ("dog + xqzt", "found 'xqzt'"),
        ("", "input 1: expected a word, found nothing"),
        ("- +", "expected a word after -, found '+'"),
        ("dog -", "input 1: expected a word after -, found nothing"),
        ("dog - - cat", "expected a word after -, found '-'"),
        ("dog -cat", "expected spaces around + and -, and words without them, found '-cat'"),
        ("dog - cat + cat - dog", "expected words whose sum is not 0, found 'dog - cat + cat - dog'"),
        (7, "expected a word, found int"),
    ],
)
def test_what_has_no_vector_is_reported(task, network, given, told):
    with pytest.raises(InputError) as error:
        task.predict(network, [given], how=Search())
    assert told in str(error.value)
    with pytest.raises(InputError):
        task.read(given, "input 1")


def test_a_whole_vocabulary_has_no_word_beside_it():
    data = WordData(train="t.txt", tokens=TOKENS)
    task = WordVectors.learn(data, [Text("dog cat dog")])
    with pytest.raises(InputError, match="input 1: expected fewer words, found the whole vocabulary"):
        task.predict(Skipgram(Config(embedding=3), task.tokenizer.size), ["cat dog"], how=Search())


def test_under_a_lens_nothing_is_seen(task, network):
    (seen,) = task.predict(network, ["dog"], how=Search(), lens=Lens())
    assert seen.trace is not None and not seen.trace.maps and seen.trace.about["output"] == seen.value
    assert task.predict(network, [], how=Search()) == []


def test_figures_are_of_the_pairs_and_of_the_topics(task, network):
    corpus = task.corpus(WordVectors.load(DATA, Path(), 1).test, "data.test")
    batch = task.batch(corpus, Visit(range(len(corpus)), 0))
    with torch.no_grad():
        there, drawn = network(batch.centres, batch.contexts, batch.against)
        loss = float(task.loss(network, batch).mean)
    found = task.evaluate(network, corpus, how=Search(), metrics=list(task.metrics))
    assert found.figures["pair_loss"] == pytest.approx(loss, rel=1e-5)
    assert found.figures["pair_accuracy"] == pytest.approx(float((there > drawn.amax(-1)).float().mean()), rel=1e-5)
    assert found.higher_is_better == {"pair_loss": False, "pair_accuracy": True, "neighbours": True}
    assert 0 <= found.figures["neighbours"] < 0.5  # by chance
    one = task.evaluate(network, corpus, how=Search(), metrics=["pair_loss"], limit=1).figures["pair_loss"]
    assert one != found.figures["pair_loss"]
    other = of("a b", "b a")
    with pytest.raises(InputError, match=r"neighbours with data.source: topics"):
        other.evaluate(network, other.corpus([Text("a b")], "x"), how=Search(), metrics=["neighbours"])
    rest = other.evaluate(network, other.corpus([Text("a b")], "x"), how=Search(), metrics=["neighbours", "pair_loss"])
    assert list(rest.figures) == ["pair_loss"] and "neighbours is left out" in rest.notes[0]
    with pytest.raises(InputError, match="any of pair_loss, pair_accuracy, neighbours, found 'bleu'"):
        task.evaluate(network, corpus, how=Search(), metrics=["bleu"])


def test_a_short_run_finds_the_topics(tmp_path):
    few = ["data.topics.train=500", "data.topics.test=9", "data.topics.valid=9", "train.batch_tokens=512"]
    recipe = read_recipe("skipgram_topics", [*few, "train.device=cpu", "train.threads=1"])
    bundle = api.train(recipe, folder=tmp_path / "run")
    assert bundle.figures["test"]["neighbours"] >= 0.9


def test_a_resumed_run_is_the_run_that_was_not_stopped(whole, tmp_path):
    with pytest.raises(Interrupted):
        api.train(small(), folder=tmp_path / "stopped", report=StopAt(6, signal.SIGTERM))
    api.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", whole)


def test_a_bundle_comes_back_with_its_counts(whole):
    bundle = api.load(whole, device="cpu")
    files = bundle.task.files()
    assert WordVectors.restore(bundle.recipe.data, files).files() == files
    assert bundle.evaluate()["pair_loss"] == pytest.approx(bundle.figures["test"]["pair_loss"], rel=1e-4)
    for broken in ("[1, 2]", "{}", "no", json.dumps([-1] * bundle.task.tokenizer.size)):
        with pytest.raises(InputError, match=r"counts.json(:1)?: expected (a list of|valid JSON)"):
            WordVectors.restore(bundle.recipe.data, {**files, "counts.json": broken})
    with pytest.raises(InputError, match=r"tokenizer.json"):
        WordVectors.restore(bundle.recipe.data, {})


def test_texts_come_from_files_and_from_memory(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("".join(f"the dog {n} sees the cat .\n" for n in range(number, 40, 3)))
    (tmp_path / "my.yaml").write_text(
        "task: vectors\ndata: {train: [0.txt, 1.txt, 2.txt], tokens: {min_count: 3}, subsample: 0}\n"
        "model: {name: skipgram, embedding: 3}\ntrain: {epochs: 1, device: cpu}\n"
    )
    bundle = api.train(tmp_path / "my.yaml", folder=tmp_path / "run")
    assert bundle.task.tokenizer.size == len(SPECIAL) + 5 and bundle.predict("dog")[0].value
    assert list(bundle.figures["test"]) == ["pair_loss"]
    texts = [f"the dog {n} sees the cat ." for n in range(30)]
    again = api.train(tmp_path / "my.yaml", texts, folder=tmp_path / "again")
    assert again.predict("cat")[0].choices


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("data.window=0", "data.window: expected window to be at least 1, found 0"),
        ("data.subsample=2", "data.subsample: expected subsample to be a share of the text"),
        ("data.tokens.kind=bpe", "data.tokens.kind: expected kind to be words"),
        ("train.batch_tokens=7", "46 positions, marks included; raise train.batch_tokens or lower data.chunk"),
        ("metrics=[accuracy]", "metrics[0]: expected one of pair_loss, pair_accuracy, neighbours, found 'accuracy'"),
    ],
)
def test_what_cannot_be_is_refused(changes, told, tmp_path):
    with pytest.raises(SaccadeError) as error:
        api.train(small(changes), folder=tmp_path / "run")
    assert told in str(error.value)


def test_another_kind_of_network_is_refused(task):
    with pytest.raises(InputError, match=r"model.name: expected a network that scores pairs of words, .* found 'bert'"):
        task.network(Bert, BertConfig())


def test_unknown_words_are_not_drawn(task):
    assert Tokenizer.UNK not in task._frequencies.table and task._frequencies.table.min() >= len(SPECIAL)


def test_runs_are_not_compared_by_outputs_that_have_no_reference(whole, command):
    status, _, err = command("compare", whole, whole)
    assert status == 1 and "found 'vectors'" in err and "saccade evaluate RUN --data FILE" in err


# Whether words that belong together are nearest to each other ----------------------------------------------------------


def test_length_does_not_matter_and_every_word_is_a_candidate():
    vectors = torch.tensor([[1.0, 0.0], [9.0, 0.9], [0.0, 1.0], [0.1, 1.0], [1.0, 0.01]])
    assert neighbours(vectors[:4], [[0, 1], [2, 3]]) == 1.0
    assert neighbours(vectors, [[0, 1], [2, 3]]) == 0.5  # the last word comes between the first two


def test_a_word_is_not_its_own_neighbour():
    assert neighbours(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]]), [[0], [1], [2]]) == 0.0


def test_words_are_needed():
    with pytest.raises(SaccadeError, match="none of their words in the vocabulary"):
        neighbours(torch.ones(3, 2), [[], []])

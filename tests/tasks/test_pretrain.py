"""The task pretrain: rows, the two losses, filled blanks, traces, figures, and a run that goes on exactly."""

import io
import json
import math
import signal
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from saccade import api
from saccade.data.texts.masking import IGNORED
from saccade.data.texts.records import PieceTokens, PretrainData, Text
from saccade.data.tokenizers.wordpiece import MARKS
from saccade.data.toy.topics import DETERMINERS, TOPICS, Topics
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.models.bert import Bert, Config
from saccade.nn.search.beam_search import Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.pretrain import Pretrain, _best, filled
from saccade.trace import Lens, Mask
from saccade.training import stepping
from saccade.training.config import Train
from tests.training.recorders import Repeater
from tests.training.test_loop import StopAt, assert_same_run

CONFIG = Config(layers=2, width=12, heads=3, feed_forward=20, positions=40, dropout=0.0, init=0.3)
DATA = PretrainData(source="topics", topics=Topics(train=40, valid=7, test=9), length=32, tokens=PieceTokens(size=300))
SMALL = (
    "data.topics.train=60", "data.topics.valid=9", "data.topics.test=9", "data.length=40", "model.width=12", "model.heads=3",
    "model.feed_forward=20", "model.dropout=0.1", "train.epochs=3", "train.batch_records=16", "train.device=cpu",
    "train.save_every=2", "train.warmup=0",
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("module_unchecked")


@pytest.fixture(scope="module")
def task() -> Pretrain:
    return Pretrain.learn(DATA, Pretrain.load(DATA, Path(), 1).train)


@pytest.fixture(scope="module")
def corpus(task):
    return task.corpus(Pretrain.load(DATA, Path(), 1).train, "data.train")


@pytest.fixture(scope="module")
def network(task) -> Bert:
    torch.manual_seed(2)
    return task.network(Bert, CONFIG).eval()


def test_a_corpus_holds_every_token_of_its_documents(task, corpus):
    tokens = sum(len(task.tokenizer.encode(text.source)) for text in corpus.records)
    assert len(corpus.shared[0].ids) == tokens
    assert "40 documents" in corpus.note and f"{tokens:,} tokens in {len(corpus):,} rows" in corpus.note


def test_rows_inside_one_sentence_are_warned_of_once_where_followers_are_reported(task):
    single, several = [Text("the dogs wait")] * 5, [Text("the dogs wait . a cat sleeps . it rains .")] * 5
    note = task.corpus(single, "data.train").note
    assert "5 of the rows contain at most one sentence" in note and "data.pairs: none" in note
    assert "nsp_accuracy" not in task.corpus(several, "data.train").note
    assert "nsp_accuracy" not in task.corpus(single, "data.valid").note  # it is said of the training data alone
    alone = Pretrain(replace(task.data, pairs="none"), task.tokenizer)
    assert "nsp_accuracy" not in alone.corpus(single, "data.train").note


def test_a_quarter_of_such_rows_is_none_too_many_and_more_is(task):
    parts = [Text("the dogs wait"), *[Text("the dogs wait . a cat sleeps .")] * 3]
    assert "nsp_accuracy" not in task.corpus(parts, "data.train").note
    assert "2 of the rows contain" in task.corpus([*parts, parts[0]], "data.train").note


def test_answers_of_a_part_that_was_never_trained_say_so(task, corpus, network, tmp_path):
    words, followers = "[MASK] dogs wait .", "the dogs wait .\ta cat sleeps ."
    noted = {}
    for name, figures in {"whole": {}, "bare": {"anew": ["transform", "bias"]}, "masked": {"anew": ["next"]}}.items():
        recipe = replace(read_recipe("bert_topics", SMALL), model=CONFIG)
        made = api.Bundle(recipe, task, network, folder=tmp_path, figures=figures)
        made.save(tmp_path / name)
        assert ("Never trained" in (tmp_path / name / "card.md").read_text()) == bool(figures)
        bundle = api.load(tmp_path / name, device="cpu")  # what it lacks is kept
        noted[name] = [" ".join(each.notes) for each in bundle.predict([words, followers])]
    never = "was never trained (not in the imported model); ignore its output"
    assert noted["whole"] == ["", ""]
    assert noted["bare"] == [f"the masked-word head {never}", ""]
    assert noted["masked"] == ["", f"the next-sentence head {never}"]
    judged = bundle.task.evaluate(network, corpus, how=Search(), metrics=["mlm_loss", "nsp_accuracy"], limit=3)
    assert judged.notes == (f"the next-sentence head {never}",)
    assert bundle.task.evaluate(network, corpus, how=Search(), metrics=["mlm_loss"], limit=3).notes == ()


def test_a_bucket_is_not_wider_than_a_row_may_be(task, corpus):
    short = Pretrain(replace(task.data, length=33), task.tokenizer)
    again = short.corpus(corpus.records, "data.train")
    batch = short.batch(again, range(len(again)))
    assert batch.text.shape[1] == batch.bucketed().text.shape[1] == 33  # and not 36


def test_a_plan_has_every_row_once_and_its_draw(task, corpus):
    plans = [task.plan(corpus, tokens=None, records=7, seed=1, epoch=epoch) for epoch in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]
    assert sorted(number for batch in plans[0] for number in batch) == list(range(len(corpus)))
    again, other = task.batch(corpus, plans[1][0]), task.batch(corpus, plans[2][0])
    assert torch.equal(task.batch(corpus, plans[0][0]).text, again.text)
    same_rows = type(plans[0][0])(plans[0][0], plans[2][0].draw)
    assert not torch.equal(again.chosen, task.batch(corpus, same_rows).chosen[:, : again.chosen.shape[1]])
    assert other.tokens > 0


@torch.no_grad()
def test_the_loss_is_the_sum_of_both_means_over_chosen_places_alone(task, corpus, network):
    batch = task.batch(corpus, task.plan(corpus, tokens=None, records=9, seed=1, epoch=0)[0])
    words, follows = network(batch.text, batch.lengths, batch.segments, batch.chosen)
    known = batch.words != IGNORED
    expected = functional.cross_entropy(words[known], batch.words[known]) + functional.cross_entropy(
        follows, batch.follows
    )
    loss = task.loss(network, batch)
    assert loss.count == int(known.sum()) and float(loss.mean) == pytest.approx(float(expected), rel=1e-5)
    wide = task.loss(network, batch.bucketed())
    assert float(wide.total) == pytest.approx(float(loss.total), rel=1e-5)


@torch.no_grad()
def test_without_pairs_the_loss_is_that_of_the_words(network):
    data = PretrainData(source="topics", topics=DATA.topics, length=32, pairs="none", tokens=DATA.tokens)
    splits = Pretrain.load(data, Path(), 1)
    task = Pretrain.learn(data, splits.train)
    corpus = task.corpus(splits.test, "test")
    batch = task.batch(corpus, range(5))
    words, _ = network(batch.text, batch.lengths, None, batch.chosen)
    expected = functional.cross_entropy(words.flatten(0, 1), batch.words.flatten(), ignore_index=IGNORED)
    assert float(task.loss(network, batch).mean) == pytest.approx(float(expected), rel=1e-5)
    with pytest.raises(InputError, match="pairs is none"):
        task.evaluate(network, corpus, how=Search(), metrics=["nsp_accuracy"])


def test_every_parameter_learns(task, corpus, network):
    batch = task.batch(corpus, range(6))
    task.loss(network, batch).mean.backward()
    missing = [name for name, each in network.named_parameters() if each.grad is None or not each.grad.any()]
    network.zero_grad(set_to_none=True)
    assert missing == []


def test_an_update_never_asks_the_device_for_a_number(task, corpus):
    # A meta tensor has no numbers to give, as a device that is being recorded has none.
    batch = task.batch(corpus, range(5)).bucketed().to("meta")
    task.loss(task.network(Bert, CONFIG).to("meta"), batch, smoothing=0.1).mean.backward()


def test_recorded_updates_are_the_live_ones(task, corpus, monkeypatch):
    batches = [task.batch(corpus, numbers) for numbers in task.plan(corpus, tokens=None, records=8, seed=1, epoch=0)]
    found = []
    for recorder in (None, Repeater()):
        monkeypatch.setattr(stepping, "recorder_for", lambda device, made=recorder: made)
        torch.manual_seed(4)
        stepper = stepping.Stepper(task, task.network(Bert, CONFIG), Train(device="cpu", optimiser="adamw"))
        found.append([list(stepper.update(batch, 1e-2).read()) for batch in batches])
    assert recorder.repeated == len(batches) > recorder.recorded
    torch.testing.assert_close(torch.tensor(found[0]), torch.tensor(found[1]), rtol=1e-4, atol=1e-5)


def test_blanks_are_filled_with_the_likeliest_words(task, network):
    (found,) = task.predict(network, ["this [MASK] waits ."], how=Search(beam=3, n_best=3))
    ids, _ = task.tokenizer.blanked("this [MASK] waits .")
    row = torch.tensor([[task.tokenizer.BOS, *ids, task.tokenizer.EOS]])
    with torch.no_grad():
        logits = network(row, torch.tensor([row.shape[1]]), None, torch.tensor([[2]]))[0][0, 0]
    shares = logits.softmax(-1)
    shares[:5] = 0
    best = task.tokenizer.pieces(shares.topk(3).indices.tolist())
    assert list(found.choices[0])[:3] == list(found.probabilities)[:3] == best
    assert found.score == pytest.approx(float(shares.max()), rel=1e-5)
    assert [each.value for each in (found, *found.alternatives)] == [
        filled("this [MASK] waits .", [word]) for word in best
    ]
    assert len(found.choices[0]) == 10


def test_of_several_blanks_the_likeliest_fillings_are_found(task, network):
    (found,) = task.predict(network, ["[MASK] dog [MASK] ."], how=Search(beam=4, n_best=4))
    one, two = (list(each.items()) for each in found.choices)
    products = sorted((a * b for _, a in one for _, b in two), reverse=True)[:4]
    assert [each.score for each in (found, *found.alternatives)] == pytest.approx(products)
    assert not found.probabilities and len(found.choices) == 2


def test_the_best_fillings_of_many_blanks_are_exact_and_as_many_as_were_asked_for():
    likely = [{"a": 0.5 - 0.01 * n, "b": 0.3 + 0.005 * n, "c": 0.1} for n in range(7)]
    every = sorted(
        (math.prod(each[w] for each, w in zip(likely, pick)) for pick in product("abc", repeat=7)), reverse=True
    )
    found = _best(likely, 9)
    assert [share for share, _ in found] == pytest.approx(every[:9])
    assert len({words for _, words in _best(likely * 6, 5)}) == 5


def test_marks_are_not_words_however_many_are_asked_for(task, network):
    found = task.predict(network, ["[MASK] dogs wait ."], how=Search(beam=10_000, n_best=10_000))[0]
    told = [found.value, *(each.value for each in found.alternatives)]
    assert len(told) == task.tokenizer.size - len(MARKS) and not any(value.startswith("[") for value in told)


def test_pieces_inside_a_word_are_joined_to_it():
    assert filled("un [MASK] is [MASK].", ["##able", "bad"]) == "unable is bad."


def test_two_texts_are_judged(task, network):
    (found,) = task.predict(network, ["this dog waits .\tthis cat waits ."], how=Search())
    assert found.value in ("follows", "does not follow")
    assert math.fsum(found.probabilities.values()) == pytest.approx(1, abs=1e-6)
    (blank,) = task.predict(network, ["this dog waits .\tthis [MASK] waits ."], how=Search())
    assert set(blank.parts) == {"follows", "does not follow"}


@pytest.mark.parametrize("given", ["this [MASK] waits .", "this dog waits .\tthis cat waits ."])
def test_how_likely_a_word_or_a_follower_is_can_be_asked_under_a_lens(task, network, given):
    (found,) = task.predict(network, [given], how=Search())
    (likeliest, share), (second, less) = (
        list(found.probabilities.items())[:2]
        if "[MASK]" in given
        else sorted(found.probabilities.items(), key=lambda item: -item[1])
    )
    for output, expected in ((None, share), (likeliest, share), (second, less)):
        scored = task.scorer(network, given, output)(Lens())
        assert scored.log_probs == pytest.approx([math.log(expected)], abs=1e-5) and scored.trace.maps
    masked = task.scorer(network, given, None)(Lens(edits=[Mask([1], site="encoder.1.self")]))
    assert masked.log_probs[0] != pytest.approx(math.log(share), abs=1e-6)
    with pytest.raises(SaccadeError, match=r"expected one of .*found 'xqzt'"):
        task.scorer(network, given, "xqzt")(Lens())


def test_a_filled_pair_is_written_as_it_was_given_and_drawn_on_two_lines(task, network):
    given = "these dogs wait .\tthis [MASK] waits ."
    (found,) = task.predict(network, [given], how=Search(beam=3, n_best=3), lens=Lens())
    for each in (found, *found.alternatives):
        first, second = each.value.split("\t")
        assert first == "these dogs wait ." and second.startswith("this") and "\n" not in each.value
    trace = found.trace
    assert (trace.about["input"], trace.about["output"]) == (given, found.value)
    axis = trace.axes["text"]
    assert axis.text == given.replace("\t", "\n")
    read = [axis.text[first:last] for place, (first, last) in enumerate(axis.spans) if place not in axis.special]
    assert "".join(read) == "".join(given.split())


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("no blank", r"\[MASK\]"),
        ("", "nothing"),
        ("a\tb\tc", "3 texts"),
        ("a\t ", "nothing in one"),
        (3, "int"),
        ("[MASK] " * 50, "at most 40"),
    ],
)
def test_inputs_that_cannot_be_read_are_reported(task, network, text, word):
    with pytest.raises(InputError, match=word):
        task.predict(network, [text], how=Search())


def test_a_trace_shows_every_layer_over_the_pieces(task, network):
    text = "these [MASK] meet the queens ."
    plain, under = (task.predict(network, [text], how=Search(), lens=lens)[0] for lens in (None, Lens()))
    assert plain.trace is None and plain.value == under.value
    trace = under.trace
    labels = trace.axes["text"].labels
    assert labels[:3] == ("[CLS]", "these", "[MASK]") and labels[-1] == "[SEP]"
    assert trace.axes["text"].special == (0, len(labels) - 1)
    assert {map.site for map in trace.maps} == {"encoder.0.self", "encoder.1.self"} and len(trace.maps) == 6
    edited = task.predict(network, [text], how=Search(), lens=Lens(edits=[Mask([1], site="encoder.1.self")]))[0]
    assert edited.score != plain.score


def test_figures_are_computed_on_one_draw(task, corpus, network):
    found = task.evaluate(network, corpus, how=Search(), metrics=task.metrics)
    assert found.figures == task.evaluate(network, corpus, how=Search(), metrics=task.metrics).figures
    assert found.figures["mlm_perplexity"] == pytest.approx(math.exp(found.figures["mlm_loss"]))
    assert found.higher_is_better == {
        "mlm_accuracy": True, "mlm_perplexity": False, "mlm_loss": False, "nsp_accuracy": True,
    }  # fmt: skip
    some = task.evaluate(network, corpus, how=Search(), metrics=["mlm_loss"], limit=3)
    assert some.figures != {"mlm_loss": found.figures["mlm_loss"]}


def test_its_files_restore_it(task):
    again = Pretrain.restore(DATA, task.files())
    assert again.files() == task.files() and again.tokenizer.MASK == task.tokenizer.MASK


def test_what_does_not_fit_is_reported(task, corpus):
    with pytest.raises(InputError, match=r"data\.length"):
        task.network(Bert, Config(layers=1, width=4, heads=1, feed_forward=4, positions=16))
    with pytest.raises(SaccadeError, match="batch_tokens"):
        task.plan(corpus, tokens=20, records=None, seed=1, epoch=0)
    with pytest.raises(InputError, match="two documents"):
        task.corpus(corpus.records[:1], "data.valid")


def small(*more: str):
    return read_recipe("bert_topics", [*SMALL, *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    api.train(small(), folder=folder)
    return folder


def test_an_interrupted_run_continues_with_the_same_masks(whole, tmp_path):
    with pytest.raises(Interrupted):
        api.train(small(), folder=tmp_path / "stopped", report=StopAt(6, signal.SIGTERM))
    api.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", whole)


def test_the_command_line_fills_blanks(whole, command):
    status, out, _ = command("predict", whole, "this [MASK] waits .", "--n-best", 2)
    assert status == 0 and len(out.splitlines()) == 2
    status, out, _ = command("predict", whole, "this [MASK] [MASK] .", "--json")
    shown = json.loads(out)
    assert status == 0 and len(shown["choices"]) == 2 and "probabilities" not in shown
    status, out, err = command("predict", whole, "no blank")
    assert status == 1 and "expected a text with [MASK]" in err and "Traceback" not in err


def test_each_input_has_a_line_of_output_and_a_pair_has_one_too(whole, command, monkeypatch):
    def lines_of(*options: object) -> list[str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("the dogs [MASK]\ta cat waits .\nthis [MASK] waits .\n"))
        status, out, _ = command("predict", whole, *options)
        assert status == 0
        return out.splitlines()

    pair, single = lines_of()
    assert pair.startswith("the dogs") and pair.endswith("\ta cat waits .") and single.endswith("waits .")
    several = lines_of("--n-best", 2)
    assert len(several) == 4 and [line.count("\t") for line in several] == [2, 2, 1, 1]


def test_a_classifier_begins_with_what_was_pretrained(whole, tmp_path):
    recipe = tmp_path / "fine.yaml"
    recipe.write_text(
        "task: classify\n"
        "data: {source: opinions, opinions: {train: 40, valid: 9, test: 9}, max_length: 30, too_long: truncate}\n"
        "model: {name: bert_classifier, dropout: 0.0}\n"
        f"train: {{from: {whole}, updates: 1, lr: 1e-9, batch_records: 8, device: cpu}}\n",
        encoding="utf-8",
    )
    child, parent = api.train(read_recipe(recipe), folder=tmp_path / "child"), api.load(whole, device="cpu")
    assert child.task.tokenizer.to_json() == parent.task.tokenizer.to_json()
    for name, tensor in parent.network.trunk.state_dict().items():
        torch.testing.assert_close(child.network.trunk.state_dict()[name], tensor, rtol=0, atol=1e-6)
    assert child.recipe.model.width == 12 and child.recipe.data.tokens.kind == "bert"
    assert json.loads((tmp_path / "child" / "origin.json").read_text())["task"] == "pretrain"
    api.resume(tmp_path / "child")
    with pytest.raises(InputError, match=r"model.width: expected 12"):
        read_recipe(recipe, ["model.width=24"])
    with pytest.raises(InputError, match=r"data.tokens.lower: expected True"):
        read_recipe(recipe, ["data.tokens.lower=false"])
    with pytest.raises(InputError, match=r"bert_classifier or bert_tagger"):
        read_recipe(recipe, ["model.name=attentive_classifier"])


PAIR = "the dogs wait .\ta cat sleeps ."


def test_what_tells_followers_is_noise_only_where_no_run_was_trained_to(whole, tmp_path):
    never = "the next-sentence head was never trained (data.pairs: none); ignore its output"
    single = ("data.pairs=none", "metrics=[mlm_loss]", "expect=null", "train.epochs=1")
    knowing = api.train(small(f"train.from={whole}", *single), folder=tmp_path / "knowing")
    assert knowing.predict(PAIR)[0].notes == () and knowing.untrained.all == ()
    assert "Never trained" not in (tmp_path / "knowing" / "card.md").read_text()
    noise = api.train(small(*single), folder=tmp_path / "noise")
    assert noise.predict(PAIR)[0].notes == (never,) and noise.untrained.anew == ("next", "trunk.pooler")
    card = (tmp_path / "noise" / "card.md").read_text()
    assert "- Never trained, since no training used them: next, trunk.pooler\n" in card
    still = api.train(small(f"train.from={tmp_path / 'noise'}", *single), folder=tmp_path / "still")
    assert api.load(tmp_path / "still").predict(PAIR)[0].notes == (never,) and still.untrained == noise.untrained
    card = (tmp_path / "still" / "card.md").read_text()
    assert "never trained in that run: next, trunk.pooler; nor in this one: next, trunk.pooler\n" in card
    learnt = api.train(small(f"train.from={tmp_path / 'still'}", "train.epochs=1"), folder=tmp_path / "learnt")
    assert learnt.predict(PAIR)[0].notes == () and learnt.untrained.all == ()


def test_a_run_of_single_texts_that_is_older_than_what_it_would_say_is_known_by_its_recipe(task, network, tmp_path):
    recipe = small("data.pairs=none", "metrics=[mlm_loss]", "expect=null")
    bundle = api.Bundle(recipe, Pretrain(recipe.data, task.tokenizer), network, folder=tmp_path, figures={"valid": {}})
    assert "was never trained (data.pairs: none)" in bundle.predict(PAIR)[0].notes[0]


def test_the_examples_are_of_the_made_language(task, network):
    for text in task.examples(Path(), 1):
        for word in text.replace("\t", " ").split():
            known = {*DETERMINERS, "the", ".", "[MASK]", *(noun for topic in TOPICS for noun in topic)}
            assert word in known or word.rstrip("s") in known or word in ("wait", "moves", "stay", "fall", "waits")
    assert len(task.predict(network, task.examples(Path(), 1), how=Search())) == 3


def test_runs_are_not_compared_by_outputs_that_have_no_reference(whole, command):
    status, _, err = command("compare", whole, whole)
    assert status == 1 and "found 'pretrain'" in err and "saccade evaluate" in err


def test_a_vocabulary_and_several_files_are_found_beside_the_recipe_or_where_the_command_is_given(
    tmp_path, monkeypatch
):
    (tmp_path / "vocab.txt").write_text("\n".join([*MARKS, "a", "b", "."]), encoding="utf-8")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "task: pretrain\ndata: {train: [a.txt, b.txt], tokens: {vocabulary: vocab.txt}}\nmodel: {name: bert}\n",
        encoding="utf-8",
    )
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("".join(f"a b {name[0]}{number} .\n" for number in range(20)), encoding="utf-8")
    read = read_recipe(recipe)
    assert read.data.tokens.vocabulary == str(tmp_path / "vocab.txt")
    splits = Pretrain.load(read.data, read.folder, 1)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 40
    assert Pretrain.learn(read.data, splits.train).tokenizer.vocabulary[-3:] == ["a", "b", "."]
    monkeypatch.chdir(tmp_path)
    elsewhere = read_recipe("bert_topics", ["data.source=null", "data.train=[c.txt]"])
    assert elsewhere.data.train == (str(tmp_path / "c.txt"),)


def test_a_pair_is_refused_by_a_network_of_one_segment():
    task = Pretrain.learn(replace(DATA, pairs="none"), Pretrain.load(DATA, Path(), 1).train)
    network = task.network(Bert, replace(CONFIG, segments=1))
    assert task.predict(network, ["the [MASK] ."], how=Search())[0].value
    with pytest.raises(InputError, match=r"input 2: expected one text, as model\.segments is 1, found two"):
        task.predict(network, ["the [MASK] .", "the [MASK] .\tthe ."], how=Search())

"""The task rank: questions become rows, a network scores candidates, and what it looked at is labelled with the words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

import saccade
from saccade.data.rankings.records import Ranked, RankedData
from saccade.data.toy.facts import Facts
from saccade.errors import InputError, SaccadeError
from saccade.metrics.ranking import ranking_statistics
from saccade.models import attentive_classifier, bert
from saccade.models.siamese import Config, Siamese
from saccade.nn.search.beam_search import Sampling, Search
from saccade.recipes.recipe import read_recipe
from saccade.tasks.rank import Rank
from saccade.testing import check_task
from saccade.trace import Lens, Mask, Set
from saccade.training.config import Train
from saccade.training.graphs import Graphs
from tests.training.recorders import Repeater

SMALL = Config(5, encoder="gru", hidden=4, mlp=3)


def record(n: int) -> Ranked:
    places = range(2 + n % 3)
    candidates, target = tuple(f"word{m} has {m} of it" for m in places), tuple(float(m == n % 2) for m in places)
    return Ranked(f"who has {n % 5} ?", candidates, target)


RECORDS = [record(n) for n in range(20)]
UNANSWERED = Ranked("who has 3 ?", ("nobody has it",), (0.0,))
INPUT = "who has 2 ?\tword1 has 1 of it\tword2 has 2 of it\tnone"


def task(records=RECORDS, **fields) -> Rank:
    return Rank.learn(RankedData(train="x", **fields), records)


def network(of: Rank, config: Config = SMALL, kind=Siamese):
    torch.manual_seed(1)
    made = of.network(kind, config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made.eval()


BERT = bert.Config(layers=1, width=6, heads=2, feed_forward=5, positions=43)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (Siamese, SMALL),
        (Siamese, replace(SMALL, compare="alignment", overlap=True)),
        (attentive_classifier.AttentiveClassifier, attentive_classifier.Config(5, encoder="gru", hidden=4)),
        (bert.BertClassifier, BERT),
    ],
    ids=["pooled", "alignment", "a classifier of pairs", "bert"],
)
@pytest.mark.parametrize("loss", ["listwise", "pointwise"])
def test_the_task_keeps_every_promise_of_a_task(kind, config, loss) -> None:
    data = RankedData(source="facts", facts=Facts(train=13, valid=5, test=7), loss=loss, max_length=20)
    check_task(Rank, data, kind, config)


# Loss -----------------------------------------------------------------------------------------------------------------


def raw(of: Rank, made, records) -> list[list[float]]:
    return of.evaluate(made, of.corpus(records, "x"), how=Search(), metrics=["map"]).outputs


def test_the_listwise_loss_is_the_cross_entropy_over_the_candidates_of_each_question() -> None:
    of = task()
    made = network(of)
    graded = [*RECORDS[:2], Ranked("who ?", ("a", "b", "c"), (2.0, 0.0, 1.0)), UNANSWERED]
    loss = of.loss(made, of.batch(of.corpus(graded, "x"), range(4)))
    expected = 0.0
    for record, scores in zip(graded[:3], raw(of, made, graded)):
        logs = torch.tensor(scores).log_softmax(0)
        expected -= sum(grade / sum(record.target) * float(log) for grade, log in zip(record.target, logs))
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-4)
    assert loss.count == 3  # nothing is learnt of a question without an answer
    alone = of.loss(made, of.batch(of.corpus([UNANSWERED], "x"), [0]))
    assert alone.count == 0 and float(alone.total.detach()) == 0


def test_the_pointwise_loss_judges_each_candidate_by_itself() -> None:
    of = task(loss="pointwise")
    made, records = network(of), [RECORDS[3], UNANSWERED, Ranked("who ?", ("a", "b"), (3.0, 0.5))]
    loss = of.loss(made, of.batch(of.corpus(records, "x"), range(3)))
    expected = 0.0
    for record, scores in zip(records, raw(of, made, records)):
        for grade, score in zip(record.target, scores):
            p, grade = 1 / (1 + math.exp(-score)), min(grade, 1.0)
            expected -= grade * math.log(p) + (1 - grade) * math.log(1 - p)
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-4)
    assert loss.count == sum(len(record.candidates) for record in records)


@pytest.mark.parametrize("loss", ["listwise", "pointwise"])
def test_smoothing_takes_a_share_of_the_target(loss) -> None:
    of = task(loss=loss)
    made, batch = network(of), of.batch(of.corpus([*RECORDS, UNANSWERED], "x"), [0, 1, 2, 20])
    plain, half, whole = (of.loss(made, batch, smoothing=share).total.detach() for share in (0.0, 0.5, 1.0))
    torch.testing.assert_close(half, (plain + whole) / 2)
    with pytest.raises(InputError, match=r"train\.sampling: expected 0.*found 0\.1"):
        read_recipe("siamese_facts", ["train.sampling=0.1"])


@pytest.mark.parametrize("loss", ["listwise", "pointwise"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_fills_a_bucket_up_weighs_nothing(loss, smoothing) -> None:
    of = task(loss=loss)
    made, batch = network(of), of.batch(of.corpus(RECORDS, "x"), [0, 1, 5])
    wide = batch.bucketed()
    assert wide.question.shape[0] == 32
    first, other = (of.loss(made, each, smoothing=smoothing) for each in (batch, wide))
    torch.testing.assert_close(other.total, first.total)
    assert other.count == batch.tokens


ALIGNED = replace(SMALL, compare="alignment", overlap=True)
STILL = replace(BERT, dropout=0.0, attention_dropout=0.0)


@pytest.mark.parametrize("loss", ["listwise", "pointwise"])
@pytest.mark.parametrize(
    ("kind", "config"), [(Siamese, ALIGNED), (bert.BertClassifier, STILL)], ids=["siamese", "bert"]
)
def test_recorded_updates_have_the_gradients_of_live_ones(loss, kind, config) -> None:
    of = task(loss=loss, max_length=20)
    made, corpus, said = of.network(kind, config), of.corpus(RECORDS, "x"), list[str]()
    recorder = Repeater()
    graphs = Graphs(recorder, of, made, Train(), backward=lambda mean: mean.backward(), say=said.append)
    for numbers in ([0, 1, 2], [3, 4, 5, 6, 7]):  # one shape: the first is recorded, the second repeats it
        batch = of.batch(corpus, numbers)
        with recorder.entered():
            loss_found = graphs.gradient(batch)
        assert loss_found is not None, said
        recorded = {
            name: parameter.grad.clone() for name, parameter in made.named_parameters() if parameter.grad is not None
        }
        made.zero_grad(set_to_none=True)
        of.loss(made, batch).mean.backward()
        for name, parameter in made.named_parameters():
            if parameter.grad is not None:
                torch.testing.assert_close(recorded[name], parameter.grad, rtol=1e-4, atol=1e-6)
        made.zero_grad(set_to_none=True)
    assert len(graphs.recorded) == 1 and not said


# Batches --------------------------------------------------------------------------------------------------------------


def test_a_batch_holds_so_many_padded_tokens_and_questions_stay_whole() -> None:
    of = task()
    corpus = of.corpus(RECORDS, "x")
    for numbers in of.plan(corpus, tokens=80, records=None, seed=1, epoch=0):
        batch = of.batch(corpus, numbers)
        assert batch.question.shape[0] * (batch.question.shape[1] + batch.candidate.shape[1]) <= 80 or len(numbers) == 1
        assert (batch.places >= 0).sum() == sum(len(RECORDS[number].candidates) for number in numbers)
    with pytest.raises(SaccadeError, match=r"record \d+ \(.*\) with 4 candidates .* batch of 9 tokens.* 36 positions"):
        of.plan(corpus, tokens=9, records=None, seed=1, epoch=0)


def test_long_texts_are_an_error_or_cut_and_counted() -> None:
    long = [*RECORDS, Ranked("who ?", ("w " * 30, "a"), (1.0, 0.0))]
    with pytest.raises(
        InputError, match=r"x, record 21 \('who \?'\), candidate 1.*at most 12 tokens, found 30.*truncate"
    ):
        task(max_length=12).corpus(long, "x")
    of = task(max_length=12, too_long="truncate")
    assert "1 of 82 texts cut to 12 tokens" in of.corpus(long, "x").note
    found = of.predict(network(of), [("who ?", ["w " * 30, "a"])], how=Search(), lens=Lens())[0]
    assert "1 of 3 texts cut to their first 12 tokens" in found.notes


def test_training_says_how_many_questions_teach_nothing() -> None:
    of = task()
    note = of.corpus([*RECORDS, UNANSWERED], "data.train").note
    assert "21 questions with 60 candidates, 20 of them relevant" in note and "ignored in training" in note
    assert "left out of the metrics" in of.corpus([*RECORDS, UNANSWERED], "data.test").note
    with pytest.raises(InputError, match="a question with a relevant candidate, found none"):
        of.corpus([UNANSWERED], "data.train")


# Predictions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["listwise", "pointwise"])
def test_candidates_come_in_the_order_of_their_scores(loss) -> None:
    of = task(loss=loss)
    made = network(of)
    found = of.predict(made, [INPUT], how=Search(n_best=2, beam=2))[0]
    question, *candidates = INPUT.split("\t")
    scores = raw(of, made, [Ranked(question, tuple(candidates), (1.0, 0.0, 0.0))])[0]
    assert list(found.probabilities) == [candidates[n] for n in sorted(range(3), key=lambda n: -scores[n])]
    assert (
        found.value == next(iter(found.probabilities))
        and [each.value for each in found.alternatives] == list(found.probabilities)[1:2]
    )
    best = max(scores)
    share = 1 / (1 + math.exp(-best)) if loss == "pointwise" else math.exp(best) / sum(map(math.exp, scores))
    assert found.score == pytest.approx(share, rel=1e-4) and found.log_prob == pytest.approx(math.log(share), rel=1e-3)


def test_an_input_may_be_written_in_several_ways() -> None:
    of = task()
    made = network(of)
    question, *candidates = INPUT.split("\t")
    inputs = [INPUT, (question, candidates), {"question": question, "candidates": tuple(candidates)},
              Ranked(question, tuple(candidates), (0.0, 0.0, 1.0))]  # fmt: skip
    assert len({repr(each) for each in of.predict(made, inputs, how=Search())}) == 1


@pytest.mark.parametrize("loss", ["listwise", "pointwise"])
def test_a_candidate_that_is_given_twice_counts_once(loss) -> None:
    of = task(loss=loss)
    made = network(of)
    once, twice = of.predict(made, [INPUT, f"{INPUT}\tnone"], how=Search(beam=9, n_best=9))
    assert dict(twice.probabilities) == pytest.approx(dict(once.probabilities), rel=1e-5)
    assert len(twice.alternatives) == 2 and twice.notes[0] == "1 of 4 candidates are duplicates and left out"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a question alone", "at least one candidate, found none"),
        ("a question\t ", "candidate 1: expected a text, found whitespace only"),
        (("q", "c"), "a list of candidates, found str"),
        (("q", ["c", 3]), "candidate 2: expected a text, found int"),
        ({"question": "q"}, "candidates: expected a question and its candidates"),
        (7, "found int"),
    ],
)
def test_an_input_that_cannot_be_read_is_reported(given, told) -> None:
    of = task()
    with pytest.raises(InputError, match=rf"input 2.*{told}"):
        of.predict(network(of), [INPUT, given], how=Search())
    with pytest.raises(InputError, match=rf"input 1.*{told}"):
        of.read(given, "input 1")


def test_it_does_not_sample() -> None:
    of = task()
    with pytest.raises(SaccadeError, match=r"search\.sample: expected nothing: the task rank"):
        of.predict(network(of), [INPUT], how=Search(sample=Sampling()))


def test_the_trace_is_that_of_the_best_candidate_and_alternatives_have_their_own() -> None:
    of = task()
    made = network(of, replace(SMALL, compare="alignment"))
    found = of.predict(made, [INPUT], how=Search(n_best=3, beam=3), lens=Lens(detail=["outputs", "state"]))[0]
    for each in (found, *found.alternatives):
        axes = each.trace.axes
        assert (
            list(axes["question"].labels) == ["who", "has", "2", "?"]
            and list(axes["candidate"].labels) == each.value.split()
        )
        assert each.trace.map("alignment").weights.shape == (len(each.value.split()), 4)
        assert each.trace.about["output"] == each.value and each.trace.about["input"] == "who has 2 ?"
        alone = of.predict(made, [("who has 2 ?", [each.value])], how=Search(), lens=Lens())[0].trace
        torch.testing.assert_close(each.trace.map("alignment").weights, alone.map("alignment").weights)
    assert found.trace.outputs.labels[0] == tuple(found.probabilities)


def test_a_network_that_reads_both_together_has_one_axis_of_both() -> None:
    of = task(max_length=20)
    found = of.predict(network(of, BERT, bert.BertClassifier), [INPUT], how=Search(), lens=Lens())[0]
    labels = found.trace.axes["text"].labels
    assert labels[1:5] == ("who", "has", "2", "?") and list(labels[6:-1]) == found.value.split()


def test_an_edit_changes_scores_and_one_that_never_applies_is_reported() -> None:
    of = task()
    made = network(of)
    plain = of.predict(made, [INPUT], how=Search())[0]
    edited = of.predict(made, [INPUT], how=Search(), lens=Lens(edits=[Mask([1], site="question")]))[0]
    assert edited.probabilities != plain.probabilities
    with pytest.raises(SaccadeError, match="never applied"):
        of.predict(made, [INPUT], how=Search(), lens=Lens(edits=[Mask([1], site="elsewhere")]))


# Figures --------------------------------------------------------------------------------------------------------------


def test_figures_leave_out_questions_without_an_answer_and_name_chance() -> None:
    of = task()
    made, records = network(of), [*RECORDS[:5], UNANSWERED]
    found = of.evaluate(made, of.corpus(records, "test"), how=Search(), metrics=["map", "mrr"])
    expected = ranking_statistics("map", found.outputs, [record.target for record in records]).value
    assert found.figures["map"] == expected and found.higher_is_better["mrr"]
    assert any("1 of 6 questions have no relevant candidate and are left out" in note for note in found.notes)
    assert any("a random order has a map of" in note for note in found.notes)
    with pytest.raises(InputError, match="any of map, mrr, precision_at_1"):
        of.evaluate(made, of.corpus(records, "test"), how=Search(), metrics=["f1"])
    with pytest.raises(SaccadeError, match="none of 1 questions has a relevant candidate"):
        of.evaluate(made, of.corpus([UNANSWERED], "test"), how=Search(), metrics=["map"])


# Networks and bundles -------------------------------------------------------------------------------------------------


def test_a_network_that_cannot_serve_is_refused() -> None:
    from saccade.models.rnnsearch import RNNSearch

    with pytest.raises(InputError, match="a network that scores a candidate for a question, such as siamese"):
        task().network(RNNSearch, RNNSearch.config_class())
    with pytest.raises(InputError, match=r"data.max_length: expected at most 20, since the network reads 43 positions"):
        task(max_length=21).network(bert.BertClassifier, BERT)


def test_a_bundle_that_lacks_a_file_is_refused() -> None:
    files = task().files()
    for name in files:
        with pytest.raises(InputError, match=name):
            Rank.restore(RankedData(train="x"), {key: text for key, text in files.items() if key != name})


def test_words_begin_with_vectors_and_stay_when_frozen(tmp_path) -> None:
    (tmp_path / "v.txt").write_text("who 1 2 3 4 5\nhas 5 4 3 2 1\nunseen 0 0 0 0 1\n")
    of = task(vectors=saccade.data.tokenizers.vectors.Vectors(str(tmp_path / "v.txt"), extend=True, frozen=True))
    made = of.network(Siamese, SMALL)
    assert made.embedding.weight[of.tokenizer.encode("who")[0]].tolist() == [1, 2, 3, 4, 5]
    assert of.tokenizer.UNK not in of.tokenizer.encode("unseen") and not made.embedding.weight.requires_grad


def test_it_trains_from_memory_predicts_and_is_kept(tmp_path) -> None:
    changes = {"train": {"epochs": 1, "updates": 3, "device": "cpu"}, "model": {"hidden": 3, "mlp": 4}}
    recipe = read_recipe("siamese_facts", changes=changes)
    records = [(each.source, list(each.candidates), list(each.target)) for each in RECORDS]
    bundle = saccade.train(recipe, dict.fromkeys(("train", "valid", "test"), records), folder=tmp_path / "run")
    question, *candidates = INPUT.split("\t")
    found = bundle.predict({"question": question, "candidates": candidates})
    assert len(found) == 1 and set(found[0].probabilities) == set(candidates)
    again = saccade.load(tmp_path / "run", device="cpu")
    assert again.predict(INPUT)[0].probabilities == found[0].probabilities
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"].keys() == {
        "map",
        "mrr",
        "precision_at_1",
    }
    assert again.evaluate(records, metrics=["mrr"])["mrr"] > 0


def test_a_candidate_that_is_named_is_traced_and_edited_alone() -> None:
    ranks = task()
    made = network(ranks, replace(SMALL, compare="alignment"))
    question, *candidates = INPUT.split("\t")
    (plain,) = ranks.predict(made, [INPUT], how=Search(n_best=3, beam=3), lens=Lens())
    last = plain.alternatives[-1].value
    given = {"question": question, "candidates": candidates, "candidate": last}
    (named,) = ranks.predict(made, [given], how=Search(n_best=3, beam=3), lens=Lens())
    assert (named.value, named.probabilities) == (plain.value, plain.probabilities), "the best is the best"
    assert named.trace.about["output"] == last and named.trace.about["asked"] == given
    assert [each.trace.about["output"] for each in named.alternatives] == [each.value for each in named.alternatives]
    row = tuple(float(n == 1) for n in range(named.trace.maps[0].keys))
    edit = Set(row, site=named.trace.maps[0].site, step=0)
    (edited,) = ranks.predict(made, [given], how=Search(), lens=Lens(edits=edit))
    assert edited.trace.maps[0].weights[0].tolist() == list(row)
    ratio = {text: edited.probabilities[text] / plain.probabilities[text] for text in candidates}
    others = [ratio[text] for text in candidates if text != last]
    assert others[0] == pytest.approx(others[1], rel=1e-4), "the others kept their scores"
    assert ratio[last] != pytest.approx(others[0], rel=1e-3)


def test_a_trace_says_how_to_ask_about_its_candidate_again() -> None:
    ranks = task()
    made = network(ranks)
    (first,) = ranks.predict(made, [INPUT], how=Search(), lens=Lens())
    about = first.trace.about
    assert about["typed"] == INPUT
    for again in (about["asked"], about["typed"]):
        (second,) = ranks.predict(made, [json.loads(json.dumps(again))], how=Search(), lens=Lens())
        assert second.trace.about == about


@pytest.mark.parametrize("candidate", ["somebody", 3])
def test_a_candidate_that_is_not_one_of_them_is_refused(candidate) -> None:
    with pytest.raises(InputError, match=r"candidate.*one of the candidates"):
        task().read({"question": "who ?", "candidates": ["a", "b"], "candidate": candidate}, "input 1")

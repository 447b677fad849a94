"""Runs compared: what is measured, what is refused, and what must be told."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from saccade import api
from saccade.api.comparison import Comparison, compare, shared_references, size_on_disk
from saccade.data.pairs.records import Pair
from saccade.errors import SaccadeError
from saccade.metrics.text import chrf
from saccade.recipes.recipe import read_recipe
from tests.tiny import tiny

QUICK = {"samples": 50, "repeats": 0}
COUNT = 13  # test inputs: networks that were hardly trained write until they are stopped, which takes its time
FEW = [("5.5.09", "2009-05-05"), ("2. Mai 99", "1999-05-02"), ("3. 6. 1999", "1999-06-03")]
PAIRS = [(f"Haus {number} ist da.", f"House {number} is there.") for number in range(61)]


pytestmark = pytest.mark.usefixtures("module_unchecked")


@pytest.fixture(scope="module")
def dates(tmp_path_factory) -> list[api.Bundle]:
    """Two seeds of one recipe, hardly trained, and one trained a little longer."""
    folder = tmp_path_factory.mktemp("dates")
    small = (f"data.dates.test={COUNT}", "data.dates.valid=5", "train.updates=2")
    return [
        api.train(tiny(*small), folder=folder / "one"),
        api.train(tiny(*small, "train.seed=5"), folder=folder / "two"),
        api.train(tiny(*small[:2], "train.epochs=2", "train.lr=2e-2"), folder=folder / "longer"),
    ]


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> Callable[..., api.Bundle]:
    """Trains a small network on a few pairs, cut as is said."""
    folder, made = tmp_path_factory.mktemp("words"), {}

    def train(name: str, **tokens: object) -> api.Bundle:
        if name not in made:
            (folder / "my.yaml").write_text(
                "task: translate\ndata: {train: none.tsv}\nmodel: {name: luong, hidden: 6, embedding: 5}\n"
                "train: {updates: 2, device: cpu}\nmetrics: [bleu, exact_match]\n"
            )
            recipe = read_recipe(folder / "my.yaml", changes={"data.tokens": tokens})
            made[name] = api.train(recipe, PAIRS, folder=folder / name)
        return made[name]

    return train


def test_two_seeds_are_compared_by_everything_that_is_asked_of_a_comparison(dates) -> None:
    said: list[str] = []
    found = compare(dates[:2], by="source_tokens", samples=50, repeats=2, say=said.append)
    one, two = found.systems
    assert [system.name for system in found.systems] == ["one", "two"]
    assert (one.seed, two.seed) == (1, 5)
    assert list(found.metrics) == ["exact_match", "cer"]  # of the recipe; perplexity is no metric of outputs
    for bundle, system in zip(dates, found.systems):
        alone = bundle.evaluate(metrics=found.metrics)
        for name in found.metrics:
            figure = system.figures[name]
            assert figure.value == pytest.approx(alone[name])
            assert figure.low <= figure.value <= figure.high
        assert system.parameters == bundle.parameters
        assert system.bytes == size_on_disk(bundle) > 4 * bundle.parameters
        assert system.speed.per_second > 0
        assert (system.speed.inputs, system.speed.repeats, system.speed.device) == (COUNT, 2, "cpu, 1 thread")
    assert one.against == {}
    assert two.against["cer"].difference == pytest.approx(two.figures["cer"].value - one.figures["cer"].value)
    assert sum(score.count for score in one.by_length) == len(found) == COUNT
    assert any(f"decoding {COUNT} inputs" in text for text in said)
    assert any(f"timing {COUNT} inputs, 2 of 2" in text for text in said)
    assert found.notes == [] or all("length limit" in note for note in found.notes)


def test_a_run_does_not_differ_from_itself(dates) -> None:
    found = compare([dates[0].folder, dates[0].folder], FEW, **QUICK)
    assert [system.name for system in found.systems] == ["one (1)", "one (2)"]
    for pair in found.systems[1].against.values():
        assert (pair.difference, pair.bootstrap_p, pair.randomisation_p) == (0.0, 1.0, 1.0)
    assert found.apart == []
    assert found.systems[0].speed is None


@pytest.fixture(scope="module")
def unequal(dates) -> Comparison:
    return compare([dates[0], dates[2]], metrics=["cer"], **QUICK)


def test_a_better_run_is_told_apart(unequal) -> None:
    pair = unequal.systems[1].against["cer"]
    assert pair.difference < 0  # fewer errors
    assert max(pair.bootstrap_p, pair.randomisation_p) < 0.05
    assert pair.better == 1.0


def test_the_inputs_shown_are_those_on_which_outputs_are_furthest_apart(unequal) -> None:
    first, second = unequal.examples(2)
    assert first["source"] == unequal.sources[first["number"] - 1]

    def spread(example) -> float:
        scores = [chrf([output], [example["reference"]]).value for output in example["outputs"].values()]
        return max(scores) - min(scores)

    assert spread(first) >= spread(second) > 0
    assert spread(first) == max(spread(example) for example in unequal.examples(COUNT))


def test_the_same_comparison_gives_the_same_numbers(dates) -> None:
    one, two = (compare(dates[:2], FEW, **QUICK).to_plain(show=3) for _ in range(2))
    assert one == two


def test_a_beam_is_for_all_runs_and_else_each_has_its_own(dates) -> None:
    own = replace(dates[0].recipe, search=replace(dates[0].recipe.search, beam=2, n_best=2))
    searched = api.Bundle(own, dates[0].task, dates[0].network, folder=dates[0].folder, figures={})
    found = compare([searched, dates[1]], FEW, **QUICK)
    assert [system.search["beam"] for system in found.systems] == [2, 1]
    assert [system.search["n_best"] for system in found.systems] == [1, 1]
    found = compare([searched, dates[1]], FEW, beam=3, **QUICK)
    assert [system.search["beam"] for system in found.systems] == [3, 3]


def test_the_plot_has_a_line_a_run(dates, tmp_path: Path) -> None:
    found = compare(dates, FEW, by="source_tokens", **QUICK)
    assert found.plot(tmp_path / "lengths.svg").is_file()
    text = (tmp_path / "lengths.svg").read_text()
    for name in (">one<", ">two<", ">longer<", ">source tokens<", ">exact match<"):
        assert name in text


def test_lengths_are_counted_as_said(dates, words) -> None:
    bundle, data = words("plain", kind="characters"), [("a bb ccc", "one two"), ("ist", "one"), ("da da", "one")]
    for by, counts in (("source_words", [1, 2]), ("source_tokens", [0, 3]), ("reference_words", [2, 1])):
        found = compare([bundle], data, by=by, edges=[1], **QUICK)
        assert [score.count for score in found.systems[0].by_length] == [count for count in counts if count]
    found = compare(dates[:1], FEW, by="source_tokens", edges="quantiles", **QUICK)
    assert [score.count for score in found.systems[0].by_length] == [1, 1, 1]


# References -----------------------------------------------------------------------------------------------------------


def test_runs_that_write_references_differently_are_refused_with_an_example(words) -> None:
    plain, lower = words("plain", kind="characters"), words("lower", kind="characters", lower=True)
    with pytest.raises(SaccadeError) as error:
        compare([plain, lower], PAIRS[:5], **QUICK)
    message = str(error.value)
    assert message.startswith("plain and lower ") and "--text common" in message
    assert "'House 0 is there.' and 'house 0 is there.'" in message


def test_a_common_form_is_the_coarsest_of_all_and_holds_outputs_too(words) -> None:
    plain, cut = words("plain", kind="characters"), words("cut", kind="words", lower=True)
    found = compare([plain, cut], PAIRS[:5], text="common", **QUICK)
    assert found.references[0] == "house 0 is there ."
    assert found.text == "lower-cased, cut into words"
    assert "tok:none" in found.systems[0].figures["bleu"].signature
    pairs = [Pair(*pair) for pair in PAIRS[:5]]
    references = shared_references([plain, cut], ["plain", "cut"], pairs, "common")
    # an unknown word is one word, in every form
    assert references.written("House <unk>, there.") == "house <unk> , there ."


def test_runs_that_cut_differently_compare_where_the_text_is_the_same(words) -> None:
    plain, pieces = words("plain", kind="characters"), words("pieces", kind="bpe", size=60)
    found = compare([plain, pieces], PAIRS[:5], **QUICK)
    assert found.references[0] == "House 0 is there."
    assert "tok:13a" in found.systems[0].figures["bleu"].signature


def test_bleu_takes_words_as_cut_only_where_all_runs_cut_them(words) -> None:
    cut = words("cut", kind="words", lower=True)
    assert "tok:none" in compare([cut, cut], PAIRS[:5], **QUICK).systems[0].figures["bleu"].signature


# What must be told ----------------------------------------------------------------------------------------------------


def test_a_run_that_was_trained_on_the_others_test_set_is_reported(tmp_path: Path) -> None:
    Path(tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    (tmp_path / "my.yaml").write_text(
        "task: translate\ndata: {train: pairs.tsv, hold_out: 0.2}\nmodel: {name: luong, hidden: 6, embedding: 5}\n"
        "train: {updates: 2, device: cpu}\n"
    )
    runs = []
    for seed in (1, 2):
        recipe = read_recipe(tmp_path / "my.yaml", [f"train.seed={seed}"])
        runs.append(api.train(recipe, folder=tmp_path / f"seed-{seed}"))
    found = compare([runs[0], runs[1]], **QUICK)
    assert any(
        re.fullmatch(r"seed-2 was trained on \d+ of these 10 inputs: its scores are too optimistic", note)
        for note in found.notes
    )
    again = compare([runs[0], runs[0]], **QUICK)
    assert not any("trained on" in note for note in again.notes)


def test_one_bucket_is_reported(dates) -> None:
    found = compare(dates[:1], FEW, edges=[100], **QUICK)
    assert "all inputs are in one bucket by source_words" in found.notes[-1]


def test_runs_of_the_same_name_are_told_apart_by_their_folders(dates, tmp_path: Path) -> None:
    dates[0].save(tmp_path / "a" / "run")
    dates[1].save(tmp_path / "b" / "run")
    found = compare([tmp_path / "a" / "run", tmp_path / "b" / "run"], FEW, **QUICK)
    assert [system.name for system in found.systems] == ["a/run", "b/run"]


def test_outputs_that_are_no_texts_compare_by_exact_match(tmp_path: Path) -> None:
    small = ["data.train=40", "data.valid=5", "data.test=7", "model.hidden=7", "train.updates=2", "train.device=cpu"]
    bundle = api.train(read_recipe("pointer_sorting", small), folder=tmp_path / "run")
    found = compare([bundle, bundle], **QUICK)
    assert list(found.metrics) == ["exact_match"]
    assert found.systems[1].against["exact_match"].bootstrap_p == 1.0
    with pytest.raises(SaccadeError, match=r"unknown metric 'bleu': .* exact_match"):
        compare([bundle], metrics=["bleu"], **QUICK)


FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "perplexity": ({"metrics": ["perplexity"]}, "saccade evaluate RUN --metric perplexity"),
    "metric": ({"metrics": ["blue"]}, "unknown metric 'blue'"),
    "by": ({"by": "words"}, "by: expected one of source_words, source_tokens, reference_words, found 'words'"),
    "edges": ({"edges": "many"}, "or 'quantiles', found 'many'"),
    "text": ({"text": "lower"}, "text: expected one of own, common, found 'lower'"),
    "beam": ({"beam": 0}, "beam must be at least 1: got 0"),
    "samples": ({"samples": 0}, "samples must be at least 1: got 0"),
    "repeats": ({"repeats": -1}, "repeats must be at least 0: got -1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_done_is_told_in_a_line(dates, fault: str) -> None:
    options, message = FAULTS[fault]
    with pytest.raises(SaccadeError) as error:
        compare(dates[:1], FEW, **{**QUICK, **options})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_no_runs_and_runs_of_two_tasks_are_refused(dates) -> None:
    with pytest.raises(SaccadeError, match="expected a list of runs, found none"):
        compare([])
    other = api.Bundle(
        replace(dates[1].recipe, task="point"), dates[1].task, dates[1].network, folder=dates[1].folder, figures={}
    )
    with pytest.raises(SaccadeError, match="expected runs of one task, found point, translate"):
        compare([dates[0], other])


def test_an_input_too_long_for_one_run_names_the_run(dates) -> None:
    short = api.Bundle(
        dates[1].recipe, type(dates[1].task)(replace(dates[1].task.data, max_length=3), dates[1].task.source,
        dates[1].task.target), dates[1].network, folder=dates[1].folder, figures={},
    )  # fmt: skip
    with pytest.raises(SaccadeError, match=r"two: .*expected at most 3 tokens"):
        compare([dates[0], short], FEW, **QUICK)


def test_the_name_is_public() -> None:
    assert api.compare is compare
    assert api.Comparison is Comparison


@pytest.fixture(scope="module")
def visits(tmp_path_factory) -> Callable[..., api.Bundle]:
    """Trains a small visit network, hardly."""
    folder = tmp_path_factory.mktemp("visits")

    def train(name: str, **changes: object) -> api.Bundle:
        cohort = {"data.visits.train": 31, "data.visits.valid": 5, "data.visits.test": 53}
        brief = {"train.updates": 2, "train.device": "cpu"}
        return api.train("retain_visits", folder=folder / name, **cohort, **brief, **changes)

    return train


@pytest.mark.parametrize("at", ["end", "every"])
def test_runs_on_visits_are_compared_by_resampling_patients(visits, at: str, tmp_path) -> None:
    runs = [visits(f"seed-{seed}-{at}", **{"data.at": at, "train.seed": seed}) for seed in (1, 3)]
    found = compare(runs, **QUICK)
    assert (len(found), found.by, list(found.metrics)) == (53, "visits", ["auc", "auprc", "nll"])
    for run, system in zip(runs, found.systems, strict=True):
        figures = run.evaluate(metrics=["auc", "nll"])
        assert {name: system.figures[name].value for name in figures} == pytest.approx(dict(figures))
        assert system.figures["auc"].low <= system.figures["auc"].value <= system.figures["auc"].high
        assert sum(bucket.count for bucket in system.by_length) == 53
    one, other = found.systems
    difference = other.against["auc"]
    assert difference.difference == pytest.approx(other.figures["auc"].value - one.figures["auc"].value)
    assert 0 < difference.bootstrap_p <= 1 and 0 < difference.randomisation_p <= 1
    # Shown first are patients for whom the two probabilities lie furthest apart, and nothing of their records.
    gaps = [abs(float(a.split()[1]) - float(b.split()[1])) for a, b in zip(one.outputs, other.outputs, strict=True)]
    assert gaps[found.apart[0]] == pytest.approx(max(gaps), abs=1e-3)
    assert re.fullmatch(r"\d+ visits", found.examples(1)[0]["source"])
    assert compare(runs, by="codes", metrics=["brier"], **QUICK).plot(tmp_path / "x.png").stat().st_size > 500
    with pytest.raises(SaccadeError, match="visits, codes, found 'source_words'"):
        compare(runs, by="source_words", **QUICK)


def test_runs_that_predict_after_other_visits_are_not_compared(visits) -> None:
    whole, cut = visits("whole", **{"data.at": "every"}), visits("cut", **{"data.at": "every", "data.max_visits": 3})
    with pytest.raises(SaccadeError, match=r"data\.max_visits"):
        compare([whole, cut], **QUICK)


def test_a_test_set_of_one_kind_has_no_auc_to_compare(visits) -> None:
    patients = [{"visits": [[0, ["c1"]], [number, ["c2"]]], "outcome": 1} for number in range(1, 8)]
    with pytest.raises(SaccadeError, match=r"auc.* 7 records"):
        compare([visits("one")], patients, metrics=["auc"], **QUICK)
    # A class of lengths without both kinds has no figure, the others have.
    patients[0]["outcome"] = 0
    scores = compare([visits("two")], patients, metrics=["auc"], by="codes", **QUICK).systems[0].by_length
    assert scores[0].count == 7 and scores[0].value is not None

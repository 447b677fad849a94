"""Wishes and ensembles, as a program asks for them."""

from __future__ import annotations

import pytest
import torch

import saccade
from saccade import api
from saccade.api.bundle import _check_alike, constraints_of
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.nn.ensemble import Ensemble
from saccade.nn.search.beam_search import Diverse, Sampling, Search
from saccade.recipes.recipe import read_recipe
from saccade.task import OutputConstraints
from saccade.tasks.translate import Translate
from saccade.trace import Lens, Mask, Trace
from tests.tiny import tiny

TEXTS = ["5. Mai 2009", "sexta-feira, 7 de maio de 2010", "1.2.03"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two of one recipe, one whose vocabulary is another, and one of points."""
    home = tmp_path_factory.mktemp("runs")
    few = ("data.dates.train=90", "data.dates.valid=5", "data.dates.test=5", "metrics=[perplexity]")
    recipes = {
        "one": tiny("train.updates=3", *few),
        "two": tiny("train.updates=3", "train.seed=2", "model.hidden=7", *few),
        "other": tiny("train.updates=1", "data.dates.languages=[ru]", *few),
        "points": read_recipe("pointer_sorting", ["data.train=30", "data.valid=5", "data.test=5", "train.updates=1",
                                                      "model.hidden=5", "train.device=cpu"]),
    }  # fmt: skip
    for name, recipe in recipes.items():
        api.train(recipe, folder=home / name)
    return home


@pytest.fixture(scope="module")
def bundle(runs):
    return saccade.load(runs / "one")


# Wishes -----------------------------------------------------------------------------------------------------------------


def test_one_value_serves_all_inputs_and_a_list_each_its_own() -> None:
    assert constraints_of(2, "a", "b", ["c", "d"]) == [OutputConstraints("a", ("b",), ("c", "d"))] * 2
    assert constraints_of(2, ["a", None], [["b"], None], [[], ["c"]]) == [
        OutputConstraints("a", ("b",)),
        OutputConstraints("", (), ("c",)),
    ]
    assert constraints_of(3) == [OutputConstraints()] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": ["a"]}, r"prefix: expected one for each of the 2 input\(s\), found 1"),
        ({"prefix": 5}, "prefix: expected a text, or a list with one per input, found int"),
        ({"require": [["a"]]}, r"require: expected one for each of the 2 input\(s\), found 1"),
        ({"forbid": ["a", ["b"]]}, "forbid: expected a list of words, or one such list per input, found a mixture"),
        ({"forbid": 5}, "forbid: expected a list of words, or one such list per input, found int"),
        ({"require": [3, ["a"]]}, "input 1: require: expected a list of words, found int"),
    ],
)
def test_wishes_of_another_shape_are_errors(options, message) -> None:
    with pytest.raises(InputError, match=message):
        constraints_of(2, **options)


def test_wishes_reach_the_outputs(bundle) -> None:
    found = bundle.predict(TEXTS, prefix=["2009-", None, "20"], require=[["05"], None, ["11", "3-3"]], forbid=["9-9"])
    assert found[0].value.startswith("2009-")
    assert "05" in found[0].value
    assert found[2].value.startswith("20")
    assert "11" in found[2].value
    assert "3-3" in found[2].value
    assert all("9-9" not in each.value for each in found)


def test_required_words_widen_the_recipes_beam_and_not_one_that_was_given(bundle) -> None:
    lens = Lens(detail=["beam"])

    def width(**options) -> int:
        tree = bundle.predict(TEXTS[0], lens=lens, **options)[0].trace.tree
        return max(int(((tree.step == step) & ~tree.ended).sum()) for step in range(int(tree.step.max()) + 1))

    assert width() == 1
    assert width(require=["05"]) == 10
    assert width(require=["05"], search=Search(beam=3)) == 3


def test_a_task_without_wishes_says_so(runs) -> None:
    points = saccade.load(runs / "points")
    with pytest.raises(SaccadeError, match="the task 'point' does not take prefix, require or forbid"):
        points.predict([[0.1, 0.7]], prefix="0")
    assert points.predict([[0.1, 0.7]], search=Search(coverage=0.2, beam=2))[0].parts["coverage"] <= 0


def test_each_kind_of_search_gives_a_labelled_trace(bundle) -> None:
    for how in (Search(sample=Sampling(), n_best=2), Search(beam=4, n_best=2, diverse=Diverse()), Search(coverage=0.3),
                Search(beam=2, block_ngrams=2, unknown="copy")):  # fmt: skip
        for each in bundle.predict(TEXTS, lens=Lens(), search=how):
            weights = each.trace.map("decoder.attention").weights
            assert weights.shape == (len(each.trace.axes["target"]), len(each.trace.axes["source"]))
            torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))


# Ensembles --------------------------------------------------------------------------------------------------------------


def test_an_ensemble_averages_its_members_and_has_the_maps_of_each(runs, tmp_path) -> None:
    both = saccade.load([runs / "one", str(runs / "two")])
    assert isinstance(both.network, Ensemble)
    assert [member.folder for member in both.members] == [runs / "one", runs / "two"]
    assert both.parameters == sum(member.parameters for member in both.members)
    trace = both.predict(TEXTS[0], lens=Lens(detail=["outputs"]), search=Search(beam=2))[0].trace
    assert {map.site for map in trace.maps} == {"1/decoder.attention", "2/decoder.attention"}
    assert trace.about["model"] == "rnnsearch + rnnsearch"
    first = [member.predict(TEXTS[0], lens=Lens(detail=["outputs"]))[0].trace.outputs for member in both.members]
    likely = dict(zip(trace.outputs.index[0].tolist(), trace.outputs.probability[0].tolist(), strict=True))
    for token, probability in likely.items():
        parts = [dict(zip(o.index[0].tolist(), o.probability[0].tolist(), strict=True)).get(token) for o in first]
        if None not in parts:
            assert probability == pytest.approx(sum(parts) / 2, abs=1e-5)
    assert Trace.load(trace.save(tmp_path / "both.trace")).map("2/decoder.attention").keys == len(TEXTS[0]) + 1
    assert trace.save(tmp_path / "both.png").stat().st_size > 1000


def test_an_edit_may_name_a_member(runs) -> None:
    both = saccade.load([runs / "one", runs / "two"])
    trace = both.predict(TEXTS[0], lens=Lens(edits=[Mask([0], site="2/decoder.attention")]))[0].trace
    assert float(trace.map("2/decoder.attention").weights[:, 0].max()) == 0
    assert float(trace.map("1/decoder.attention").weights[:, 0].max()) > 0


def test_a_run_with_itself_is_that_run(runs, bundle) -> None:
    twice = saccade.load([runs / "one", runs / "one"])
    assert [each.value for each in twice.predict(TEXTS)] == [each.value for each in bundle.predict(TEXTS)]
    pairs = [("5. Mai 2009", "2009-05-05"), ("6.7.99", "1999-07-06")]
    figures = twice.evaluate(pairs, metrics=["cer", "perplexity"])
    assert figures == pytest.approx(bundle.evaluate(pairs, metrics=["cer", "perplexity"]), rel=1e-4)
    assert saccade.load([runs / "one"]).members == ()


def test_an_ensemble_is_not_saved(runs, tmp_path) -> None:
    with pytest.raises(SaccadeError, match="an ensemble has no file of its own: load its runs together"):
        saccade.load([runs / "one", runs / "two"]).save(tmp_path / "x")


def test_runs_that_cannot_be_averaged_are_named(runs) -> None:
    with pytest.raises(InputError) as fault:
        saccade.load([runs / "one", runs / "other"])
    assert str(runs / "one") in str(fault.value)
    assert str(runs / "other") in str(fault.value)
    assert "vocabulary" in str(fault.value)
    with pytest.raises(
        InputError, match=r"points: expected a run of the task 'translate', as .*one, found one of 'point'"
    ):
        saccade.load([runs / "one", runs / "points"])
    with pytest.raises(SaccadeError, match=r"expected one run, or several .*, found none"):
        saccade.load([])


def test_a_target_vocabulary_that_differs_is_called_so(runs, bundle) -> None:
    other = saccade.load(runs / "two")
    other.task = Translate(other.task.data, other.task.source, Tokenizer.train(["0123"], other.task.data.tokens))
    expected = r"two: expected the target vocabulary of .*one, found another one \(tokenizer.target.json\)"
    with pytest.raises(InputError, match=expected):
        _check_alike(bundle, other)

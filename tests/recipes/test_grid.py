"""Several values for a field: where a value is cut, and the product of them."""

import pytest

from saccade.errors import InputError
from saccade.recipes.grid import is_sweep, read_grid, split_values
from saccade.recipes.recipe import read_recipe


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("128", ["128"]),
        ("128,256", ["128", "256"]),
        ("1e-3, 3e-4 ,1", ["1e-3", "3e-4", "1"]),
        ("[0.9,0.98]", ["[0.9,0.98]"]),
        ("[0.9,0.98],[0.9,0.999]", ["[0.9,0.98]", "[0.9,0.999]"]),
        ("{kind: words, sizes: [1,2]},null", ["{kind: words, sizes: [1,2]}", "null"]),
        ("'a,b.tsv'", ["'a,b.tsv'"]),
        ("\"a,b\",'c,d',e", ['"a,b"', "'c,d'", "e"]),
        ("[1,2", ["[1,2"]),
        ("", [""]),
        ("1,", ["1", ""]),
    ],
)
def test_a_value_is_cut_at_commas_outside_brackets_and_quotes(written, values):
    assert split_values(written) == values
    assert is_sweep([f"model.hidden={written}"]) is (len(values) > 1)


def test_the_members_are_the_product_the_last_field_changing_fastest():
    members = read_grid("rnnsearch_dates", ["model.hidden=3,5,7", "train.lr=1e-3,3e-4", "train.epochs=2"])
    assert [(each.recipe.model.hidden, each.recipe.train.lr) for each in members] == [
        (3, 1e-3), (3, 3e-4), (5, 1e-3), (5, 3e-4), (7, 1e-3), (7, 3e-4)
    ]  # fmt: skip
    assert members[0].settings == {"model.hidden": "3", "train.lr": "1e-3"}
    assert {each.recipe.train.epochs for each in members} == {2}


def test_python_gives_lists_of_values_and_a_tuple_is_one():
    given = {"model": {"hidden": [3, 5]}, "train.betas": (0.8, 0.9), "metrics": [["bleu"], ["chrf", "bleu"]]}
    members = read_grid("rnnsearch_dates", given)
    assert [(each.recipe.model.hidden, each.recipe.metrics) for each in members] == [
        (3, ("bleu",)), (3, ("chrf", "bleu")), (5, ("bleu",)), (5, ("chrf", "bleu"))
    ]  # fmt: skip
    assert {each.recipe.train.betas for each in members} == {(0.8, 0.9)}


def test_a_recipe_in_hand_takes_both_kinds():
    recipe = read_recipe("rnnsearch_dates", ["train.epochs=3"])
    for overrides in (["model.hidden=3,5"], {"model.hidden": [3, 5]}):
        members = read_grid(recipe, overrides)
        assert [(each.recipe.model.hidden, each.recipe.train.epochs) for each in members] == [(3, 3), (5, 3)]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.hidden=3,"], r"model\.hidden: expected a value on each side of a comma"),
        (["model.hidden=3,3"], r"model\.hidden: expected each value once, found 3 twice"),
        (["model.hidden=3,5", "model.hidden=7"], r"model\.hidden: expected its values once"),
        (["model.hidden=3,x"], r"model\.hidden: expected a whole number, found 'x'"),
        (["model.hiden=3,5"], r"model\.hiden: .*did you mean 'hidden'"),
        (["metrics=bleu,chrf"], r"metrics: expected a list of texts.*write metrics=\[bleu,chrf\]"),
        (["train.watch=loss,bleu"], r"train\.watch: expected one metric .*, found loss and bleu"),
        ([f"train.seed={','.join(map(str, range(1001)))}"], r"at most 1,000 runs in a sweep, found 1,001"),
        ({"model.hidden": []}, r"overrides: model\.hidden: expected values to try, found an empty list"),
    ],
)
def test_a_fault_is_found_before_anything_is_trained(overrides, message):
    with pytest.raises(InputError, match=message):
        read_grid("rnnsearch_dates", overrides)

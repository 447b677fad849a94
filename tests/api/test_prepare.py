"""What a run begins with: what a task refuses of its recipe is told with the recipe's file, in the recipe's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade import api
from saccade.api.prepare import prepare, read_splits
from saccade.errors import DataWarning, InputError
from saccade.models import MODELS, name_of, network_class
from saccade.recipes.recipe import Recipe, from_plain, read_recipe

RECIPES = {
    "classify": ("{source: opinions, opinions: {train: 9, valid: 5, test: 5}}", "rnnsearch"),
    "translate": ("{source: dates, dates: {train: 9, valid: 5, test: 5}}", "bert"),
    "language": ("{train: lines.txt, valid: lines.txt, test: lines.txt}", "luong"),
    "pretrain": ("{source: topics, topics: {train: 9, valid: 5, test: 5}, tokens: {size: 90}}", "bert_classifier"),
    "point": ("{source: sorting, train: 9, valid: 5, test: 5}", "seq2seq"),
}


def recipe(folder: Path, task: str, model: str, data: str, name: str = "my.yaml") -> Recipe:
    (folder / "lines.txt").write_text("a b c\n" * 9)
    (folder / name).write_text(f"task: {task}\ndata: {data}\nmodel: {{name: {model}}}\ntrain: {{device: cpu}}\n")
    return read_recipe(folder / name)


@pytest.mark.parametrize("task", RECIPES)
def test_a_network_of_another_task_is_refused_by_its_own_name_and_the_recipes_file(tmp_path, task) -> None:
    data, model = RECIPES[task]
    mine = recipe(tmp_path, task, model, data)
    with pytest.raises(InputError) as error:
        prepare(mine, read_splits(mine, None))
    assert str(error.value).startswith(f"{tmp_path / 'my.yaml'}:3: model.name: expected a ")
    assert str(error.value).endswith(f", found {model!r}")


def test_a_recipe_that_is_not_a_file_is_called_by_its_name(tmp_path) -> None:
    mine = recipe(tmp_path, "classify", "rnnsearch", RECIPES["classify"][0], "other.yml")
    splits = read_splits(mine, None)
    for path in (f"{tmp_path / 'other.yml'}:3", "other"):
        with pytest.raises(InputError) as error:
            prepare(mine, splits)
        assert str(error.value).startswith(f"{path}: model.name")
        (tmp_path / "other.yml").unlink(missing_ok=True)


def test_what_a_built_in_source_refuses_names_the_file_too(tmp_path) -> None:
    pytest.importorskip("babel", reason="Babel is not installed")
    mine = recipe(tmp_path, "translate", "luong", "{source: spelling, spelling: {language: qq}}")
    with pytest.raises(InputError, match=r"my\.yaml:2: data\.spelling\.language: expected a locale of CLDR"):
        read_splits(mine, None)


def test_other_faults_keep_their_own_place(tmp_path) -> None:
    mine = recipe(tmp_path, "classify", "attentive_classifier", "{train: nothing.csv}")
    with pytest.raises(InputError, match=r"nothing\.csv"):
        api.train(mine, folder=tmp_path / "run")


def test_every_network_knows_what_recipes_call_it() -> None:
    assert [name_of(network_class(name)) for name in MODELS] == list(MODELS)
    assert name_of(Recipe) == "saccade.recipes.recipe:Recipe"


GIVEN: dict[str, tuple[str, list[object], list[object], str]] = {
    "classify": (
        "attentive_classifier", [(f"text {n}", "ab"[n % 2]) for n in range(40)], [("a text", float("nan")), (" ", "a"), 7],
        "no text or no label",
    ),
    "translate": (
        "luong", [(f"text {n}", f"Text {n}") for n in range(40)], [("a text", None), ("a", "b", "c"), {"source": "a"}],
        "not text",
    ),
    "label": (
        "attentive_tagger", [(["a", str(n)], ["B-X", "O"]) for n in range(40)], [(["a"], ["O", "O"]), "a b", (["a"], [None])],
        "no word or no tag",
    ),
    "rank": (
        "siamese", [(f"what {n} ?", ("yes", "no"), (1, n % 2)) for n in range(40)],
        [("what ?", ("yes", "no"), (1,)), 7, ("", ("yes", "no"), (1, 0))], "lists of unequal length",
    ),
    "language": ("recurrent_lm", [f"text {n}" for n in range(40)], [3, None, {"body": "a"}], "a missing key"),
    "point": ("pointer", [([[n, 1], [2, n]], [0]) for n in range(40)], [([], []), "a", ([1], [1])], "malformed points"),
}  # fmt: skip


@pytest.mark.parametrize("task", GIVEN)
def test_faulty_records_in_hand_are_dropped_and_counted_where_the_recipe_says_so(tmp_path, task) -> None:
    model, sound, faulty, reason = GIVEN[task]
    given = [*sound[:3], *faulty, *sound[3:]]
    strict = recipe(tmp_path, task, model, "{train: none.tsv}")
    with pytest.raises(InputError, match="data:4: "):
        read_splits(strict, given)
    splits = read_splits(recipe(tmp_path, task, model, "{train: none.tsv, faults: drop}"), given)
    assert (splits.train, splits.valid, splits.test) == tuple(
        getattr(read_splits(strict, sound), name) for name in ("train", "valid", "test")
    )
    told = splits.notes[0]
    assert told.startswith("data.train: dropped 3 of 43 records: ") and reason in told and "(first: 4)" in told


def test_faulty_rows_of_a_frame_are_dropped_in_evaluation_as_in_training_and_refused_on_request(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [f"text {n}" for n in range(40)], "label": list("ab" * 20)})
    frame.loc[17, "label"] = None
    mine = recipe(tmp_path, "classify", "attentive_classifier", "{train: none.tsv, faults: drop}")
    bundle = api.train(mine, frame, folder=tmp_path / "run", train={"updates": 1}, model={"hidden": 3, "embedding": 3})
    with pytest.warns(DataWarning, match=r"dropped 1 of 40 records: 1 not text \(first: 18\)"):
        bundle.evaluate(frame, metrics=["accuracy"])
    with pytest.raises(InputError, match="data:18: label: expected a label, found null"):
        bundle.evaluate(frame, metrics=["accuracy"], **{"data.faults": "error"})


OPINIONS = "{source: opinions, opinions: {train: 9, valid: 5, test: 5}}"
DATES = "{source: dates, dates: {train: 9, valid: 5, test: 5}}"
TOPICS = "{source: topics, topics: {train: 9, valid: 5, test: 5}, tokens: {size: 90}, length: 32}"
REPEATS = "{source: repeats, repeats: {train: 9, valid: 5, test: 5}}"
LINES = "{train: lines.txt, valid: lines.txt, test: lines.txt}"
FACTS = "{source: facts, facts: {train: 9, valid: 5, test: 5}}"
PAIRS = "{train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, columns: {second: second}}"
BERT = "layers: 1, width: 6, heads: 3, feed_forward: 5, positions: 500, segments: 1"
CRF = "train: {device: cpu, label_smoothing: 0.1}"
NO_SHARE = (
    "train.label_smoothing: expected 0: a CRF scores whole tag sequences, so there is no distribution per word to smooth, "
    "found 0.1"
)
BLIND = "the network {} has no attention on a source, found {}"
IN_PAIRS = ":3: model.segments: expected at least 2 where texts come in pairs, found 1"
UNFIT = {
    "coverage": ("translate", DATES, "seq2seq", "search: {coverage: 0.2}",
                 ":4: search.coverage: expected 0: " + BLIND.format("seq2seq", "0.2")),
    "copy": ("translate", DATES, "seq2seq", "search: {unknown: copy}",
             ":4: search.unknown: expected keep: " + BLIND.format("seq2seq", "'copy'")),
    "language": ("language", LINES, "transformer_lm, layers: 1, width: 6, heads: 3", "search: {coverage: 0.2}",
                 ":4: search.coverage: expected 0: " + BLIND.format("transformer_lm", "0.2")),
    "recurrent": ("language", LINES, "recurrent_lm", "search: {unknown: copy}",
                  ":4: search.unknown: expected keep: " + BLIND.format("recurrent_lm", "'copy'")),
    "crf": ("label", REPEATS, "attentive_tagger, output: crf", CRF, f":4: {NO_SHARE}"),
    "transformer crf": ("label", REPEATS, "transformer_tagger, output: crf", CRF, f":4: {NO_SHARE}"),
    "pretrain": ("pretrain", TOPICS, f"bert, {BERT}", "about: x", IN_PAIRS),
    "classify": ("classify", PAIRS, f"bert_classifier, {BERT}", "about: x", IN_PAIRS),
    "rank": ("rank", FACTS, f"bert_classifier, {BERT}", "about: x", IN_PAIRS),
}  # fmt: skip


def written(folder: Path, task: str, data: str, model: str, rest: str) -> Path:
    (folder / "lines.txt").write_text("a b c\n" * 9)
    (folder / "pairs.tsv").write_text("text\tsecond\tlabel\n" + "a b\tc d\tyes\nb a\td c\tno\n" * 9)
    (folder / "my.yaml").write_text(f"task: {task}\ndata: {data}\nmodel: {{name: {model}}}\n{rest}\n")
    return folder / "my.yaml"


@pytest.mark.parametrize("case", UNFIT)
def test_what_a_network_cannot_do_is_refused_at_its_line_before_it_is_trained(tmp_path, case) -> None:
    *parts, message = UNFIT[case]
    path = written(tmp_path, *parts)
    for begun in (lambda: api.plan(path), lambda: api.train(path, folder=tmp_path / "run")):
        with pytest.raises(InputError) as error:
            begun()
        assert str(error.value) == f"{path}{message}"
    assert not (tmp_path / "run").exists()


def test_what_was_set_elsewhere_than_in_the_file_has_no_line_there(tmp_path) -> None:
    path = written(tmp_path, "translate", DATES, "seq2seq", "search: {coverage: 0.0}")
    with pytest.raises(InputError, match=r"my\.yaml: search\.coverage: expected 0: .*, found 0\.2$"):
        api.plan(path, search={"coverage": 0.2})


@pytest.mark.parametrize("search", ["coverage: 0.2", "unknown: copy"])
@pytest.mark.parametrize("model", ["rnnsearch", "luong", "transformer, layers: 1, width: 6, heads: 3"])
def test_networks_that_look_at_a_source_may_be_searched_by_it(tmp_path, model, search) -> None:
    mine = read_recipe(written(tmp_path, "translate", DATES, model, f"search: {{{search}}}"))
    assert prepare(mine, read_splits(mine, None)).recipe.search.looks


def test_one_segment_is_enough_where_texts_come_alone(tmp_path) -> None:
    for task, data, model in (
        ("classify", OPINIONS, "bert_classifier"),
        ("pretrain", TOPICS.replace("length", "pairs: none, length"), "bert"),
    ):
        mine = read_recipe(written(tmp_path, task, data, f"{model}, {BERT}", "about: x"))
        assert prepare(mine, read_splits(mine, None)).recipe.model.segments == 1


def test_a_run_that_began_with_a_search_its_network_is_blind_for_continues(tmp_path) -> None:
    mine = read_recipe(written(tmp_path, "translate", DATES, "seq2seq", "search: {coverage: 0.2}"))
    kept = from_plain(mine.to_plain(), name="old", folder=mine.folder, where="old")
    assert prepare(kept, read_splits(kept, None)).recipe.search.coverage == 0.2


def test_a_run_that_wants_a_figure_it_has_not_is_refused_before_it_continues(tmp_path) -> None:
    mine = read_recipe(written(tmp_path, "pretrain", TOPICS, f"bert, {BERT}", "metrics: [nsp_accuracy]"))
    plain = mine.to_plain()
    plain["data"]["pairs"] = "none"
    kept = from_plain(plain, name="old", folder=mine.folder, where="old")
    with pytest.raises(InputError, match=r"old: metrics\[0\]: expected metrics of masked words .* data\.pairs is none"):
        prepare(kept, read_splits(kept, None))

"""Train, load, predict, evaluate, as a program does."""

import functools
import json
import re
import subprocess
import sys
from dataclasses import replace

import pandas
import pytest
import torch

import saccade
from saccade import api
from saccade.bundle_format import _checksum
from saccade.errors import InputError, SaccadeError
from saccade.nn.search.beam_search import Search
from saccade.recipes.recipe import read_recipe
from saccade.trace import Lens, Mask, Set
from tests.tiny import SMALL, tiny

SITE = "decoder.attention"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return api.train(tiny("train.epochs=1"), folder=tmp_path_factory.mktemp("runs") / "run")


def test_a_loaded_bundle_predicts_what_the_trained_one_did(bundle):
    inputs = ["5. Mai 2009", "terça-feira, 5 de maio de 2009"]
    again = saccade.load(bundle.folder, device="cpu")
    assert [p.value for p in again.predict(inputs)] == [p.value for p in bundle.predict(inputs)]
    assert again.figures == bundle.figures
    assert again.recipe.to_plain() == bundle.recipe.to_plain()


def test_predictions_keep_the_order_of_their_inputs(bundle):
    inputs = ["1. Januar 1999 und noch viel länger", "2. Mai 09", "3. Juni 1999"]
    alone = [bundle.predict(text)[0].value for text in inputs]
    assert [p.value for p in bundle.predict(inputs)] == alone


def test_a_trace_is_labelled_with_the_tokens_of_both_texts(bundle):
    prediction = bundle.predict("5. Mai 2009", lens=Lens())[0]
    trace = prediction.trace
    assert "".join(trace.axes["source"].labels) == "5. Mai 2009<eos>"
    assert "".join(trace.axes["target"].labels).removesuffix("<eos>") == prediction.value
    weights = trace.map(SITE).weights
    assert weights.shape == (len(trace.axes["target"]), len("5. Mai 2009") + 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))
    assert trace.about["model"] == "rnnsearch"
    assert trace.about["input"] == "5. Mai 2009"


def test_unknown_characters_are_labelled_as_written_and_noted(bundle):
    prediction = bundle.predict("5. Mai ☃ 2009", lens=Lens())[0]
    assert "☃" in prediction.trace.axes["source"].labels
    assert prediction.notes[0] == "1 of 13 tokens not in the vocabulary"


def test_a_masked_position_is_not_looked_at_and_the_others_take_its_weight(bundle):
    lens = Lens(edits=[Mask([3, 4], site=SITE)])
    weights = bundle.predict("5. Mai 2009", lens=lens)[0].trace.map(SITE).weights
    assert bool((weights[:, 3:5] == 0).all())
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))


def test_a_set_row_is_what_the_network_reads_at_that_step(bundle):
    text = "5. Mai 2009"
    row = [0.0] * (len(text) + 1)
    row[2] = 1.0
    plain = bundle.predict(text, lens=Lens(detail=["outputs"]))[0].trace
    edited = bundle.predict(text, lens=Lens(edits=[Set(row, site=SITE, step=0)], detail=["outputs"]))[0].trace
    assert edited.map(SITE).weights[0].tolist() == row
    assert not torch.equal(edited.outputs.probability[0], plain.outputs.probability[0])


def test_an_edit_at_a_site_that_does_not_exist_raises(bundle):
    with pytest.raises(SaccadeError, match=r"never applied: the model has sites decoder\.attention"):
        bundle.predict("5. Mai 2009", lens=Lens(edits=[Mask([0], site="decoder.atention")]))


def test_everything_a_step_through_needs_can_be_asked_for(bundle):
    lens = Lens(detail=["scores", "context", "state", "outputs", "beam"])
    trace = bundle.predict("5. Mai 2009", lens=lens, search=Search(beam=3))[0].trace
    T, S = len(trace.axes["target"]), len(trace.axes["source"])
    assert trace.map(SITE).tensors["scores"].shape == (T, S)
    assert trace.signals[f"{SITE}.context"].values.shape == (T, 18)
    assert trace.signals["decoder.state"].values.shape == (T, 9)
    assert trace.signals["encoder.state"].values.shape == (S, 18)
    assert len(trace.outputs.labels) == T
    chosen = [trace.tree.labels[i] for i in torch.nonzero(trace.tree.chosen).flatten().tolist()]
    assert chosen == list(trace.axes["target"].labels)


def test_the_best_of_a_beam_comes_first_and_the_others_follow(bundle):
    prediction = bundle.predict("5. Mai 2009", search=Search(beam=4, n_best=3))[0]
    scores = [prediction.score, *(other.score for other in prediction.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


@pytest.mark.parametrize(("text", "found"), [("", "nothing"), ("  \t", "whitespace only")])
def test_an_empty_input_is_an_error_that_names_it(bundle, text, found):
    with pytest.raises(InputError, match=f"input 2: expected a text, found {found}"):
        bundle.predict(["5. Mai 2009", text])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": None}, "inputs: expected a text.*, found a NoneType"),
        ({"inputs": 5}, "inputs: expected a text.*, found a int"),
        ({"inputs": ["5. Mai 2009", None]}, "input 2: expected a text, found NoneType"),
        ({"lens": "top"}, "lens: expected a saccade.Lens, found str"),
        ({"lens": Lens}, "lens: expected a saccade.Lens, found type"),
        ({"search": {"beam": 4}}, r"search: expected a saccade.nn.Search, as in Search\(beam=4\), found dict"),
        ({"search": ""}, r"search: expected a saccade.nn.Search, .* found str"),
        ({"dictionary": 5}, "dictionary: expected a mapping, source word → target word, found int"),
    ],
)
def test_an_argument_of_another_kind_is_named_with_what_was_expected(bundle, given, message):
    with pytest.raises(InputError, match=message):
        bundle.predict(**{"inputs": "5. Mai 2009", **given})


def test_the_kind_that_an_error_names_can_be_had_by_that_name(bundle):
    with pytest.raises(InputError) as error:
        bundle.predict("5. Mai 2009", search=4)
    named = re.search(r"saccade[.\w]*", str(error.value)).group()
    assert functools.reduce(getattr, named.split(".")[1:], saccade) is Search


def test_inputs_may_lie_in_whatever_holds_them(bundle):
    texts = ["1. Januar 1999", "2. Mai 09"]
    expected = [prediction.value for prediction in bundle.predict(texts)]
    for given in (tuple(texts), iter(texts), (text for text in texts), dict.fromkeys(texts).keys()):
        assert [prediction.value for prediction in bundle.predict(given)] == expected
    assert bundle.predict([]) == []


def test_an_evaluation_refuses_a_search_of_another_kind(bundle):
    with pytest.raises(InputError, match=r"search: expected a saccade\.nn\.Search"):
        bundle.evaluate([("1. Januar 1999", "1999-01-01")], search={"beam": 4})


def test_an_over_long_input_is_an_error_or_a_noted_cut(bundle, tmp_path):
    with pytest.raises(InputError, match="expected at most 80 tokens, found 99"):
        bundle.predict("1" * 99)
    cutting = api.train(
        tiny("train.updates=1", "data.too_long=truncate", "data.max_length=60"), folder=tmp_path / "cut"
    )
    assert cutting.predict("1" * 99, lens=Lens())[0].notes[0] == "cut to its first 60 tokens"


def test_evaluation_takes_pairs_a_file_or_the_recipes_test_set(bundle, tmp_path):
    own = bundle.evaluate()
    assert own == pytest.approx(bundle.figures["test"])
    file = tmp_path / "pairs.tsv"
    file.write_text("5. Mai 2009\t2009-05-05\n")
    assert bundle.evaluate(file, metrics=["cer"]) == bundle.evaluate([("5. Mai 2009", "2009-05-05")], metrics=["cer"])


def test_training_takes_lists_dicts_and_frames(tmp_path):
    pairs = [(f"quelle {number}", f"ziel {number}") for number in range(33)]
    dicts = [{"source": source, "target": target} for source, target in pairs]

    class Frame:  # what a pandas DataFrame offers
        columns = ("source", "target")

        def to_dict(self, orient):
            return dicts

    recipe = tiny("train.updates=1")
    for number, data in enumerate((pairs, dicts, Frame(), {"train": pairs, "valid": pairs[:3]})):
        bundle = api.train(recipe, data, folder=tmp_path / str(number))
        assert bundle.evaluate().keys() == bundle.figures["test"].keys()  # on what was held out of it
        with pytest.raises(
            SaccadeError, match=r"trained on data given in memory, .* pass records: --data FILE, or data= in Python"
        ):
            api.load(tmp_path / str(number)).evaluate()
        assert bundle.task.source.decode(bundle.task.source.encode("quelle 7")) == "quelle 7"


def test_a_recipe_may_be_a_dict_wherever_one_is_taken(tmp_path):
    plain = {"task": "translate", "model": {"name": "rnnsearch", "embedding": 7, "hidden": 9}, "train": {"updates": 1}}
    pairs = [(f"quelle {number}", f"ziel {number}") for number in range(33)]
    assert api.train(plain, pairs, folder=tmp_path / "run", train={"lr": 0.5}).recipe.train.lr == 0.5
    assert api.plan(plain, pairs).records["train"] == 29
    swept = api.sweep(plain, {"model.hidden": [5, 7]}, pairs, folder=tmp_path / "sweep")
    assert [run.state for _, run in swept.members] == ["done", "done"]
    with pytest.raises(InputError, match=r"data: .*required"):
        api.train(plain)
    with pytest.raises(InputError, match=r"data\.train: expected a file, found a list \(.*train\(recipe, data\)"):
        api.train({**plain, "data": {"train": pairs}})
    for given in (pairs, pandas.DataFrame(pairs)):
        with pytest.raises(
            InputError, match=r"recipe: data: expected a section of the recipe, found a .*train\(recipe, data\)"
        ):
            api.train({**plain, "data": given})


@pytest.mark.parametrize("given", [None, 3, b"runs/my", {"runs/my": 1}])
def test_what_is_no_folder_is_not_loaded(given, shapes_unchecked):
    with pytest.raises(
        InputError, match=f"folder: expected a run's folder, or a list .*found a {type(given).__name__}"
    ):
        saccade.load(given)
    if given is not None:
        with pytest.raises(
            InputError, match=f"folder: expected the path of a new folder, found a {type(given).__name__}"
        ):
            saccade.train("rnnsearch_dates", folder=given)


def test_one_metric_may_be_named_without_a_list(bundle):
    pairs = [("5. Mai 2009", "2009-05-05"), ("7 May 2011", "2011-05-07")]
    assert bundle.evaluate(pairs, metrics="cer") == bundle.evaluate(pairs, metrics=["cer"])


def test_what_a_trace_has_is_looked_for_there(bundle):
    plain, seen = bundle.predict("5. Mai 2009")[0], bundle.predict("5. Mai 2009", lens=Lens())[0]
    with pytest.raises(AttributeError, match=r"no 'show'.*lens=saccade\.Lens\(\)"):
        plain.show()
    with pytest.raises(AttributeError, match=r"no 'maps'.*prediction\.trace\.maps$"):
        assert seen.maps
    with pytest.raises(AttributeError, match="no 'mapss': its detail is"):
        assert seen.mapss


def test_overrides_reach_the_recipe(tmp_path):
    sizes = {"data.dates.train": 40, "data.dates.valid": 9, "data.dates.test": 9}
    bundle = saccade.train(
        "rnnsearch_dates", folder=tmp_path / "run", train={"updates": 1}, model={"hidden": 5}, **sizes
    )
    assert bundle.recipe.model.hidden == 5
    assert "model.hidden" in bundle.recipe.changed


def test_a_changed_recipe_is_not_held_to_its_figure_but_an_unchanged_one_is(bundle):
    assert api.verdict(bundle).met
    assert "not checked" in api.verdict(bundle).text
    bundle.recipe = replace(bundle.recipe, changed=())
    try:
        assert not api.verdict(bundle).met
        assert "missed with" in api.verdict(bundle).text
    finally:
        bundle.recipe = replace(bundle.recipe, changed=SMALL)


def test_a_network_without_attention_trains_and_has_no_maps(tmp_path):
    small = [part for part in SMALL if not part.startswith("model")]
    recipe = read_recipe("seq2seq_cho_dates", [*small, "model.hidden=9", "train.updates=2"])
    bundle = api.train(recipe, folder=tmp_path / "run")
    trace = bundle.predict("5. Mai 2009", lens=Lens(detail=["state"]))[0].trace
    assert trace.maps == ()
    assert trace.signals["decoder.state"].values.shape[1] == 9


def test_a_run_is_not_written_over(bundle):
    with pytest.raises(InputError, match="expected a new folder, found a run"):
        api.train(tiny(), folder=bundle.folder)


def test_neither_a_saved_bundle_nor_a_sweep_is_trained_over(bundle, tmp_path):
    bundle.save(tmp_path / "saved")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    for name in ("saved", "sweep"):
        with pytest.raises(InputError, match="expected a new folder, found a"):
            api.train(tiny("train.updates=1"), folder=tmp_path / name)


def test_a_run_that_never_came_to_a_checkpoint_is_to_be_removed_or_another_folder_named(tmp_path, monkeypatch):
    def broken(job, resume):
        raise SaccadeError("a full disk")

    run = tmp_path / "run"
    monkeypatch.setattr(api.training, "fit", broken)
    with pytest.raises(SaccadeError, match="a full disk"):
        api.train(tiny("train.updates=1"), folder=run)
    found = "found a run that stopped before its first checkpoint (remove that folder, or name another)"
    expected = f"expected a new folder, {found}"
    for begin in (
        lambda: api.train(tiny("train.updates=1"), folder=run),
        lambda: api.sweep(tiny("train.updates=1"), {"model.hidden": [3, 5]}, folder=run),
    ):
        with pytest.raises(InputError) as refused:
            begin()
        assert str(refused.value) == f"{run}: {expected}"
    with pytest.raises(SaccadeError, match="remove that folder and train again"):
        api.resume(run)


def test_a_device_that_is_not_there_is_one_clear_error(bundle):
    with pytest.raises(SaccadeError, match="device: expected auto, cpu, or one that this machine has, found 'gpu'"):
        api.load(bundle.folder, device="gpu")


@pytest.mark.parametrize(("field", "value"), [("threads", "abc"), ("threads", None), ("figures", 5), ("files", 5)])
def test_a_config_with_wrong_values_is_refused_in_one_line(bundle, tmp_path, field, value):
    bundle.save(tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    config = {key: part for key, part in json.loads(path.read_text()).items() if key != "checksum"} | {field: value}
    path.write_text(json.dumps(config | {"checksum": _checksum(config)}))
    with pytest.raises(InputError):
        api.load(tmp_path / "run")


def test_what_the_documentation_calls_by_its_full_name_needs_no_further_import() -> None:
    script = "import saccade; saccade.api.resume, saccade.metrics, saccade.explain, saccade.errors, saccade.data"
    subprocess.run([sys.executable, "-c", script], check=True)

"""The task caption: pictures with one or many captions, soft and hard attention in training, search, traces, what-if edits."""

from __future__ import annotations

import base64
import io
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from saccade.data.images.batch import scaled
from saccade.data.images.config import Augment
from saccade.data.images.pictures import ImageConfig, fit_picture, png_of
from saccade.data.images.records import CaptionData, Captioned
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.data.toy.shapes import Shapes
from saccade.errors import InputError, SaccadeError
from saccade.explain.erasure import curve
from saccade.models.rnnsearch import Config as TextConfig
from saccade.models.rnnsearch import RNNSearch
from saccade.models.show_attend_tell import Config, ShowAttendTell, coverage_penalty
from saccade.nn.captioner import Looks
from saccade.nn.ensemble import Ensemble
from saccade.nn.search.beam_search import Sampling, Search
from saccade.recipes.recipe import read_recipe
from saccade.task import OutputConstraints
from saccade.tasks.caption import Caption
from saccade.testing import check_task
from saccade.trace import Boost, Lens, Mask, Set, Trace
from tests.training.small_tasks import DieAt, Died, assert_same_run, checkpoint, train

DATA = CaptionData(
    source="shapes", shapes=Shapes(train=23, valid=5, test=7, size=16), image=ImageConfig(size=16), max_length=12
)
SMALL = Config((4, 6), hidden=5, embedding=4, alignment=3, dropout=0.0, penalty=0.3)
HARD = Config((4, 6), hidden=5, embedding=4, alignment=3, dropout=0.2, attention="hard", penalty=0.3, entropy=0.01)


def made(config: Config = SMALL, data: CaptionData = DATA) -> tuple[Caption, Any, Any]:
    splits = Caption.load(data, Path("."), 1)
    task = Caption.learn(data, splits.train)
    torch.manual_seed(1)
    network = task.network(ShowAttendTell, config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
    return task, network.eval(), splits


def photo(height: int = 30, width: int = 50, seed: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def several() -> list[Captioned]:
    """Three pictures with 2, 1 and 3 captions."""
    captions = [("a red dog", "one dog runs here"), ("a cat",), ("two cats", "a red cat sits", "cats")]
    data = CaptionData(train="unused")
    return Caption.records([(photo(seed=n), list(texts)) for n, texts in enumerate(captions)], data)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("attention", ["soft", "hard", "mean"])
def test_the_task_keeps_its_promises(attention: Any) -> None:
    # Few cells, which differ: of two alike, rounding would decide which one hard attention reads.
    config = Config((4, 8, 8), hidden=6, embedding=5, alignment=4, dropout=0.2, attention=attention)
    metrics = [
        "bleu_4",
        "bleu_1_no_bp",
        "cider",
        "rouge_l",
        "exact_match",
        "perplexity",
    ]  # all but that of another program
    assert check_task("caption", DATA, ShowAttendTell, config, metrics=metrics)


# Records become batches ---------------------------------------------------------------------------------------------


def test_each_caption_is_a_row_and_each_picture_is_predicted_once() -> None:
    data = CaptionData(train="unused", image=ImageConfig(size=16), max_length=3)
    records = several()
    task = Caption.learn(data, records)
    corpus = task.corpus(records, "data.train")
    assert [owner for owner, _ in corpus.rows] == [0, 0, 1, 2, 2, 2]
    assert corpus.costs == [4, 4, 3, 3, 4, 2], "tokens and the end, at most 3 tokens"
    assert corpus.note == "data.train: 3 pictures, 6 captions; " + corpus.cut and "2 of 6 captions" in corpus.cut
    batch = task.batch(corpus, [4, 0])
    for row, number in enumerate((2, 0)):
        framed, _ = fit_picture(photo(seed=number), data.image)
        assert torch.equal(batch.source[row], torch.from_numpy(framed.copy()).permute(2, 0, 1))
    assert [task.tokenizer.decode(row.tolist()) for row in batch.target_out] == ["a red cat", "a red dog"]
    assert batch.target_in[:, 0].tolist() == [Tokenizer.BOS] * 2 and batch.tokens == 8
    some = task.first(corpus, 2)
    assert (len(some.records), len(some)) == (2, 3)
    network = task.network(ShowAttendTell, SMALL).eval()
    found = task.evaluate(network, corpus, how=Search(), metrics=["exact_match", "perplexity"])
    assert len(found.outputs) == 3, "one caption per picture"
    nll = float(task.loss(network, task.batch(corpus, range(6))).mean.detach())
    assert found.figures["perplexity"] == pytest.approx(np.exp(nll), rel=1e-4), "over all captions"


def test_a_caption_that_is_too_long_names_its_picture() -> None:
    data = CaptionData(train="unused", max_length=3, too_long="error")
    task = Caption.learn(data, several())
    with pytest.raises(
        InputError, match=r"data.train, record 1 \('one dog runs here'\): expected at most 3 tokens, found 4"
    ):
        task.corpus(several(), "data.train")


# A batch becomes a loss ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SMALL, HARD], ids=["soft", "hard"])
def test_padding_to_one_of_few_shapes_changes_no_loss(config: Config) -> None:
    task, network, splits = made(config)
    corpus = task.corpus(splits.train, "data.train")
    batch = task.batch(corpus, [0, 5, 3])
    wider = batch.bucketed()
    assert wider.source.shape[0] > batch.source.shape[0]
    torch.testing.assert_close(task.loss(network, wider).total, task.loss(network, batch).total)
    (phase,) = task.phases(network)
    torch.testing.assert_close(phase.loss(network, wider).total, phase.loss(network, batch).total)


def test_training_adds_the_penalty_and_a_held_out_loss_does_not() -> None:
    task, network, splits = made()
    batch = task.batch(task.corpus(splits.train, "data.train"), range(7))
    (phase,) = task.phases(network)
    looks = Looks()
    network(scaled(batch.source), batch.target_lengths, batch.target_in, looks=looks)
    penalty = coverage_penalty(torch.stack(looks.weights, dim=1), batch.target_out != Tokenizer.PAD)
    assert float(penalty.detach()) > 1
    plain, trained = task.loss(network, batch), phase.loss(network, batch)
    torch.testing.assert_close(trained.total, plain.total + 0.3 * penalty)
    assert trained.count == plain.count == batch.tokens
    smooth = phase.loss(network, batch, smoothing=0.2)
    torch.testing.assert_close(smooth.total, task.loss(network, batch, smoothing=0.2).total + 0.3 * penalty)


def test_hard_attention_draws_in_training_alone() -> None:
    task, network, splits = made(HARD)
    batch = task.batch(task.corpus(splits.train, "data.train"), range(7))
    (phase,) = task.phases(network)
    with torch.no_grad():
        assert torch.equal(task.loss(network, batch).total, task.loss(network, batch).total)
        network.train()
        assert not torch.equal(phase.loss(network, batch).total, phase.loss(network, batch).total)
    assert float(phase.state["baseline"]) < 0


def test_a_hard_run_that_dies_resumes_bit_for_bit_with_its_baseline(tmp_path: Path) -> None:
    task, _, splits = made(HARD)
    corpus = task.corpus(splits.train, "data.train")

    def network() -> Any:
        torch.manual_seed(6)
        return task.network(ShowAttendTell, HARD)

    train(task, tmp_path / "whole", corpus, network=network())
    baseline = float(checkpoint(tmp_path / "whole")["phases.train.state.baseline"])
    assert -4 < baseline < -0.1
    with pytest.raises(Died):
        train(task, tmp_path / "cut", corpus, network=network(), report=DieAt(5))
    torch.manual_seed(99)
    train(task, tmp_path / "cut", corpus, network=network(), resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.parametrize(("attention", "updates"), [("soft", 70), ("hard", 110)])
def test_a_few_captions_are_learnt_by_heart(attention: Any, updates: int) -> None:
    config = Config((16, 32), hidden=32, embedding=16, dropout=0.0, penalty=0.0, attention=attention)
    task, _, splits = made(config)
    corpus = task.corpus(splits.train[:3], "data.train")
    torch.manual_seed(6)
    network = task.network(ShowAttendTell, config)
    (phase,), batch = task.phases(network), task.batch(corpus, range(3))
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(updates):
        optimiser.zero_grad()
        phase.loss(network, batch).mean.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    found = task.evaluate(network, corpus, how=Search(), metrics=["perplexity"])
    assert found.figures["perplexity"] < 1.5, "of an untrained one 20"


# A picture becomes a caption ----------------------------------------------------------------------------------------


def encoded(pixels: np.ndarray, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format=format)
    return file.getvalue()


def test_a_picture_is_the_same_in_every_form(tmp_path: Path) -> None:
    task, network, _ = made()
    pixels = photo()
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(pixels))
    sent = {"base64": base64.b64encode(encoded(pixels)).decode()}
    forms = [
        sent,
        path,
        str(path),
        encoded(pixels),
        Image.fromarray(pixels),
        pixels,
        torch.from_numpy(pixels).permute(2, 0, 1),
    ]
    values = [task.predict(network, task.inputs(form), how=Search())[0].value for form in forms]
    assert len(set(values)) == 1
    assert len(task.predict(network, task.inputs([pixels, path]), how=Search())) == 2
    assert len(task.inputs({"image": [str(path)] * 3})) == 3, "a table has a column of pictures"


def test_what_is_no_picture_is_refused_by_its_place(tmp_path: Path) -> None:
    task, network, _ = made()
    with pytest.raises(InputError, match="no such file"):
        task.predict(network, [tmp_path / "none.png"], how=Search())
    for given in (b"\x89PNG broken", 7, {"image": 3}):
        with pytest.raises(InputError, match="input 2"):
            task.predict(network, [photo(), given], how=Search())
    half = encoded(photo(90, 90))[:-2000]  # its header is whole
    with pytest.raises(InputError, match=r"input 1: expected a picture .* found a damaged one"):
        task.predict(network, [half], how=Search())


def test_searches_are_steered_by_prefix_and_words() -> None:
    task, network, splits = made()
    given = [splits.test[0].source, splits.test[1].source]
    wishes = [OutputConstraints(prefix="a blue", require=("below",)), OutputConstraints(forbid=("a", "red"))]
    first, second = task.predict(network, given, how=Search(beam=10), constraints=wishes)
    assert first.value.startswith("a blue") and "below" in first.value.split()
    assert not {"a", "red"} & set(second.value.split())
    drawn = task.predict(network, given[:1], how=Search(sample=Sampling(), n_best=3))[0]
    assert len(drawn.alternatives) == 2
    for how in (Search(unknown="copy"), Search(coverage=0.2, beam=2)):
        with pytest.raises(SaccadeError, match=r"search\.(unknown|coverage): expected .* a picture has no words"):
            task.predict(network, given, how=how)


@pytest.mark.parametrize("config", [SMALL, HARD], ids=["soft", "hard"])
def test_every_hypothesis_has_the_maps_of_forced_decoding(config: Config) -> None:
    task, network, splits = made(config)
    network.double()  # rounding may not decide which of two cells is the likelier
    with torch.no_grad():
        for layer in network.key_layers:
            layer.weight.mul_(0.05)  # where tanh saturates, the scores of several cells are equal
        network.output.bias[Tokenizer.EOS] += 2.0
        network.output.bias[Tokenizer.UNK] -= 50.0
    compared = 0
    edits = [Boost([3], factor=40.0, site="decoder.attention", step=1)]
    for record, lens in itertools.product(splits.test, (Lens(), Lens(edits=edits))):
        (best,) = task.predict(network, [record.source], how=Search(beam=3, n_best=3), lens=lens)
        for found in (best, *best.alternatives):
            if found.stopped == "length":
                continue
            compared += 1
            forced = task.scorer(network, record.source, found.value)(Lens(edits=lens.edits))
            assert sum(forced.log_probs) == pytest.approx(found.log_prob, abs=1e-4)
            ours, theirs = found.trace.maps[0].weights, forced.trace.maps[0].weights
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            names = {"decoder.gate", "decoder.chosen"} if config is HARD else {"decoder.gate"}
            assert set(found.trace.signals) == names
            for name in names:
                assert found.trace.signals[name].axis == "target"
                torch.testing.assert_close(found.trace.signals[name].values, forced.trace.signals[name].values)
    assert compared >= 9


def test_what_if_it_had_looked_there() -> None:
    task, network, splits = made(HARD)
    given = splits.test[1].source
    (plain,) = task.predict(network, [given], how=Search(), lens=Lens())
    cells = len(plain.trace.axes["image"])
    there = [float(cell == 5) for cell in range(cells)]
    (told,) = task.predict(
        network, [given], how=Search(), lens=Lens(edits=[Set(there, site="decoder.attention", step=0)])
    )
    assert told.trace.signals["decoder.chosen"].values[0] == 5 and told.trace.maps[0].weights[0, 5] == 1
    assert told.log_prob != plain.log_prob
    with pytest.raises(SaccadeError, match="there are 16 keys"):
        task.predict(network, [given], how=Search(), lens=Lens(edits=[Mask([99], site="decoder.attention")]))


def test_a_trace_has_the_words_and_the_cells_on_the_picture(tmp_path: Path) -> None:
    task, network, _ = made(data=CaptionData(**{**vars(DATA), "image": ImageConfig(size=16, crop="centre")}))
    pixels = photo(30, 50)
    (found,) = task.predict(network, [pixels], how=Search(), lens=Lens())
    trace = found.trace
    assert trace.about["output"] == found.value and trace.about["output_kind"] == "text"
    grid, words = trace.axes["image"], trace.axes["target"]
    assert (grid.height, grid.width) == (4, 4) and grid.labels[4] == "1,0"
    assert words.text == found.value and trace.maps[0].weights.shape == (len(words), 16)
    assert words.labels[:-1] == tuple(found.value.split()) if found.stopped == "eos" else words.labels
    assert torch.equal(grid.image, torch.from_numpy(pixels)), "the original, all of it"
    assert grid.box == (0.2, 0.0, 0.8, 1.0), "the square in the middle"
    assert Trace.load(trace.save(tmp_path / "a.trace")).axes["image"] == grid


def test_a_large_picture_is_kept_small_in_a_trace() -> None:
    task, network, _ = made()
    (found,) = task.predict(network, [photo(600, 2100)], how=Search(), lens=Lens())
    assert max(found.trace.axes["image"].image.shape) <= 1024


def test_an_ensemble_has_the_maps_of_each_member() -> None:
    task, network, splits = made()
    torch.manual_seed(8)
    both = Ensemble([network, task.network(ShowAttendTell, HARD)]).eval()
    (found,) = task.predict(both, [splits.test[0].source], how=Search(beam=2), lens=Lens())
    assert {map.site for map in found.trace.maps} == {"1/decoder.attention", "2/decoder.attention"}
    assert found.trace.axes["image"].height == 4


def test_hiding_cells_is_measured() -> None:
    task, network, splits = made()
    bundle = SimpleNamespace(
        task=task, network=network, predict=lambda given: task.predict(network, given, how=Search())
    )
    found = curve(bundle, splits.test[0].source, splits.test[0].target[0], draws=2)
    assert found["curves"]


# Recipes and metrics ------------------------------------------------------------------------------------------------


def test_the_most_frequent_caption_is_the_baseline() -> None:
    records = several()
    task = Caption.learn(CaptionData(train="unused"), [*records, *records[1:2]])
    figures = task.baselines([*records, *records[1:2]], records, ["exact_match", "perplexity"])
    assert figures == {"most frequent caption": {"exact_match": pytest.approx(1 / 3)}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (["train.sampling=0.5"], "train.sampling"),
        (["search.beam=2", "search.coverage=0.2"], "search.coverage"),
        (["search.unknown=copy"], "search.unknown"),
        (["model.penalty_scale=sum"], "penalty_scale"),
        (["model.expected=2"], "expected"),
        (["data.image.size=60"], "channels"),
    ],
)
def test_a_setting_that_captions_have_no_use_for_is_refused(changes: list[str], field: str) -> None:
    def check() -> None:
        recipe = read_recipe("captions_shapes", changes)
        Caption.check_recipe(recipe)
        Caption.learn(recipe.data, several()).network(ShowAttendTell, recipe.model)

    with pytest.raises(SaccadeError, match=field):
        check()


def test_a_network_for_texts_is_refused() -> None:
    task, *_ = made()
    with pytest.raises(InputError, match=r"model.name: expected a network that describes pictures.*'rnnsearch'"):
        task.network(RNNSearch, TextConfig())


def test_examples_are_pictures_as_a_request_sends_them() -> None:
    task, network, splits = made()
    shown = task.examples(Path("."), 1, splits.test)
    assert base64.b64decode(shown[2]["base64"]) == png_of(splits.test[2].source.read())
    sent = task.predict(network, task.inputs(shown[:3]), how=Search())
    plain = task.predict(network, [record.source for record in splits.test[:3]], how=Search())
    assert [one.value for one in sent] == [one.value for one in plain]


def test_pictures_are_varied_in_training_alone() -> None:
    data = CaptionData(**{**vars(DATA), "augment": Augment(shift=0.3)})
    task, network, splits = made(data=data)
    batch = task.batch(task.corpus(splits.train, "data.train"), range(7))
    (phase,) = task.phases(network)
    with torch.no_grad():
        still = phase.loss(network, batch).total
        assert torch.equal(phase.loss(network, batch).total, still)
        network.cnn.eval()
        network.training = True
        assert not torch.equal(phase.loss(network, batch).total, still)


def test_several_captions_are_all_references() -> None:
    records = several()
    task = Caption.learn(CaptionData(train="unused"), records)
    outputs = ["one dog runs here", "a dog", "cats"]
    assert task.statistics("exact_match", outputs, records).value == pytest.approx(2 / 3)

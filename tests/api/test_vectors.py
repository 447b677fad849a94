"""A run whose word embeddings begin with vectors from elsewhere: it keeps what it needs of them."""

import json
import signal
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade import api
from saccade.api.vectors import save_vectors
from saccade.data.toy.opinions import Opinions, generate
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.recipes.recipe import read_recipe
from saccade.training.report import Silence
from tests.training.test_loop import StopAt, assert_same_run

SMALL = (
    "data.opinions.train=90", "data.opinions.valid=9", "data.opinions.test=9", "model.embedding=5", "model.hidden=4",
    "train.epochs=2", "train.batch_records=16", "train.device=cpu", "train.save_every=2", "train.watch=loss",
    "train.weight_decay=0.1", "train.optimiser=adamw",
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("module_unchecked")


class Heard(Silence):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def file(tmp_path) -> Path:
    """Vectors of the words of the training texts but those with a q, and of some that are not in them."""
    texts = generate(Opinions(train=90, valid=9, test=9))["train"]
    words = sorted({word for text, _ in texts for word in text.split() if "o" not in word})
    rows = {word: np.random.default_rng(zlib.crc32(word.encode())).normal(size=5) for word in ["zebra", *words, "yak"]}
    path = tmp_path / "v.txt"
    path.write_text("".join(f"{word} {' '.join(f'{x:.4f}' for x in row)}\n" for word, row in rows.items()))
    return path


def small(file: Path, *more: str, extend: bool = True, frozen: bool = False):
    vectors = f"data.vectors={{file: {file}, extend: {str(extend).lower()}, frozen: {str(frozen).lower()}}}"
    return read_recipe("attentive_opinions", [*SMALL, vectors, *more])


def vector(bundle: api.Bundle, word: str) -> torch.Tensor:
    (number,) = bundle.task.tokenizer.encode(word)
    return bundle.network.embedding.weight.detach()[number]


def test_coverage_is_reported_when_training_begins_and_in_the_card(file, tmp_path):
    heard = Heard()
    bundle = api.train(small(file), folder=tmp_path / "run", report=heard)
    (told,) = [text for text in heard.said if text.startswith("data.vectors: ")]
    assert "have a vector of 5 numbers" in told and told.endswith("2 words are not in the training texts")
    assert f"- Word vectors: {told.removeprefix('data.vectors: ')}\n" in (tmp_path / "run" / "card.md").read_text()
    assert api.load(tmp_path / "run", device="cpu").figures["vectors"] == told
    assert bundle.predict("zebra")[0].notes == ()  # it is in the vocabulary, though no text had it


def test_embeddings_begin_with_the_vectors_and_are_learnt_unless_frozen(file, tmp_path):
    zebra = torch.tensor([float(x) for x in file.read_text().split("\n")[0].split()[1:]])
    learnt = api.train(small(file), folder=tmp_path / "learnt")
    frozen = api.train(small(file, frozen=True), folder=tmp_path / "frozen")
    assert torch.equal(vector(frozen, "zebra"), zebra)  # weight decay included
    assert not torch.equal(vector(learnt, "zebra"), zebra)
    known = next(line for line in file.read_text().splitlines()[1:])
    word, *row = known.split()
    assert torch.equal(vector(frozen, word), torch.tensor([float(x) for x in row]))
    assert (tmp_path / "frozen" / "recipe.yaml").read_text().count("frozen: true") == 1


def test_a_loaded_bundle_does_not_need_the_file(file, tmp_path):
    bundle = api.train(small(file, frozen=True), folder=tmp_path / "run")
    file.unlink()
    loaded = api.load(tmp_path / "run", device="cpu")
    assert torch.equal(loaded.network.embedding.weight, bundle.network.embedding.weight.cpu())
    assert loaded.task.tokenizer.to_json() == bundle.task.tokenizer.to_json()


@pytest.mark.parametrize("frozen", [False, True])
def test_a_run_continues_without_the_file_as_if_it_had_not_stopped(file, tmp_path, frozen):
    whole = api.train(small(file, frozen=frozen), folder=tmp_path / "whole")
    with pytest.raises(Interrupted):
        api.train(small(file, frozen=frozen), folder=tmp_path / "stopped", report=StopAt(3, signal.SIGTERM))
    file.unlink()
    heard = Heard()
    resumed = api.resume(tmp_path / "stopped", report=heard)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    assert torch.equal(vector(resumed, "zebra"), vector(whole, "zebra"))
    assert resumed.figures["vectors"] == whole.figures["vectors"] and whole.figures["vectors"] in heard.said


def test_a_run_that_begins_from_it_has_its_embeddings_and_names_no_vectors(file, tmp_path):
    parent = api.train(small(file, frozen=True), folder=tmp_path / "parent")
    said = file.read_text()
    file.unlink()
    begun = [*SMALL, f"train.from={parent.folder}"]
    child = api.train(read_recipe("attentive_opinions", [*begun, "train.updates=1"]), folder=tmp_path / "child")
    assert child.task.tokenizer.to_json() == parent.task.tokenizer.to_json()
    assert not torch.equal(
        child.network.embedding.weight, parent.network.embedding.weight
    )  # learnt, unless train.freeze
    assert "vectors" not in child.figures
    file.write_text(said)
    with pytest.raises(InputError) as error:
        read_recipe("attentive_opinions", [*begun, f"data.vectors={file}"])
    assert "data.vectors: expected none: the embeddings" in str(error.value)
    assert "data.vectors=null" in str(error.value)


def test_another_width_is_reported_with_the_recipes_file(file, tmp_path):
    with pytest.raises(InputError, match=r"model.embedding: expected 5, as many .* found 7") as error:
        api.train(small(file, "model.embedding=7"), folder=tmp_path / "run")
    assert "attentive_opinions.yaml" in str(error.value) and not (tmp_path / "run").exists()


def test_a_dry_run_tells_coverage(file, tmp_path):
    plan = api.plan(small(file))
    assert any(note.startswith("data.vectors: ") for note in plan.notes)


# Vectors of a run -------------------------------------------------------------------------------------------------------


def test_a_runs_embeddings_go_to_a_file_and_come_back_bit_for_bit(file, tmp_path):
    bundle = api.train(small(file), folder=tmp_path / "run")
    written = save_vectors(bundle.folder, tmp_path / "out.txt.gz")
    assert (written.words, written.width) == (bundle.task.tokenizer.size - 4, 5)
    again = api.train(small(tmp_path / "out.txt.gz", frozen=True), folder=tmp_path / "again")
    assert torch.equal(vector(again, "zebra"), vector(bundle, "zebra"))
    direct = api.train(small(bundle.folder, frozen=True), folder=tmp_path / "direct")
    assert torch.equal(direct.network.embedding.weight[4:], again.network.embedding.weight[4:])


def test_vectors_of_raw_text_serve_a_classifier(tmp_path):
    texts = [text for text, _ in generate(Opinions(train=90, valid=9, test=9))["train"]]
    recipe = read_recipe(
        "skipgram_topics",
        ["model.embedding=5", "train.epochs=1", "train.device=cpu", "train.threads=1", "metrics=[pair_loss]"],
    )
    words = api.train(recipe, texts, folder=tmp_path / "words")
    bundle = api.train(small(words.folder, extend=False, frozen=True), folder=tmp_path / "run")
    word = next(word for word in texts[0].split() if word.isalpha())
    assert torch.equal(vector(bundle, word), vector(words, word.lower()))
    assert "(100.0 %)" in bundle.figures["vectors"]


def test_a_translator_has_two_vocabularies_and_characters_are_not_words(tmp_path):
    run = api.train(
        read_recipe(
            "rnnsearch_dates",
            ["data.dates.train=60", "data.dates.valid=9", "data.dates.test=9", "data.tokens.kind=words", "model.hidden=5",
             "model.embedding=3", "train.epochs=1", "train.device=cpu"],
        ),
        folder=tmp_path / "run",
    ).folder  # fmt: skip
    with pytest.raises(InputError, match="--side source, or target, writes one to a file"):
        save_vectors(run, tmp_path / "v.txt")
    sizes = {side: save_vectors(run, tmp_path / f"{side}.txt", side=side).words for side in ("source", "target")}
    bundle = api.load(run, device="cpu")
    assert sizes == {"source": bundle.task.source.size - 4, "target": bundle.task.target.size - 4}
    first = (tmp_path / "target.txt").read_text().splitlines()[0].rsplit(" ", 3)
    row = bundle.network.target_embedding.weight.detach()[bundle.task.target.encode(first[0])[0]]
    assert row.tolist() == pytest.approx([float(x) for x in first[1:]], rel=1e-7)
    config = json.loads((run / "config.json").read_text())
    assert config["recipe"]["data"]["tokens"]["kind"] == "words"


@pytest.mark.parametrize(("place", "told"), [("nothing", "no such folder"), ("", "no config.json in it")])
def test_what_is_not_a_run_is_refused(tmp_path, place, told):
    with pytest.raises(SaccadeError, match=f"expected a trained run's folder, found {told}"):
        save_vectors(tmp_path / place, tmp_path / "v.txt")

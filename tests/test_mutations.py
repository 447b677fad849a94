"""Bundles and traces from strangers, with checksums that fit: they are used, or refused with one clear error.

``scripts/mutate_files.py`` tries thousands, with their time and memory.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import torch

import saccade
from saccade.api.runs import describe
from saccade.errors import InputError, SaccadeError
from saccade.storage import load_tensors, save_tensors, stored_tensors
from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.figure.fonts import Typeface
from tests import mutations

NAMES = ("rnnsearch", "pointer", "attentive_classifier, calibrated", "bert", "siamese", "skipgram", "tagger", "recurrent_lm",
         "retain")  # fmt: skip
BATCHES, EACH = 9, 20


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    for name in NAMES:
        mutations.make_bundle(name, folder / name)
    return folder


@pytest.fixture(scope="module")
def traces(bundles: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return mutations.make_traces(bundles, tmp_path_factory.mktemp("traces"), NAMES)


def test_what_was_not_changed_is_used(bundles, traces):
    for name in NAMES:
        mutations.use_bundle(bundles / name, name)
    for path in traces:
        mutations.use_trace(path)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_changed_bundle_is_used_or_refused_without_a_traceback(bundles, tmp_path, batch):
    name = NAMES[batch % len(NAMES)]
    for seed in range(batch * EACH, (batch + 1) * EACH):
        folder = tmp_path / "runs" / "m"
        changed = mutations.mutate_bundle(bundles / name, folder, random.Random(seed))
        try:
            mutations.use_bundle(folder, name)
        except SaccadeError:
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}: {name}: {changed}") from error
        shutil.rmtree(tmp_path / "runs")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_changed_trace_is_used_or_refused_without_a_traceback(traces, tmp_path, batch):
    for seed in range(batch * EACH, (batch + 1) * EACH):
        source, path = traces[seed % len(traces)], tmp_path / str(seed) / "m.trace"
        changed = mutations.mutate_trace(source, path, random.Random(seed))
        try:
            mutations.use_trace(path)
        except SaccadeError:
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}: {source.stem}: {changed}") from error


# Sizes ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(bundles, tmp_path) -> Path:
    return Path(shutil.copytree(bundles / "rnnsearch", tmp_path / "m"))


@pytest.mark.parametrize("name", ["config.json", "card.md", "tokenizer.source.json", "model.safetensors"])
def test_a_sparse_file_of_20_gb_is_refused_by_its_size(bundle, name):
    with open(bundle / name, "rb+") as file:
        file.truncate(20 * 10**9)
    with pytest.raises(InputError, match=rf"{name}: expected .*, found .*"):
        saccade.load(bundle)


def test_weights_of_20_gb_of_which_nothing_is_written_are_not_read_to_describe_a_run(bundle):
    size = 20 * 10**9
    header = mutations.json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with open(bundle / "model.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    with pytest.raises(
        InputError, match=r"model\.safetensors: expected a whole safetensors file, found .* that take 20,"
    ):
        stored_tensors(bundle / "model.safetensors")
    assert describe(bundle)["state"] == "damaged"


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int8, torch.int16])
@pytest.mark.parametrize(("file", "name"), [("edges", "maps.0.edges"), ("statistics", "maps.0.argmax")])
def test_positions_that_would_index_as_a_mask_are_refused(traces, tmp_path, file, name, kind):
    [source] = [path for path in traces if path.stem == file]
    tensors, header = load_tensors(source)
    save_tensors(tmp_path / "m.trace", {**tensors, name: tensors[name].to(kind)}, header)
    with pytest.raises(
        InputError, match=rf"{name}: expected positions \(int64\), found {str(kind).removeprefix('torch.')}"
    ):
        Trace.load(tmp_path / "m.trace")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("frames", "axes.frames.spectrogram"),
        ("patches", "axes.patches.image"),
        ("retain, all", "signals.risk.values"),
    ],
)
def test_a_picture_or_a_signal_without_values_is_refused(traces, tmp_path, file, name):
    [source] = [path for path in traces if path.stem == file]
    tensors, header = load_tensors(source)
    place = (slice(0), ...) if name.endswith("image") else (..., slice(0))
    save_tensors(tmp_path / "m.trace", {**tensors, name: tensors[name][place]}, header)
    with pytest.raises(InputError, match=f"{name}: expected one value or more, found none"):
        Trace.load(tmp_path / "m.trace")


def test_a_picture_with_names_of_any_length_is_drawn_at_once(tmp_path, monkeypatch):
    typeset: list[int] = []
    width = Typeface.width

    def counted(self, text, size):
        typeset.append(len(text))
        return width(self, text[:10_000], size)

    monkeypatch.setattr(Typeface, "width", counted)
    name = "y" * 300_000
    weights = torch.rand(3, 3).softmax(-1)
    drawn = (AttentionMap(name, name, name, "dense", {"weights": weights}, head=0, keys=3),)
    trace = Trace({name: Tokens((name, "b", "c"), text=name)}, drawn, about={"input": name, "model": name})
    trace.save(tmp_path / "x.svg")
    assert typeset and max(typeset) < 10_000


def test_weights_that_do_not_fit_the_network_are_refused_before_they_are_read(bundle, monkeypatch):
    tensors, header = load_tensors(bundle / "model.safetensors")
    name = next(iter(tensors))
    save_tensors(
        bundle / "model.safetensors",
        {**tensors, name: tensors[name].unsqueeze(0)},
        header,
    )
    mutations.reseal_bundle(bundle)
    monkeypatch.setattr("saccade.bundle_format.load_tensors", lambda path: pytest.fail("the weights were read"))
    with pytest.raises(InputError, match=rf"does not fit together: {name} is "):
        saccade.load(bundle)


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden", 10**9), ("embedding", 10**7), ("maxout", 30_000), ("hidden", 10**30), ("hidden", -3)],
)
def test_a_recipe_cannot_ask_for_a_larger_network_than_was_saved(bundle, field, value):
    config = mutations.json.loads((bundle / "config.json").read_text())
    config["recipe"]["model"][field] = value
    mutations.reseal_bundle(bundle, config)
    with pytest.raises(InputError):
        saccade.load(bundle)


@pytest.mark.parametrize(("layers", "told"), [(10**9, "at most 1,000"), (900, r"parameters than model\.safetensors")])
def test_a_recipe_cannot_ask_for_many_layers(bundles, tmp_path, layers, told):
    bundle = Path(shutil.copytree(bundles / "recurrent_lm", tmp_path / "m"))
    config = mutations.json.loads((bundle / "config.json").read_text())
    config["recipe"]["model"]["layers"] = layers
    mutations.reseal_bundle(bundle, config)
    with pytest.raises(InputError, match=told):
        saccade.load(bundle)


def test_a_recipe_cannot_ask_for_a_beam_of_a_billion(bundle):
    config = mutations.json.loads((bundle / "config.json").read_text())
    config["recipe"]["search"]["beam"] = 10**9
    mutations.reseal_bundle(bundle, config)
    with pytest.raises(InputError, match=r"search\.beam: expected beam to be at most 10,000, found 1000000000"):
        saccade.load(bundle)


# Tokenizers ---------------------------------------------------------------------------------------------------------------

CATASTROPHIC = {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "z"}
GROWING = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "z" * 9999}] * 99}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", CATASTROPHIC),
        ("normalizer", GROWING),
        ("normalizer", None),
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a|a)*$"}, "behavior": "Isolated", "invert": False}),
        ("decoder", CATASTROPHIC),
        ("post_processor", {"type": "ByteLevel"}),
        ("added_tokens", [{"id": 0, "content": "a"}]),
        ("model", {"type": "Unigram"}),
        ("model", {"type": "WordLevel", "vocab": {"<pad>": 0, "<bos>": 1, "<eos>": 2, "<unk>": 3}, "unk_token": "no"}),
    ],
)
def test_a_tokenizer_has_no_parts_but_our_own(bundle, part, value):
    path = bundle / "tokenizer.source.json"
    document = mutations.json.loads(path.read_text())
    if part == "pre_tokenizer":
        value = {**value, "saccade": document[part]["saccade"]}
    path.write_text(mutations.json.dumps({**document, part: value}))
    mutations.reseal_bundle(bundle)
    with pytest.raises(InputError, match=rf"tokenizer\.source\.json: {part}"):
        saccade.load(bundle)


# Other files of this machine ----------------------------------------------------------------------------------------------


def test_examples_of_a_loaded_run_are_never_read_from_the_files_that_its_recipe_names(bundle, tmp_path):
    (tmp_path / "secret.tsv").write_text("my password\tis 1234\n" * 50)
    config = mutations.json.loads((bundle / "config.json").read_text())
    config["recipe"]["data"] |= {"source": None, "train": str(tmp_path / "secret.tsv")}
    mutations.reseal_bundle(bundle, config)
    assert saccade.load(bundle).examples(10) == []


def test_the_header_of_a_trace_says_how_large_its_file_is(traces, tmp_path):
    path = Path(shutil.copy(traces[0], tmp_path / "x.trace"))
    assert stored_tensors(path)
    with open(path, "rb+") as file:
        file.truncate(2 * 10**9)
    with pytest.raises(InputError, match="bytes of tensors by its header"):
        Trace.load(path)

"""A bundle is whole, or it is refused with a sentence that names the file."""

import json
import shutil

import pytest

import saccade
from saccade import api
from saccade.errors import InputError
from tests.tiny import tiny


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    api.train(tiny("train.updates=2"), folder=folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


def test_a_bundle_holds_no_pickle(original):
    names = {path.name for path in original.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.source.json", "tokenizer.target.json", "card.md"} <= names
    for path in original.rglob("*"):
        if path.is_file():
            assert path.suffix in (".json", ".safetensors", ".md", ".csv", ".yaml", ".png"), path
            assert not path.read_bytes().startswith((b"\x80\x02", b"\x80\x04", b"PK"))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.source.json"])
def test_a_truncated_file_is_refused(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=rf"{name}: expected SHA-256 .*truncated or altered"):
        saccade.load(folder)


def test_one_flipped_bit_of_the_weights_is_refused(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="truncated or altered"):
        saccade.load(folder)


def test_an_edited_config_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["recipe"]["model"]["hidden"] = 11
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="does not match its checksum"):
        saccade.load(folder)


def test_a_config_that_names_files_elsewhere_is_refused(folder):
    from saccade.bundle_format import _checksum

    config = json.loads((folder / "config.json").read_text())
    config.pop("checksum")
    config["files"]["../../secret"] = "0" * 64
    (folder / "config.json").write_text(json.dumps({**config, "checksum": _checksum(config)}))
    with pytest.raises(InputError, match="names of files beside it"):
        saccade.load(folder)


def test_weights_that_do_not_fit_the_recipe_are_refused(folder):
    from saccade.bundle_format import _checksum

    config = json.loads((folder / "config.json").read_text())
    config.pop("checksum")
    config["recipe"]["model"]["hidden"] = 11
    (folder / "config.json").write_text(json.dumps({**config, "checksum": _checksum(config)}))
    with pytest.raises(InputError, match="does not fit together"):
        saccade.load(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.target.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: expected a file of the bundle, found no such file"):
        saccade.load(folder)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(InputError, match=r"expected a trained model .* found no config\.json"):
        saccade.load(tmp_path)
    with pytest.raises(InputError, match="expected a run's folder, found no such folder"):
        saccade.load(tmp_path / "nowhere")


def test_a_config_that_is_no_json_names_its_line(folder):
    (folder / "config.json").write_text('{\n"format": oops}')
    with pytest.raises(InputError, match=r"config\.json:2: expected valid JSON"):
        saccade.load(folder)

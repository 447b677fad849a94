"""A bundle is whole, or it is refused with a sentence that names the file."""

import json
import multiprocessing
import shutil
import time

import pytest
import torch

import saccade
from saccade import api
from saccade.api.runs import describe
from saccade.bundle_format import Contents, holds_bundle, load_bundle, save_bundle
from saccade.errors import InputError
from tests.killing import killed_before_each_file_operation
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
            assert path.name == ".lock" or path.suffix in (".json", ".safetensors", ".md", ".csv", ".yaml", ".png"), (
                path
            )
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


def contents(number: int) -> Contents:
    """A bundle whose every file tells which one it is."""
    files = {"tokenizer.source.json": f"source {number}", "labels.json": f"labels {number}"}
    weights = {"a": torch.full((3, 5), float(number)), "b": torch.full((7,), float(number))}
    return Contents({"name": f"bundle {number}"}, weights, files, f"card {number}")


def number_of(bundle: Contents) -> int:
    """Which bundle it is; all of its files agree."""
    told = {bundle.config["name"], bundle.card, *bundle.files.values()} | {
        f"{name} {int(tensor[..., 0].flatten()[0])}" for name, tensor in bundle.tensors.items()
    }
    [number] = {text.split()[-1] for text in told}
    return int(number)


def test_a_kill_at_any_moment_of_saving_leaves_the_old_bundle_or_the_new_one(tmp_path):
    """Each attempt starts with what the killed one before it left."""
    folder = tmp_path / "run"
    save_bundle(folder, contents(0))
    left, attempt = list[tuple[int, int]](), 0

    def save() -> None:
        save_bundle(folder, contents(attempt + 1))

    for attempt in killed_before_each_file_operation(save, str(folder)):
        left.append((attempt, number_of(load_bundle(folder))))
        attempt += 1
    numbers = [number for _, number in left]
    assert numbers == sorted(numbers) and len(set(numbers)) > 2, "some kept the old bundle, some had the new one"
    assert numbers[-1] == left[-1][0] + 1
    assert not (folder / ".next").exists() and not (folder / ".saving").exists()


def test_a_kill_before_the_first_bundle_is_complete_leaves_none(tmp_path):
    states = list[str]()
    for _ in killed_before_each_file_operation(lambda: save_bundle(tmp_path / "run", contents(3)), str(tmp_path)):
        if holds_bundle(tmp_path / "run"):
            states.append(f"bundle {number_of(load_bundle(tmp_path / 'run'))}")
        else:
            with pytest.raises(InputError, match=r"no config\.json|no such folder"):
                load_bundle(tmp_path / "run")
            states.append("none")
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
    assert states == sorted(states, reverse=True) and set(states) == {"none", "bundle 3"}


def test_a_run_that_was_killed_while_its_network_was_saved_serves_every_command(original, folder, tmp_path):
    """Every reader of a bundle finds its files, wherever the kill left them."""
    expected = saccade.load(original).predict("5. Mai 2009")[0].value
    (folder / ".next").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.target.json", "card.md"):
        (folder / name).rename(folder / ".next" / name)
    assert saccade.load(folder).predict("5. Mai 2009")[0].value == expected
    assert api.read_run(folder).state == "done" and describe(folder)["state"] == "done"
    api.train(tiny("train.updates=1", f"train.from={folder}"), folder=tmp_path / "fine")
    saccade.load(folder).save(folder)
    assert not (folder / ".next").exists() and (folder / "config.json").is_file()


def keep_saving(folder: str, until: float) -> None:
    number = 1
    while time.time() < until:
        save_bundle(folder, contents(number))
        number += 1


def test_readers_of_a_bundle_that_is_being_saved_always_get_a_whole_one(tmp_path):
    folder = tmp_path / "run"
    save_bundle(folder, contents(0))
    until = time.time() + 3
    writer = multiprocessing.get_context("fork").Process(target=keep_saving, args=(str(folder), until))
    writer.start()
    numbers = list[int]()
    while writer.is_alive():
        numbers.append(number_of(load_bundle(folder)))
    writer.join()
    assert writer.exitcode == 0
    assert numbers == sorted(numbers) and len(set(numbers)) > 5

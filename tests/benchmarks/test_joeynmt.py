"""The benchmark beside JoeyNMT: both tools are given the same sizes, and what it keeps is small."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "benchmarks" / "joeynmt"
PARTS = ("settings", "peer", "run")
TRANSFORMER = "Transformer 3+3"


@pytest.fixture
def joeynmt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The scripts, by the names under which they import one another; taken away afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    for name in PARTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = {name: import_module(name) for name in PARTS}
    yield argparse.Namespace(**made)
    for name in PARTS:
        sys.modules.pop(name, None)


def sizes(**changes: Any) -> argparse.Namespace:
    return argparse.Namespace(
        **{"device": "cpu", "width": 24, "tokens": 300, "updates": 20, "window": 5, "greedy": 3, "rounds": 1} | changes
    )


def test_both_transformers_have_the_same_sizes(joeynmt: Any) -> None:
    pair = joeynmt.settings.PAIRS[TRANSFORMER]
    theirs = joeynmt.settings.joey_config(sizes(width=512), pair, Path("text"), Path("run"))
    ours = joeynmt.settings.saccade_recipe(sizes(width=512), pair, Path("text"), {})
    model = ours["model"]
    assert (model["layers"], model["heads"], model["width"], model["hidden"]) == (3, 8, 512, 2048)
    assert model["norm"] == "pre" and model["tied"] == "none"
    for side in ("encoder", "decoder"):
        part = theirs["model"][side]
        assert part["type"] == "transformer" and part["layer_norm"] == "pre" and part["dropout"] == model["dropout"]
        assert (part["num_layers"], part["num_heads"], part["hidden_size"], part["ff_size"]) == (3, 8, 512, 2048)
    assert theirs["training"]["learning_rate"] == ours["train"]["lr"] == 5e-4
    assert not theirs["model"]["tied_softmax"]


def test_what_stands_between_two_epochs_is_not_a_part_of_the_training_speed(joeynmt: Any) -> None:
    # Seven updates an epoch, half a second and 30 tokens each; five seconds of looking and saving after each epoch.
    rows = [joeynmt.run.Update(30, 0.5 * (n + 1) + 5.0 * (n // 7), 1.0, n // 7) for n in range(23)]
    assert joeynmt.run.window_speeds(rows, 5) == pytest.approx(
        [60.0] * 3
    )  # 23 updates: the first window left out, and 3 over


@pytest.mark.parametrize("name", ["GRU, additive", "LSTM, Luong's general", TRANSFORMER])
def test_each_recipe_is_one_that_saccade_reads(joeynmt: Any, tmp_path: Path, name: str) -> None:
    from saccade.recipes.recipe import read_recipe

    for language in ("de", "en"):
        for split in ("train", "dev", "test"):
            (tmp_path / f"{split}.{language}").write_text("a b\n", encoding="utf-8")
    for way in joeynmt.settings.WAYS["cuda"].values():
        file = tmp_path / "recipe.yaml"
        file.write_text(
            yaml.safe_dump(joeynmt.settings.saccade_recipe(sizes(), joeynmt.settings.PAIRS[name], tmp_path, way))
        )
        recipe = read_recipe(file)
        assert recipe.train.lr == joeynmt.settings.PAIRS[name].lr and recipe.train.precision in ("32", "tf32", "bf16")


def test_bf16_is_among_the_ways_on_a_gpu(joeynmt: Any) -> None:
    assert joeynmt.settings.WAYS["cuda"]["saccade, bf16"] == {"precision": "bf16"}


def test_the_greedy_settings_change_nothing_but_where_how_and_how_much_is_decoded(joeynmt: Any) -> None:
    config = joeynmt.settings.joey_config(
        sizes(device="cuda"), joeynmt.settings.PAIRS[TRANSFORMER], Path("text"), Path("run")
    )
    greedy = joeynmt.settings.joey_greedy(config, Path("text"))
    assert greedy["model"] == config["model"] and greedy["model_dir"] == config["model_dir"]
    assert greedy["testing"]["beam_size"] == 1 and not greedy["use_cuda"]
    assert greedy["data"]["test"] == "text/few" and "dev" not in greedy["data"]
    assert config["testing"]["beam_size"] == 5 and config["use_cuda"] and "dev" in config["data"]  # untouched


def test_networks_and_texts_do_not_lie_among_the_logs(joeynmt: Any, tmp_path: Path) -> None:
    options = sizes(logs=tmp_path / "logs", scratch=tmp_path / "scratch")
    place = joeynmt.run.Place(options, "saccade, bf16", joeynmt.settings.PAIRS[TRANSFORMER], 2)
    assert place.folder == tmp_path / "scratch" / "saccade-bf16-transformer-2"
    assert place.text == tmp_path / "scratch" / "text"
    assert place.log("greedy.hyps") == tmp_path / "logs" / "saccade-bf16-transformer-2.greedy.hyps"


def test_the_table_compares_each_way_with_its_own_pair(joeynmt: Any) -> None:
    options = sizes(pairs=[TRANSFORMER], ways=["saccade", "saccade, bf16"])
    peer = {
        "training": 100.0,
        "decoding": 10.0,
        "parameters": 7,
        "words": 12.0,
        "bleu": 30.0,
        "greedy": 2.0,
        "greedy words": 12.0,
    }
    ours = {"training": 700.0, "loss": 1.5, "parameters": 7.0, "decoding": 40.0, "again": 200.0, "words": 6.0, "bleu": 31.0,
            "greedy": 8.0, "greedy words": 6.0}  # fmt: skip
    trained = {"training": 900.0, "loss": 1.5, "parameters": 7.0}
    results = {
        (TRANSFORMER, "JoeyNMT"): [peer],
        (TRANSFORMER, "saccade"): [ours],
        (TRANSFORMER, "saccade, bf16"): [trained],
    }
    lines = joeynmt.run.table(options, results).splitlines()
    whole, alone = lines[6:9], lines[-2:]
    assert (
        whole[1]
        == "| Transformer 3+3 | saccade | 7 | 1.500 | 700 | 7.00 | 40 | 4.00 | 200 | 20.00 | 6.0 | 240 | 2.00 | 31.0 |"
    )
    assert "| 900 | 9.00 | – |" in whole[2]
    assert alone[1] == "| Transformer 3+3 | saccade | 8.0 | 4.00 | 6.0 | 48 | 2.00 |"
    assert {line.count("|") for line in lines[4:9]} == {15} and {line.count("|") for line in lines[-4:]} == {8}


def test_the_table_stands_after_every_training(joeynmt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = sizes(
        pairs=[TRANSFORMER], ways=["saccade"], greedy=0, logs=tmp_path, scratch=tmp_path, out=tmp_path / "t.md"
    )
    peer = {"training": 100.0, "decoding": 10.0, "parameters": 7, "words": 0.0, "bleu": 0.0}
    monkeypatch.setattr(joeynmt.run, "run_joey", lambda *_: peer)

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(joeynmt.run, "run_saccade", cut_off)
    with pytest.raises(KeyboardInterrupt):
        joeynmt.run.compare(options)
    assert "| Transformer 3+3 | JoeyNMT | 7 | – | 100 | 1.00 | 10 | 1.00 |" in options.out.read_text(encoding="utf-8")


def test_a_pair_that_is_none_is_named(joeynmt: Any) -> None:
    with pytest.raises(SystemExit, match=r"--pairs: expected some of GRU, additive; .*, found 'Transformer'"):
        joeynmt.run.options_of(["--pairs", "Transformer"])
    assert joeynmt.run.options_of(["--pairs", "GRU, additive; Transformer 3+3"]).pairs == ["GRU, additive", TRANSFORMER]


def test_the_clock_adds_up_and_returns_what_the_search_returns(joeynmt: Any) -> None:
    clock = joeynmt.peer.Clock(lambda number, *, twice: sum(range(number)) * (2 if twice else 1))
    assert clock(100_000, twice=True) == 9_999_900_000
    once = clock.seconds
    clock(100_000, twice=False)
    assert clock.seconds > once > 0

"""The benchmark of Flickr8k: the plain model is the package's, and what its tables are computed from."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from saccade.data.images.batch import collate_captions
from saccade.metrics.captions import caption_statistics
from saccade.models.show_attend_tell import Config, ShowAttendTell
from saccade.nn.captioner import Looks, Seen
from saccade.training.losses import sequence_loss

FOLDER = Path(__file__).parents[2] / "benchmarks/flickr8k"
PAD, BOS, EOS = 0, 1, 2
CAPTIONS = [[5, 7, 4], [6, 3, 8, 4, 9], [10]]


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_flickr8k_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[f"benchmark_flickr8k_{name}"] = made  # its dataclasses look their module up
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def plain() -> Any:
    return module("plain")


@pytest.fixture(scope="module")
def run() -> Any:
    return module("run")


def test_the_plain_model_has_the_networks_loss_and_gradient(plain: Any) -> None:
    torch.manual_seed(3)
    network = ShowAttendTell(Config(hidden=6, embedding=4, dropout=0.0), 11, Seen(features=(3, 2, 7)), BOS).double()
    cells = torch.randn(3, 6, 7, dtype=torch.float64)
    model = plain.copied(network, 7, BOS).double()
    batch = collate_captions(cells, CAPTIONS, [0, 1, 2])
    looks = Looks()
    logits = network(cells, batch.target_lengths, batch.target_in, looks=looks)
    total = sequence_loss(logits, batch.target_out, padding=PAD, smoothing=0.0)
    real = batch.target_out != PAD
    expected = (total + network.regulariser(looks, torch.zeros_like(logits[..., 0]), real, {})) / batch.tokens
    rows = list(enumerate(CAPTIONS))
    items = [plain.Captions(cells, rows)[number] for number in range(3)]
    _, words, targets = plain.collate(items, bos=BOS, eos=EOS)
    found = model.loss(cells, words, targets)
    torch.testing.assert_close(found, expected)
    found.backward(), expected.backward()
    torch.testing.assert_close(model.query.weight.grad, network.query_weight.grad)
    torch.testing.assert_close(model.cell.weight_ih.grad, network.cell.forwards[0].unit.weight_ih_l0.grad)


def test_the_speed_counts_from_the_first_update_of_the_last_epoch_to_its_last(run: Any, tmp_path: Path) -> None:
    lines = ["update,epoch,tokens,seconds", "1,0,50,9.0", "2,0,60,9.5", "3,1,70,12.0", "4,1,80,12.5", "5,1,90,13.25"]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run.seconds_of_last_epoch(tmp_path) == (1.25, 170)


def test_a_step_moves_where_its_likeliest_or_its_chosen_cell_is_another(run: Any, monkeypatch: Any) -> None:
    weights = torch.eye(5)[[0, 3, 3, 1]]
    trace = SimpleNamespace(map=lambda site: SimpleNamespace(weights=weights), signals={})
    monkeypatch.setattr("saccade.trace.Lens", lambda: SimpleNamespace(trace=trace))
    task = SimpleNamespace(scorer=lambda network, given, output: lambda lens: None)
    records = [SimpleNamespace(source="a"), SimpleNamespace(source="b")]
    assert run.share_of_moves(task, None, records, ["one two", "three", "not looked at"]) == 2 / 3
    trace.signals["decoder.chosen"] = SimpleNamespace(values=torch.tensor([[4.0], [4.0], [4.0], [1.0]]))
    assert run.share_of_moves(task, None, records, ["one two", "three"]) == 1 / 3


def test_the_captions_of_all_seeds_together_have_the_metric_of_one_corpus(run: Any) -> None:
    references = [
        ["a dog runs on the grass", "the dog runs"],
        ["two men sit on a long bench"],
        ["a red car stops here"],
    ]
    seeds = [["a dog runs on grass", "men sit on a bench", "a car stops here now"],
             ["the dog runs on the grass", "two men sit on a bench", "a blue car"]]  # fmt: skip
    one = caption_statistics("bleu_4", seeds[0] + seeds[1], references * 2)
    both = run.together([caption_statistics("bleu_4", outputs, references) for outputs in seeds])
    assert len(both) == 3 and both.value == pytest.approx(one.value) and 0 < one.value < 100


def result(run: Any, network: str, seed: int, bleu: float, moves: float | None) -> Any:
    figures = dict.fromkeys(run.METRICS, 1.0) | {"bleu_4": bleu}
    return run.Result(
        run.Run(network, seed, "blocks.10"), figures, {"bleu_4": 2.5}, ["a"] * 7, moves, 13.5, 4, 1234, 56.7, 9, []
    )


def test_the_table_has_a_row_per_run_a_mean_per_network_and_what_was_published(run: Any) -> None:
    results = [
        result(run, "soft", 1, 15.0, 0.25),
        result(run, "mean", 1, 14.0, None),
        result(run, "soft", 2, 18.0, 0.5),
    ]
    lines = run.quality_lines(results)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    column = rows[0].index("BLEU-4")
    assert {len(cells) for cells in rows} == {len(rows[0])}
    named = [(cells[0], cells[2], cells[column], cells[rows[0].index("moves")]) for cells in rows[1:]]
    assert named == [
        ("soft", "1", "15.0", "0.250"), ("soft", "2", "18.0", "0.500"), ("mean", "1", "14.0", "–"),
        ("soft", "mean of 2 ± sd", "16.5 ± 2.1", "0.375 ± 0.177"), ("soft, as published", "–", "19.5", "–"),
        ("hard, as published", "–", "21.3", "–"), ("most frequent caption", "–", "2.5", "–"),
    ]  # fmt: skip
    assert lines[2].startswith("7 pictures, beam 5")


def test_a_result_is_read_as_it_was_written(run: Any, tmp_path: Path) -> None:
    given = result(run, "hard", 3, 17.25, 0.125)
    given.write(tmp_path / "kept.json")
    assert run.Result.read(tmp_path / "kept.json") == given
    assert json.loads((tmp_path / "kept.json").read_text())["run"]["network"] == "hard"


def test_a_trial_keeps_the_first_pictures_of_each_part(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flickr8k").mkdir()
    (tmp_path / "flickr8k/dev.txt").write_text("3.jpg\n1.jpg\n2.jpg\n", encoding="utf-8")
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    options = SimpleNamespace(runs=tmp_path / "runs", limit=2)
    assert run.listed_in(options, "dev.txt").read_text(encoding="utf-8") == "3.jpg\n1.jpg\n"


def test_a_run_with_another_setting_has_a_name_of_its_own(run: Any) -> None:
    usual, other = run.Run("soft", 1, "blocks.10"), run.Run("soft", 1, "blocks.10", "model.penalty_scale=mean")
    assert (usual.name, usual.key) == ("soft", "soft-blocks.10-1")
    assert (other.name, other.key) == ("soft, model.penalty_scale=mean", "soft-blocks.10-1-model-penalty-scale-mean")


def test_a_variant_names_its_network_its_layer_and_its_settings(run: Any) -> None:
    made = run.variant_of("hard@head model.entropy=0.01 data.features.tune.lr=5e-5", 7, "blocks.10")
    assert (made.network, made.layer, made.seed, made.tuned) == ("hard", "head", 7, True)
    assert made.variant.split() == ["model.entropy=0.01", "data.features.tune.lr=5e-5"]
    assert (run.variant_of("mean", 2, "blocks.10").layer, run.variant_of("mean", 2, "blocks.10").tuned) == (
        "blocks.10",
        False,
    )
    for wrong in ("model.entropy=0.01", "soft head"):
        with pytest.raises(SystemExit, match="expected NETWORK"):
            run.variant_of(wrong, 1, "head")

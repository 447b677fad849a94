"""The task caption on features of a frozen backbone: the same from the cache and computed now, and never of another one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import saccade
from saccade.data.images.config import FeatureConfig
from saccade.data.images.features import features_of
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.records import CaptionData
from saccade.data.toy.shapes import Shapes
from saccade.errors import SaccadeError
from saccade.models.show_attend_tell import Config, ShowAttendTell
from saccade.nn.search.beam_search import Search
from saccade.plugins import EVERYTHING, searching
from saccade.tasks.caption import Caption
from saccade.trace import Lens

OWN = """
import torch
from torch import nn
class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed({seed})
        self.convolution = nn.Conv2d(3, 6, 4, stride=4)
    def forward(self, pixels):
        return torch.relu(self.convolution(pixels))
"""
SMALL = Config(hidden=5, embedding=4, alignment=3, dropout=0.0)


@pytest.fixture
def backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a backbone of one's own: of 16 × 16 pixels a grid of 4 × 4 cells of 6 numbers."""
    (tmp_path / "own_caption_backbone.py").write_text(OWN.format(seed=3), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_caption_backbone", raising=False)
    yield "own_caption_backbone:Tiny"
    sys.modules.pop("own_caption_backbone", None)


def data(backbone: str, **changes: Any) -> CaptionData:
    features = FeatureConfig(backbone, cache="kept", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    return CaptionData(
        source="shapes", shapes=Shapes(train=23, valid=5, test=7, size=16), image=ImageConfig(size=16), max_length=12,
        features=features, **changes,
    )  # fmt: skip


def test_a_batch_holds_the_features_of_its_pictures(backbone: str) -> None:
    with searching(trust=EVERYTHING):
        splits = Caption.load(data(backbone), Path("."), 1)
        task = Caption.learn(data(backbone), splits.train)
    assert task.kept is not None and task.kept.grid == (4, 4, 6)
    corpus = task.corpus(splits.train, "train")
    batch = task.batch(corpus, [3, 0, 3])
    framed = [torch.from_numpy(splits.train[number].source.read().copy()).permute(2, 0, 1) for number in (3, 0)]
    expected = features_of(task.kept.backbone, torch.stack(framed))
    assert batch.source.shape == (3, 16, 6)
    torch.testing.assert_close(batch.source, expected[[0, 1, 0]], rtol=1e-3, atol=1e-3)
    network = task.network(ShowAttendTell, SMALL)
    assert network.cnn is None and network.grid == (4, 4)
    assert not any("convolution" in name for name, _ in network.named_parameters())  # it is not trained
    loss = task.loss(network, batch)
    loss.mean.backward()
    assert loss.count == batch.tokens and all(
        torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None
    )


def test_a_picture_is_described_as_one_that_is_kept(backbone: str) -> None:
    with searching(trust=EVERYTHING):
        splits = Caption.load(data(backbone), Path("."), 1)
        task = Caption.learn(data(backbone), splits.train)
    torch.manual_seed(1)
    network = task.network(ShowAttendTell, SMALL).eval()
    picture = splits.train[2].source
    task.corpus(splits.train, "train")
    kept = task.predict(network, [picture], how=Search(), lens=Lens())[0]
    new = task.predict(network, [picture.read()], how=Search(), lens=Lens())[0]
    assert kept.value == new.value and kept.log_prob == pytest.approx(new.log_prob, abs=1e-3)
    (found,) = kept.trace.maps
    assert found.weights.shape[-1] == 16 and len(kept.trace.axes["image"].labels) == 16
    assert len(list(Path("kept").glob("*/*.safetensors"))) == 1  # what is described once is not kept


def recipe(backbone: str, **changes: Any) -> dict[str, Any]:
    return {
        "task": "caption",
        "data": {
            "source": "shapes", "shapes": {"train": 23, "valid": 5, "test": 7, "size": 16}, "image": {"size": 16},
            "max_length": 12, "features": {"backbone": backbone, "cache": "kept"},
        },
        "model": {"name": "show_attend_tell", "hidden": 5, "embedding": 4, "alignment": 3},
        "train": {"epochs": 1, "batch_records": 8, "batch_tokens": None, "threads": 1, "device": "cpu"},
        "metrics": ["exact_match", "bleu_4", "perplexity"],
        **changes,
    }  # fmt: skip


def test_a_run_needs_its_own_backbone_and_trust_in_its_module(backbone: str, tmp_path: Path) -> None:
    bundle = saccade.train(recipe(backbone), folder=tmp_path / "run", progress=False)
    picture = np.random.default_rng(4).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    before = bundle.predict(picture)[0]
    with pytest.raises(SaccadeError, match="own_caption_backbone"):
        saccade.load(tmp_path / "run")
    again = saccade.load(tmp_path / "run", device="cpu", trust=["own_caption_backbone"])
    assert again.predict(picture)[0].value == before.value
    assert again.predict(picture)[0].log_prob == pytest.approx(before.log_prob, abs=1e-6)

    del sys.modules["own_caption_backbone"]
    (tmp_path / "own_caption_backbone.py").write_text(OWN.format(seed=4), encoding="utf-8")
    with pytest.raises(
        SaccadeError, match=r"the backbone that the network was trained with, [0-9a-f]{32}, found another"
    ):
        saccade.load(tmp_path / "run", trust=["own_caption_backbone"])

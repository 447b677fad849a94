"""Kept features: computed once per picture and backbone, whole after a kill, read through a memory map."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from saccade.data import feature_cache
from saccade.data.images import features as module
from saccade.data.images.batch import pixels_of
from saccade.data.images.config import FeatureConfig
from saccade.data.images.features import FeatureStore, KeptFeatures, backbone_of, cache_of, features_of, folder_of
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.places import Picture
from saccade.errors import InputError
from saccade.nn.backbones import Backbone
from saccade.progress import watched

pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'saccade[images]'")

FRAME = ImageConfig(size=12)


class Tiny(nn.Module):
    """Of 12 × 12 pixels maps [B, 5, 3, 3]."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.convolution, self.dropout = nn.Conv2d(3, 5, 4, stride=4), nn.Dropout(0.5)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.dropout(self.convolution(pixels))
        return found


def backbone(seed: int = 3, **options: Any) -> Backbone:
    return Backbone(Tiny(seed), mean=[0.5] * 3, std=[0.25] * 3, **options)


def drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (13 + number, 15, 3), dtype=np.uint8)


def pictures(count: int, start: int = 0) -> list[Picture]:
    return [Picture.in_memory(drawn(start + number), f"picture {start + number}") for number in range(count)]


def store(given: list[Picture], cache: Path, used: Backbone, **options: Any) -> FeatureStore:
    options = {"batch": 3, "progress": False, "device": "cpu", **options}
    return FeatureStore(given, options.pop("image", FRAME), used, cache, **options)


def expected(given: list[Picture], used: Backbone, image: ImageConfig = FRAME) -> torch.Tensor:
    framed, _ = pixels_of([picture.read() for picture in given], image)
    with torch.no_grad():
        found: torch.Tensor = used.eval()(framed).half()
    return found


def kept(used: Backbone, cache: Path) -> Path:
    return folder_of(used.name, used.digest, FRAME, cache)


def test_features_are_those_of_the_backbone_rounded_to_float16(tmp_path: Path) -> None:
    given, used = pictures(7), backbone()
    found = store(given, tmp_path, used)
    assert found.grid == (3, 3, 5) and len(found) == 7 and found.computed == 7
    features = found.features([6, 0, 6, 3])
    assert features.dtype == torch.float16 and features.shape == (4, 9, 5)
    torch.testing.assert_close(features, expected([given[number] for number in (6, 0, 6, 3)], used), rtol=0, atol=0)
    pixels, _ = pixels_of([given[3].read()], FRAME)
    torch.testing.assert_close(features_of(used, pixels)[0], features[3], rtol=1e-3, atol=1e-3)


def test_a_backbone_in_training_mode_is_frozen_meanwhile(tmp_path: Path) -> None:
    given, used = pictures(4), backbone().train()
    features = store(given, tmp_path, used).features(range(4))
    assert used.training and used.network.dropout.training
    torch.testing.assert_close(features, expected(given, used), rtol=0, atol=0)


def test_a_picture_is_computed_once_also_under_another_name_and_in_another_set(tmp_path: Path) -> None:
    first, used = pictures(5), backbone()
    twice = [*first, Picture.in_memory(drawn(2), "a copy of picture 2")]
    assert store(twice, tmp_path, used).computed == 5
    again, other = [*pictures(2, start=4), *pictures(1)], backbone()
    found = store(again, tmp_path, other)
    assert found.computed == 1
    torch.testing.assert_close(found.features([0, 1, 2]), expected(again, used), rtol=1e-3, atol=1e-3)
    assert store(again, tmp_path, backbone()).computed == 0


@pytest.mark.parametrize(
    ("other", "image"),
    [({"seed": 4}, FRAME), ({"layer": "convolution"}, FRAME), ({}, ImageConfig(size=12, crop="stretch"))],
    ids=["weights", "layer", "crop"],
)
def test_another_backbone_layer_or_framing_has_features_of_its_own(
    other: dict[str, Any], image: ImageConfig, tmp_path: Path
) -> None:
    given = pictures(3)
    store(given, tmp_path, backbone())
    used = backbone(**other)
    found = store(given, tmp_path, used, image=image)
    assert found.computed == 3 and len(list(tmp_path.iterdir())) == 2
    torch.testing.assert_close(found.features(range(3)), expected(given, used, image), rtol=0, atol=0)


def test_the_folder_says_what_it_holds(tmp_path: Path) -> None:
    used = backbone(name="models/tiny net")
    store(pictures(2), tmp_path, used)
    folder = kept(used, tmp_path)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    assert folder.name.startswith("tiny-net-") and about["grid"] == [3, 3, 5] and about["digest"] == used.digest
    assert about["image"] == {"size": 12, "crop": "centre", "filter": "bicubic"} and about["mean"] == [0.5] * 3


def test_shards_are_written_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, "SHARD_BYTES", 6 * 9 * 5 * 2)  # six pictures
    given, used = pictures(14), backbone()
    found = store(given, tmp_path, used, batch=2)
    assert len(list(kept(used, tmp_path).glob("*.safetensors"))) == 3
    monkeypatch.setattr(feature_cache, "MAPS_OPEN", 1)
    numbers = [13, 0, 7, 1]
    wanted = expected([given[number] for number in numbers], used)
    torch.testing.assert_close(found.features(numbers), wanted, rtol=1e-3, atol=1e-3)


def test_an_interruption_keeps_what_was_computed(tmp_path: Path) -> None:
    given, used, seen = pictures(10), backbone(), list[tuple[int, int]]()

    def stop(ready: int, total: int) -> None:
        seen.append((ready, total))
        if ready == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store(given, tmp_path, used, progress=stop)
    assert seen == [(3, 10), (6, 10)]
    rest = list[tuple[int, int]]()
    found = store(given, tmp_path, used, progress=lambda ready, total: rest.append((ready, total)))
    assert found.computed == 4 and rest == [(9, 10), (10, 10)]
    torch.testing.assert_close(found.features(range(10)), expected(given, used), rtol=1e-3, atol=1e-3)


def test_whoever_watches_hears_how_far_it_is(tmp_path: Path) -> None:
    heard: list[float | None] = []
    with watched(lambda progress: heard.append(progress.share)):
        store(pictures(7), tmp_path, backbone())
    assert heard == [pytest.approx(3 / 7), pytest.approx(6 / 7), 1.0]


KILLED = """
import sys, time
from pathlib import Path
from tests.data.images import test_features as tests
tests.feature_cache.SHARD_BYTES = 4 * 9 * 5 * 2
def done(ready, total):
    print(ready, flush=True)
    if ready >= 8:
        time.sleep(60)
tests.store(tests.pictures(20), Path(sys.argv[1]), tests.backbone(), batch=2, progress=done)
"""


def test_after_a_kill_only_what_followed_the_last_shard_is_computed_again(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "8":
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    given, used = pictures(20), backbone()
    found = store(given, tmp_path, used)
    assert found.computed == 12
    torch.testing.assert_close(found.features(range(20)), expected(given, used), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("damage", ["cut", "foreign", "of another shape"])
def test_a_damaged_shard_is_computed_again(damage: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    from saccade.storage import save_tensors

    given, used = pictures(5), backbone()
    store(given, tmp_path, used)
    (shard,) = kept(used, tmp_path).glob("*.safetensors")
    if damage == "cut":
        shard.write_bytes(shard.read_bytes()[:-7])
    elif damage == "foreign":
        save_file({"features": np.zeros((5, 9, 5), np.float16)}, shard)
    else:
        digests = [picture.digest for picture in given]
        save_tensors(shard, {"features": torch.zeros(5, 8, 5, dtype=torch.float16)}, {"pictures": digests})
    found = store(given, tmp_path, used)
    assert found.computed == 5
    torch.testing.assert_close(found.features(range(5)), expected(given, used), rtol=1e-3, atol=1e-3)


def test_what_float16_cannot_hold_is_an_error_and_no_infinity(tmp_path: Path) -> None:
    used = backbone()
    nn.init.constant_(used.network.convolution.bias, 1e5)
    with pytest.raises(InputError, match=r"picture 0.*65,504.*found 1000"):
        store(pictures(2), tmp_path, used)


def test_a_truncated_picture_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(drawn(50)).save(stream, "PNG")
    (tmp_path / "cut.png").write_bytes(stream.getvalue()[:-200])
    given, used = [*pictures(6), Picture.of_file(tmp_path / "cut.png")], backbone()
    with pytest.raises(InputError, match=r"cut\.png"):
        store(given, tmp_path / "cache", used)
    assert store(given[:6], tmp_path / "cache", used).computed == 0


MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
from tests.data.images import test_features as tests
from saccade.data.images.places import Picture
class Scene:
    def __init__(self, number): self.number = number
    def __repr__(self): return f"scene {self.number}"
    def draw(self): return np.full((256, 256, 3), self.number % 256, np.uint8)
count, cache = int(sys.argv[1]), Path(sys.argv[2])
tests.feature_cache.SHARD_BYTES = 1 << 20
used = tests.Backbone(tests.nn.Conv2d(3, 64, 8, stride=8))
given = [Picture.of_scene(Scene(number)) for number in range(count)]
found = tests.FeatureStore(given, tests.ImageConfig(size=64), used, cache, batch=16, progress=False, device="cpu")
for start in range(0, count, 16):
    found.features(range(start, min(start + 16, count)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path: Path) -> None:
    root, peaks = Path(__file__).parents[3], []
    for count in (32, 352):  # 320 more pictures take 63 MB as they are read, and 4 MB framed
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(count), str(tmp_path / str(count))], cwd=root, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 30_000, peaks  # KiB


def test_features_of_any_pictures_stand_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, given = backbone().eval(), pictures(9)
    monkeypatch.setattr(module, "backbone_of", lambda config: used)
    kept = KeptFeatures(FeatureConfig("unused", cache=str(tmp_path)), FRAME)
    store = kept.store(given[2:4])
    assert store.computed == 2 and kept.grid == (3, 3, 5)
    torch.testing.assert_close(kept.features(given), expected(given, used), rtol=1e-3, atol=1e-3)


# Settings


def test_paths_of_the_settings_start_at_the_recipes_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[Any] = []
    monkeypatch.setattr(module, "load_backbone", lambda name, **options: named.append((name, options)))
    backbone_of(FeatureConfig("models/net", layer="a.b", mean=(0.1, 0.2, 0.3)), tmp_path)
    backbone_of(FeatureConfig("mine.net:Net", weights="net.bin"), tmp_path)
    backbone_of(FeatureConfig("efficientnet_lite0"), tmp_path)
    assert [name for name, _ in named] == [str(tmp_path / "models/net"), "mine.net:Net", "efficientnet_lite0"]
    assert named[0][1]["layer"] == "a.b" and named[0][1]["mean"] == (0.1, 0.2, 0.3)
    assert named[1][1]["weights"] == tmp_path / "net.bin" and named[2][1]["weights"] is None
    assert cache_of(FeatureConfig("x", cache="kept"), tmp_path) == tmp_path / "kept"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_of(FeatureConfig("x")) == tmp_path / ".cache/saccade/features"


def test_computing_is_timed_so_that_little_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, "SHARD_SECONDS", 0.0)
    used = backbone()
    store(pictures(6), tmp_path, used, batch=2)
    assert len(list(kept(used, tmp_path).glob("*.safetensors"))) == 3

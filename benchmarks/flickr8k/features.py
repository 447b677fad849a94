"""Computes the features of Flickr8k's 8,000 pictures once, and says how long it took and how large they are.

    python benchmarks/flickr8k/features.py --cache runs/features [--layer blocks.10] [--backbone NAME] [--device cpu]

A run that was interrupted continues. The cache can be carried to another machine: it is found by what the pictures and the
backbone contain. Reads $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import machine
import torch

from saccade.data.images.config import FeatureConfig
from saccade.data.images.features import FeatureStore, backbone_of
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.places import check_picture, files_in, is_picture


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--layer")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device")
    options = parser.parse_args(words)
    archives = sorted(Path(os.environ["SACCADE_DATA"], "flickr8k").glob("images_*.zip"))
    pictures = [
        check_picture(origin, name, whole=False)
        for archive in archives
        for name, origin in files_in(archive).items()
        if is_picture(name)
    ]
    backbone = backbone_of(FeatureConfig(options.backbone, layer=options.layer))
    started = time.perf_counter()
    store = FeatureStore(
        pictures, ImageConfig(), backbone, options.cache, batch=options.batch, device=options.device
    )  # fmt: skip
    seconds = time.perf_counter() - started
    size = sum(path.stat().st_size for path in store.folder.iterdir())
    rate = f"{store.computed / seconds:.1f} pictures/s" if store.computed else "none computed"
    print(f"{len(store):,} pictures, grid {store.grid}, {size / 2**20:,.0f} MiB in {store.folder}")
    print(f"computed {store.computed:,} in {seconds:.0f} s: {rate} ({machine.device_name(options.device)}, "
          f"{torch.get_num_threads()} threads)")  # fmt: skip


if __name__ == "__main__":
    main()

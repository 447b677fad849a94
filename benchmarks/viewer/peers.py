"""The pages of the other viewers; run by a Python that has them, since saccade needs neither.

    python peers.py WEIGHTS.npy FOLDER

``WEIGHTS`` is [layers, heads, T, T]; each tool is given it as its documentation asks, and its page is written as
``FOLDER/NAME.html``. A line of JSON says what was written and how long it took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch


def bertviz(view: str, weights: torch.Tensor, tokens: list[str]) -> str:
    import bertviz

    show = {"head": bertviz.head_view, "model": bertviz.model_view}[view]
    return str(show(attention=[layer[None] for layer in weights], tokens=tokens, html_action="return").data)


def circuitsvis(weights: torch.Tensor, tokens: list[str]) -> str:
    from circuitsvis.attention import attention_heads

    # The page that it makes without a network, with its script inside.
    page = attention_heads(attention=weights.flatten(0, -3), tokens=tokens, mask_upper_tri=False)
    return f'<!doctype html><meta charset="utf-8">{page.local_src}'


PAGES: dict[str, Callable[[torch.Tensor, list[str]], str]] = {
    "bertviz-head": lambda weights, tokens: bertviz("head", weights, tokens),
    "bertviz-model": lambda weights, tokens: bertviz("model", weights, tokens),
    "circuitsvis-12": lambda weights, tokens: circuitsvis(weights[0], tokens),
    "circuitsvis-144": circuitsvis,
}


def main() -> None:
    weights, folder, *names = sys.argv[1:]
    attention = torch.from_numpy(np.load(weights))
    tokens = [f"token{i}" for i in range(attention.shape[-1])]
    versions = {name: version(name) for name in ("bertviz", "circuitsvis")}
    for name in names or PAGES:
        start = time.perf_counter()
        page = PAGES[name](attention, tokens)
        path = Path(folder) / f"{name}.html"
        path.write_text(page, encoding="utf-8")
        took = time.perf_counter() - start
        print(json.dumps({"name": name, "path": str(path), "seconds": took, "versions": versions}), flush=True)


if __name__ == "__main__":
    main()

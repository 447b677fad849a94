"""Make the traces of ``saccade view --demo``: train the built-in recipes that are quick, and look at one example with each.

    python scripts/make_gallery.py --runs runs/gallery

A recipe whose run is there already is not trained again. On two cores all of it takes about fifteen minutes. Run it in the
checkout: the generated traces come from the tests' own makers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))

import saccade  # noqa: E402
from saccade import api  # noqa: E402
from saccade.errors import SaccadeError  # noqa: E402
from saccade.explain import erasure  # noqa: E402
from saccade.nn.search.beam_search import Search  # noqa: E402
from saccade.recipes.recipe import read_recipe  # noqa: E402
from saccade.trace.lens import DETAILS, Lens  # noqa: E402
from saccade.trace.maps import Trace  # noqa: E402
from saccade.views.html.gallery import ENDING, GENERATED, MODELS, keep  # noqa: E402

PLACE = HOME / "src" / "saccade" / "views" / "html" / "gallery"
DATE = "sexta-feira, 27 de março de 1998"  # no digit of the day is one of the month or the year
ASKED = {
    "rnnsearch_dates": (DATE, Search(beam=5)),
    "luong_dates": (DATE, Search(beam=3)),
    "transformer_dates": (DATE, Search(beam=3)),
    "seq2seq_cho_dates": (DATE, Search(beam=3)),
    "attentive_opinions": (
        "about the soup : my sister called it dull , the guide found it superb and i thought it lovely .",
        None,
    ),
    "bert_topics": ("this king [MASK] the queen .", None),
    "transformer_language_agreement": ("the dogs that the cat", Search(beam=4)),
    "pointer_sorting": ("[0.69, 0.96, 0.41, 0.79, 0.47, 0.25, 0.05, 0.87, 0.33, 0.58]", Search(beam=3)),
}


def trained(name: str, runs: Path) -> saccade.Bundle:
    """The run of a recipe: what lies there, or a new one; either reached what the recipe must."""
    if (runs / name / "config.json").exists():
        bundle = saccade.load(runs / name, device="cpu")
    else:
        print(f"training {name} …", flush=True)
        bundle = api.train(read_recipe(name), folder=runs / name)
    verdict = api.verdict(bundle)
    if not verdict.met:
        raise SaccadeError(f"{name}: {verdict.text}")
    return bundle


def looked(bundle: saccade.Bundle, name: str) -> Trace:
    """The trace of its example, with every detail, and how far to trust it where that can be measured."""
    text, search = ASKED[name]
    trace = bundle.predict([text], lens=Lens(detail=DETAILS), search=search)[0].trace
    if trace is None:
        raise SaccadeError(f"{name}: a prediction without a trace")
    try:
        return erasure.tested(bundle, text, trace)
    except SaccadeError as reason:
        print(f"{name}: not tested: {reason}")
        return trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=HOME / "runs" / "gallery", help="where runs lie or are made")
    parser.add_argument("--generated", action="store_true", help="make the generated traces only; train nothing")
    given = parser.parse_args()
    from tests.web import made_sources

    made = {name: getattr(made_sources, name)() for name in GENERATED}
    if not given.generated:
        made |= {name: looked(trained(name, given.runs), name) for name in MODELS}
    for name, trace in made.items():
        path = PLACE / f"{name}{ENDING}"
        keep(trace, path)
        print(f"{path.relative_to(HOME)}  {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()

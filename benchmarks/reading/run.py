"""What the recipes that read reach: documents, sentences, aspects, relations, tags, answers; five seeds each.

    python benchmarks/reading/run.py --runs runs/reading --jobs 6 [--recipes han_imdb,attentive_imdb] [--minutes 9]
        [--set han_imdb:data.vectors=runs/skipgram] [--out benchmarks/results/DATE-reading.md]
    python benchmarks/reading/run.py --tiny

Each recipe is trained as it is shipped, with the seeds 1, 2, …; a run chooses its network on its validation set, and reads
the test set once, at its end. Each run is a process and a folder: what is finished is not trained again. Reads $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import trained
from trained import Run


@dataclass(frozen=True)
class Aim:
    """The data, what others published on it, and what is to be reached here (None: it is only stated)."""

    data: str
    published: str = "–"
    goal: float | None = None


AIMS = {
    "han_imdb": Aim("IMDB", "0.911 (LSTM + attention)", 0.90),
    "attentive_imdb": Aim("IMDB", "0.911 (LSTM + attention)", 0.90),
    "atae_restaurants": Aim("SemEval-14 restaurants", "0.772 (300-d vectors)", 0.757),
    "atae_laptops": Aim("SemEval-14 laptops", "0.687 (300-d vectors)", 0.672),
    "att_blstm_semeval10": Aim("SemEval-10 task 8", "0.840", 0.81),
    "tagger_conll2000": Aim("CoNLL-2000 chunks", "0.935", 0.935),
    "transformer_conll2000": Aim("CoNLL-2000 chunks", "0.935"),
    "tagger_ewt": Aim("UD English EWT, UPOS", "0.972 (large pretrained model)", 0.95),
    "tagger_bosque": Aim("UD Portuguese Bosque, UPOS", "0.981 (large pretrained model)", 0.96),
    "tagger_wnut17": Aim("WNUT17"),
    "bert_wnut17": Aim("WNUT17"),
    "bert_lener": Aim("LeNER-Br"),
    "atae_imdb": Aim("IMDB, last 100 words"),
    "tagger_lener": Aim("LeNER-Br"),
    "siamese_wikiqa": Aim("WikiQA", "0.693", 0.65),
    "glove_trec": Aim("TREC", "0.928 (CNN)", 0.91),
    "attentive_trec": Aim("TREC", "0.928 (CNN)"),
    "transformer_trec": Aim("TREC", "0.928 (CNN)"),
    "bert_trec": Aim("TREC", "0.928 (CNN)"),
}
TINY = {
    "attentive_opinions": ("data.opinions.train=60", "data.opinions.valid=9", "data.opinions.test=25", "train.epochs=1",
                           "model.hidden=5", "model.embedding=6", "train.threads=1"),
}  # fmt: skip
HEAD = ("recipe", "data", "metric", "test", "each seed", "dev", "s a run", "parameters", "published", "goal")


def runs_of(options: argparse.Namespace) -> dict[str, list[Run]]:
    """The runs of each recipe."""
    from saccade.recipes.recipe import shipped_recipes

    shipped = shipped_recipes()
    wanted = list(TINY) if options.tiny else (options.recipes or [name for name in AIMS if name in shipped])
    unknown = [name for name in wanted if name not in shipped]
    if unknown:
        sys.exit(f"--recipes: expected names of shipped recipes, found {unknown[0]!r}")
    own: dict[str, list[str]] = {name: [] for name in wanted}
    for text in options.set:
        name, colon, change = text.partition(":")
        if not colon or name not in own or "=" not in change:
            sys.exit(f"--set: expected RECIPE:key=value of a recipe that is run, found {text!r}")
        own[name].append(change)
    return {
        name: [
            Run(
                f"{name}-{seed}",
                name,
                (*TINY.get(name, ()), *own[name], f"train.seed={seed}", f"train.device={options.device}"),
            )
            for seed in range(1, options.seeds + 1)
        ]
        for name in wanted
    }


def row(name: str, found: list[dict[str, Any]]) -> str:
    aim = AIMS.get(name, Aim("made"))
    if not found:
        return f"| {name} | {aim.data} |{' – |' * (len(HEAD) - 4)} {aim.published} | {goal_of(aim, None)} |"
    metric = found[0]["metric"]
    values = [each["test"][metric] for each in found]
    watch = found[0]["watch"]
    dev = [each["valid"][watch] for each in found if watch in each["valid"]]
    cells = [name, aim.data, metric, trained.spread(values), " ".join(f"{value:.4f}" for value in values)]
    cells += [f"{watch} {trained.spread(dev)}", f"{statistics.mean(each['seconds'] for each in found):.0f}"]
    cells += [f"{found[0]['parameters']:,}", aim.published, goal_of(aim, statistics.mean(values))]
    return f"| {' | '.join(cells)} |"


def goal_of(aim: Aim, mean: float | None) -> str:
    if aim.goal is None:
        return "–"
    judged = "" if mean is None else (", reached" if mean >= aim.goal else ", missed")
    return f"≥ {aim.goal:g}{judged}"


def written(results: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> str:
    lines = ["# Reading" + (" (made texts, small networks)" if options.tiny else ""), ""]
    lines += [trained.where_and_when(options.jobs), "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [row(name, found) for name, found in results.items()]
    told = [f"`{text}`" for text in options.set]
    lines += ["", f"Changed: {', '.join(told)}."] if told else []
    said = "± is the deviation over the seeds; dev is the watched figure of the validation set, by which a run chose."
    return "\n".join([*lines, "", said, ""])


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--recipes", type=lambda text: text.split(","), help="names, parted by commas; all unless given"
    )
    parser.add_argument("--set", action="append", default=[], metavar="RECIPE:KEY=VALUE", help="a field of one recipe")
    trained.options_of(parser)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.runs or Path(scratch if options.tiny else "runs/reading")
        runs = runs_of(options)
        found = trained.results_of([run for part in runs.values() for run in part], folder, trained.limits_of(options))
    results = {name: [each for run in part if (each := found[run]) is not None] for name, part in runs.items()}
    trained.finish(written(results, options), sum(each is None for each in found.values()), options.out)


if __name__ == "__main__":
    main()

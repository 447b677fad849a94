"""Does attention help, where, by how much: one network with and without it, on several data sets, seed by seed.

    python benchmarks/pooling/run.py --runs runs/pooling --jobs 6 [--data TREC,MR] [--out benchmarks/results/DATE-pooling.md]
    python benchmarks/pooling/run.py --tiny

Every network of a table reads the same data by the same schedule, that of a shipped recipe; only how its states become one
vector differs (or, of the tagger, whether words look at one another). Runs of one seed are compared with each other: they
have the same splits and the same order of batches. MR has no test set: a tenth of it is held out, drawn by the seed. Each
run is a process and a folder: what is finished is not trained again. Reads $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "reading"))

import trained
from trained import Run

POOLS = ("additive", "dot", "mean", "max", "last")
WITH = ("additive", "dot", "attention", "scaled_dot")  # the rows that look
MR = (
    "data.train=$SACCADE_DATA/sentence_classification/rt-polarity.all.gz", "data.test=null", "data.hold_out=0.1",
    "data.max_length=60", "data.too_long=truncate",
)  # fmt: skip
CHOSEN = ("data.hold_out=0.1", "train.keep=best")  # with few held out, dev would say nothing of the networks
SMALL = ("data.opinions.train=60", "data.opinions.valid=9", "data.opinions.test=25", "train.epochs=1", "model.hidden=5",
         "model.embedding=6", "train.threads=1")  # fmt: skip
HEAD = ("network", "test", "each seed", "dev", "parameters", "s a run")


@dataclass(frozen=True)
class Table:
    """A recipe and the field that is varied; the first value is what the others are compared with."""

    recipe: str
    field: str
    values: tuple[str, ...]
    changes: tuple[str, ...] = ()


TABLES = {
    "IMDB": Table("attentive_imdb", "model.pool", POOLS),
    "TREC": Table("attentive_trec", "model.pool", POOLS),
    "MR": Table("attentive_trec", "model.pool", POOLS, MR),
    "SemEval-10": Table("att_blstm_semeval10", "model.pool", ("attention", "max", "last"), CHOSEN),
    "CoNLL-2000": Table("tagger_conll2000", "model.attention", ("scaled_dot", "additive", "none")),
}
TINY = {"opinions": Table("attentive_opinions", "model.pool", POOLS, SMALL)}


def runs_of(name: str, table: Table, options: argparse.Namespace) -> dict[str, list[Run]]:
    """The runs of each value of the field."""
    return {
        value: [
            Run(
                f"{name}-{value}-{seed}".lower().replace(" ", "-"),
                table.recipe,
                (
                    *table.changes,
                    f"{table.field}={value}",
                    f"train.seed={seed}",
                    f"train.device={options.device}",
                ),
            )
            for seed in range(1, options.seeds + 1)
        ]
        for value in table.values
    }


def row(name: str, found: dict[int, dict[str, Any]], first: dict[int, dict[str, Any]] | None) -> str:
    metric = next((each["metric"] for each in found.values()), "")
    values = [each["test"][metric] for each in found.values()]
    dev = [each["valid"][each["watch"]] for each in found.values() if each["watch"] in each["valid"]]
    cells = [name, trained.spread(values), " ".join(f"{value:.4f}" for value in values) or "–", trained.spread(dev)]
    cells += [f"{each['parameters']:,}" for each in list(found.values())[:1]] or ["–"]
    cells.append(f"{statistics.mean(each['seconds'] for each in found.values()):.0f}" if found else "–")
    cells.append("" if first is None else trained.spread(differences(first, found, metric)))
    return f"| {' | '.join(cells)} |"


def differences(first: dict[int, dict[str, Any]], other: dict[int, dict[str, Any]], metric: str) -> list[float]:
    """How much better the first is, seed by seed."""
    return [first[seed]["test"][metric] - other[seed]["test"][metric] for seed in first if seed in other]


def verdict(found: dict[str, dict[int, dict[str, Any]]]) -> str:
    """The best network that looks against the best that does not; both are chosen by their dev figures, not by the test."""
    whole = {value: part for value, part in found.items() if part}

    def dev(value: str) -> float:
        parts = [each for each in whole[value].values() if each["watch"] in each["valid"]]
        mean = statistics.mean(each["valid"][each["watch"]] for each in parts) if parts else 0.0
        return -mean if parts and parts[0]["watch"] == "loss" else mean

    looking = max((value for value in whole if value in WITH), key=dev, default=None)
    blind = max((value for value in whole if value not in WITH), key=dev, default=None)
    if looking is None or blind is None:
        return "Too few runs to say."
    metric = next(iter(whole[looking].values()))["metric"]
    apart = differences(whole[looking], whole[blind], metric)
    if len(apart) < 2:
        return f"{looking} against {blind}: {apart[0]:+.4f} {metric} on one seed." if apart else "No seed in common."
    mean, error = statistics.mean(apart), statistics.stdev(apart) / len(apart) ** 0.5
    judged = "no difference that these seeds can show" if abs(mean) < 2 * error else "helps" if mean > 0 else "harms"
    said = f"attention {judged}" if judged in ("helps", "harms") else judged
    return (
        f"{looking} against {blind}, each the best of its kind on dev: {mean:+.4f} {metric} (± {statistics.stdev(apart):.4f} "
        f"over {len(apart)} seeds, standard error {error:.4f}): {said}."
    )


def section(name: str, table: Table, found: dict[str, dict[int, dict[str, Any]]]) -> list[str]:
    first = found[table.values[0]]
    head = (*HEAD, f"{table.values[0]} − it")
    rows = [row(value, part, first if value != table.values[0] else None) for value, part in found.items()]
    about = f"## {name} (recipe {table.recipe}, `{table.field}`)"
    return [about, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows, "", verdict(found), ""]


def main(words: list[str] | None = None) -> None:
    from saccade.recipes.recipe import shipped_recipes

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=lambda text: text.split(","), help=f"some of {', '.join(TABLES)}; all unless given"
    )
    trained.options_of(parser)
    options = parser.parse_args(words)
    known = TINY if options.tiny else {name: each for name, each in TABLES.items() if each.recipe in shipped_recipes()}
    unknown = [name for name in options.data or () if name not in known]
    if unknown:
        sys.exit(f"--data: expected some of {', '.join(known)}, found {unknown[0]!r}")
    tables = {name: table for name, table in known.items() if options.data is None or name in options.data}
    planned = {name: runs_of(name, table, options) for name, table in tables.items()}
    flat = [run for part in planned.values() for runs in part.values() for run in runs]
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.runs or Path(scratch if options.tiny else "runs/pooling")
        results = trained.results_of(flat, folder, trained.limits_of(options))
    lines = ["# Does attention help?" + (" (made texts, small networks)" if options.tiny else ""), ""]
    lines += [trained.where_and_when(options.jobs), ""]
    for name, table in tables.items():
        found = {
            value: {seed: each for seed, run in enumerate(runs, start=1) if (each := results[run]) is not None}
            for value, runs in planned[name].items()
        }
        lines += section(name, table, found)
    lines.append(
        "± is the deviation over the seeds; in the last column that of the differences between runs of one seed.\n"
    )
    trained.finish("\n".join(lines), sum(each is None for each in results.values()), options.out)


if __name__ == "__main__":
    main()

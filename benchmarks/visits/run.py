"""RETAIN, a GRU and logistic regression on three cohorts: how well they predict, and whether contributions mean something.

    python benchmarks/visits/prepare.py FOLDER && export PHYSIONET2012=FOLDER
    python benchmarks/visits/run.py --runs runs/visits --out benchmarks/results/DATE-visits.md [--data retain_visits,…]

Every network of a table reads the same patients by the same schedule, that of a shipped recipe. Intervals are by the bootstrap
over test patients. Contributions are checked by erasing codes one at a time: the correlation of ω with the change of the logit;
and how far the logit falls when the codes with the largest ω are erased, against as many drawn by chance. What is trained
already is not trained again. Reads $SACCADE_DATA and $PHYSIONET2012.
"""

from __future__ import annotations

import argparse
import random
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import saccade
from saccade.data.visits.batch import collate
from saccade.metrics.outcomes import OUTCOME_METRICS, auc, outcome_scores, outcome_statistics
from saccade.metrics.significance import bootstrap, interval
from saccade.recipes.recipe import SHIPPED

sys.path.insert(0, str(Path(__file__).parents[1]))
from kept import trained
from machine import device_name

COHORTS = ("retain_visits", "retain_synthea_hypertension", "retain_synthea_ischemic_heart", "retain_physionet2012")
TOP, PATIENTS = 3, 200


def models_of(retain: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """RETAIN as the recipe has it, and the others of its size."""
    gru = {"name": "visit_gru", "embedding": retain["embedding"], "hidden": retain["alpha"], "time": retain["time"],
           "dropout": retain["dropout_context"]}  # fmt: skip
    return {"RETAIN": retain, "GRU": gru, "logistic regression": {"name": "visit_logistic"}}


def tested(bundle: Any, cohort: str, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """The test corpus with the probabilities and the truths of its patients."""
    records = bundle.task.load(bundle.task.data, SHIPPED, seed).test
    corpus = bundle.task.corpus(records, "test")
    found = np.concatenate(bundle.task.probabilities(bundle.network, corpus))[:, 0]
    return corpus, found, np.array([record.target[0] for record in records])


@torch.no_grad()
def erased(bundle: Any, corpus: Any) -> dict[str, float]:
    """How contributions go with what erasing a code does to the logit, on the first patients."""
    network, draw = bundle.network.eval(), random.Random(1)
    device = next(network.parameters()).device
    omegas, changes, top, chance = [], [], [], []
    for (codes, days), _ in corpus.rows[:PATIENTS]:
        places = [(visit, place) for visit, listed in enumerate(codes) for place in range(len(listed))]
        if len(places) <= TOP:
            continue
        whole = collate([(codes, days)], [[0]], [0]).to(device)
        omega = network.contributions(whole.codes, whole.times, whole.lengths)[0, ..., 0]
        sizes = [float(omega[place]) for place in places]
        order = sorted(range(len(places)), key=lambda number: -sizes[number])
        drawn = draw.sample(range(len(places)), min(20, len(places)))
        random_sets = [draw.sample(range(len(places)), TOP) for _ in range(5)]
        sets = [[number] for number in drawn] + [order[:TOP], *random_sets]
        rows = [(_without(codes, {places[number] for number in numbers}), days) for numbers in sets]
        batch = collate([(codes, days), *rows], [[0]] * (len(rows) + 1), range(len(rows) + 1)).to(device)
        logits = network(batch.codes, batch.times, batch.lengths)[:, 0].double()
        falls = (logits[0] - logits[1:]).tolist()
        omegas += [sizes[number] for number in drawn]
        changes += falls[: len(drawn)]
        top.append(falls[len(drawn)])
        chance.append(float(np.mean(falls[len(drawn) + 1 :])))
    ranks = [np.argsort(np.argsort(values)) for values in (omegas, changes)]
    return {
        "pearson": float(np.corrcoef(omegas, changes)[0, 1]),
        "spearman": float(np.corrcoef(*ranks)[0, 1]),
        "top": float(np.mean(top)),
        "chance": float(np.mean(chance)),
    }


def _without(codes: list[list[int]], places: set[tuple[int, int]]) -> list[list[int]]:
    return [
        [code for place, code in enumerate(listed) if (visit, place) not in places]
        for visit, listed in enumerate(codes)
    ]


def table(cohort: str, options: argparse.Namespace) -> list[str]:
    recipe = yaml.safe_load((SHIPPED / f"{cohort}.yaml").read_text(encoding="utf-8"))
    lines = [f"## {recipe['about']} (`{cohort}`)", ""]
    head = (
        "network",
        "AUC",
        "95 %",
        "AUPRC",
        "95 %",
        "NLL",
        "ECE",
        "AUC, other seeds",
        "parameters",
        "ω and erasure",
        f"top {TOP}",
        "chance",
    )
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, model in models_of(recipe["model"]).items():
        others = []
        for seed in range(options.seeds, 0, -1):
            how = {"seed": seed, "device": options.device, **({"lr": 1e-2} if "logistic" in name else {})}
            bundle = trained(options.runs / f"{cohort}-{model['name']}-{seed}", cohort, model=model, train=how)
            corpus, found, truths = tested(bundle, cohort, seed)
            scores = {
                key: each.value
                for key, each in outcome_scores(OUTCOME_METRICS, found[:, None], truths[:, None]).items()
            }
            if seed > 1:
                others.append(f"{scores['auc']:.4f}")
        spans = {
            key: interval(bootstrap(outcome_statistics(key, found[:, None], truths[:, None])))
            for key in ("auc", "auprc")
        }
        cells = [name]
        for key in ("auc", "auprc"):
            cells += [f"{scores[key]:.4f}", f"{spans[key].low:.4f}–{spans[key].high:.4f}"]
        cells += [
            f"{scores['nll']:.4f}",
            f"{scores['ece']:.4f}",
            " ".join(reversed(others)) or "–",
            f"{bundle.parameters:,}",
        ]
        if name == "GRU":
            cells += ["–"] * 3
        else:
            check = erased(bundle, corpus)
            cells += [
                f"{check['pearson']:.3f} ({check['spearman']:.3f})",
                f"{check['top']:.3f}",
                f"{check['chance']:.3f}",
            ]
        rows.append("| " + " | ".join(cells) + " |")
    # Cases and controls may have records of different length: what does that alone tell?
    length = auc(np.array(corpus.costs, dtype=float), truths)
    records = (
        f"{len(truths):,} test patients, {int(truths.sum()):,} with the outcome (seed 1). The number of visits alone: AUC "
        f"{max(length, 1 - length):.4f}, {'more' if length > 0.5 else 'fewer'} visits with the outcome."
    )
    return [*lines, records, "", *rows, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/visits"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", default=",".join(COHORTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    versions = f"saccade {saccade.__version__}, torch {torch.__version__}, {device_name(options.device)}"
    lines = [
        "# Outcomes of patients",
        "",
        f"{date.today()}, {versions}, `python benchmarks/visits/run.py --seeds {options.seeds}`.",
        "",
    ]
    lines += [
        "NLL in nats, ECE with 15 bins. ω and erasure: Pearson's (Spearman's) correlation of a code's contribution with the",
        f"fall of the logit when that code is erased. Top {TOP}: the mean fall when the {TOP} codes with the largest",
        f"contributions are erased together; chance: when {TOP} codes drawn by chance are. Up to {PATIENTS} test patients.",
        "",
    ]
    for cohort in options.data.split(","):
        lines += table(cohort, options)
        text = "\n".join(lines)
        if options.out is not None:
            options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

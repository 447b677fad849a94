"""First results: what a recipe that `saccade data` wrote reaches on small data, beside its trivial baselines.

    python benchmarks/first_results/run.py --runs runs/first --out benchmarks/results/DATE-first-results.md [--only trec,films]

Prepares data sets as people have them, then runs `saccade data … --recipe`, `saccade train` and `saccade evaluate --data`
on each, and changes nothing by hand. Test sets that are held out of a few hundred records are small, so where there are more
records the run is also evaluated on many that it never saw. What is trained already is not trained again. Reads $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas
import torch
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name

from saccade.api import load
from saccade.data.images.pictures import png_of
from saccade.data.images.records import LabelledImageData, read_labelled_pictures
from saccade.data.rankings.word_overlap import SharedWords
from saccade.data.toy import shapes, twins
from saccade.metrics.text import score

DATA = Path(os.environ.get("SACCADE_DATA", ""))
ROWS, TEXTS, PAIRS, SCENES, MORE = 300, 400, 4000, 600, 2000


def shuffled(rows: list[Any]) -> list[Any]:
    random.Random(1).shuffle(rows)
    return rows


def labelled_lines(name: str) -> list[list[str]]:
    with gzip.open(DATA / "sentence_classification" / name, "rt", encoding="latin-1") as file:
        return [words for line in file if len(words := line.strip().split(None, 1)) == 2]  # one has no text


def trec(folder: Path) -> tuple[list[str], Path | None]:
    """Questions with their kind, one per line, in Latin-1."""
    files = DATA / "sentence_classification"
    options = ["--format", "lines", "--encoding", "latin-1", "--test", str(files / "TREC.test.all.gz")]
    return [str(files / "TREC.train.all.gz"), *options], None


def films(folder: Path) -> tuple[list[str], Path | None]:
    """Sentences of film reviews (MR), written by pandas with its index."""
    return table(folder, "rt-polarity.all.gz")


def products(folder: Path) -> tuple[list[str], Path | None]:
    """Sentences of product reviews (CR), written by pandas with its index."""
    return table(folder, "custrev.all.gz")


def table(folder: Path, name: str) -> tuple[list[str], Path | None]:
    rows = shuffled(labelled_lines(name))
    for name, part in (("reviews.csv", rows[:ROWS]), ("more.csv", rows[-MORE:])):
        sentiments = [("negative", "positive")[int(label)] for label, _ in part]
        pandas.DataFrame({"review": [text for _, text in part], "sentiment": sentiments}).to_csv(folder / name)
    return [str(folder / "reviews.csv")], folder / "more.csv"


def texts(folder: Path) -> tuple[list[str], Path | None]:
    """News in one folder per topic."""
    with lzma.open(DATA / "ag_news" / "train_20k_balanced_sample.csv.xz", "rt", encoding="utf-8") as file:
        news = pandas.read_csv(file)
    rows = shuffled(list(zip(news["class_index"], news["title"] + ". " + news["description"], strict=True)))
    topics = ("", "world", "sports", "business", "technology")
    for name, part in (("news", rows[:TEXTS]), ("more", rows[-MORE:])):
        for number, (topic, text) in enumerate(part):
            path = folder / name / topics[topic] / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return [str(folder / "news")], folder / "more"


def pairs(folder: Path) -> tuple[list[str], Path | None]:
    """English sentences with their Portuguese translations."""
    with gzip.open(
        DATA / "tatoeba_challenge" / "tatoeba-dev-v2021-08-07.eng-por.txt.gz", "rt", encoding="utf-8"
    ) as file:
        rows = shuffled([line.rstrip("\n").split("\t")[2:] for line in file])[:PAIRS]
    lines = ["english\tportuguese", *("\t".join(row) for row in rows)]
    (folder / "sentences.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(folder / "sentences.tsv")], None


def ranking(folder: Path) -> tuple[list[str], Path | None]:
    """Questions with the sentences of a page, of which some answer it."""
    files = DATA / "answer_selection" / "WikiQA"
    return [str(files / "train"), "--test", str(files / "test")], None


def pictures(folder: Path) -> tuple[list[str], Path | None]:
    """Drawn pictures of two things alike, in one folder per shape: 60 of each of three shapes."""
    drawn = twins.generate(twins.Twins(train=MORE + 1000, valid=1, test=1, size=40))["train"]
    chosen = {
        shape: [pair for pair in drawn[MORE:] if pair.shape == shape][:60]
        for shape in sorted({pair.shape for pair in drawn})
    }
    few = [pair for pairs in chosen.values() for pair in pairs]
    for name, part in (("shapes", few), ("more", drawn[:MORE])):
        for number, pair in enumerate(part):
            saved(pair.draw(), folder / name / pair.shape / f"{number}.png")
    return [str(folder / "shapes")], folder / "more"


def photos(folder: Path) -> tuple[list[str], Path | None]:
    """Photos of 32 × 32 pixels (CIFAR-10), in one folder per class: 1,500 of ten classes; the others are 500."""
    sheets = {"photos": "train1500.png", "more": "test500.png"}
    for name, sheet in sheets.items():
        file = DATA / "cifar10_subset" / sheet
        data = LabelledImageData(train=str(file), answers=str(file.with_name("labels.json")))
        for number, record in enumerate(read_labelled_pictures(file, data)):
            saved(record.source.read(), folder / name / record.target / f"{number}.png")
    return [str(folder / "photos")], folder / "more"


def captions(folder: Path) -> tuple[list[str], Path | None]:
    """Drawn scenes, and a table of their captions."""
    drawn = shapes.generate(shapes.Shapes(train=SCENES + MORE, valid=1, test=1))["train"]
    for name, part in (("scenes.csv", drawn[:SCENES]), ("more.csv", drawn[SCENES:])):
        files = [Path("scenes", f"{name[:4]}-{number}.png") for number in range(len(part))]
        for file, scene in zip(files, part, strict=True):
            saved(scene.draw(), folder / file)
        table = pandas.DataFrame({"image": map(str, files), "caption": [scene.caption for scene in part]})
        table.to_csv(folder / name, index=False)
    return [str(folder / "scenes.csv")], folder / "more.csv"


def saved(pixels: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png_of(pixels))


SETS = {"trec": trec, "films": films, "products": products, "texts": texts, "pairs": pairs, "ranking": ranking,
        "pictures": pictures, "photos": photos, "captions": captions}  # fmt: skip


def saccade(*words: str) -> str:
    """The output of a command; what it prints on the way is shown."""
    print("$ saccade", *words, flush=True)
    done = subprocess.run([sys.executable, "-m", "saccade", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout)
    return done.stdout


def of_pairs(run: Path) -> dict[str, dict[str, float]]:
    """The metrics of copying the source, and of taking the target of the training source that shares most words, by idf."""
    bundle: Any = load(run)
    splits = bundle.task.load(bundle.recipe.data, bundle.recipe.folder, bundle.recipe.train.seed)
    shared = SharedWords.of(pair.source for pair in splits.train)
    nearest = [
        max(splits.train, key=lambda other, pair=pair: sum(shared.features(pair.source, other.source)[1::2])).target
        for pair in splits.test
    ]
    canonical = bundle.task.target.canonical
    references = [canonical(pair.target) for pair in splits.test]
    outputs = {"copied source": [pair.source for pair in splits.test], "target of the nearest source": nearest}
    return {
        name: {
            metric: figure.value
            for metric, figure in score(
                bundle.recipe.metrics, list(map(canonical, texts)), references, bleu_tokenize="none"
            ).items()
        }
        for name, texts in outputs.items()
    }


def result(name: str, runs: Path) -> dict[str, Any]:
    """What one data set came to: the recipe, the seconds of the training command, and the evaluations."""
    folder = runs / name
    if not (folder / "result.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        files, more = SETS[name](folder)
        recipe, run = folder / "recipe.yaml", folder / "run"
        saccade("data", *files, "--recipe", str(recipe), "--force")
        began = time.monotonic()
        (folder / "train.json").write_text(saccade("train", str(recipe), "--out", str(run), "--json"))
        seconds = time.monotonic() - began
        tests = {"its test set": json.loads(saccade("evaluate", str(run), "--json"))}
        if name == "pairs":
            tests["its test set"]["baselines"] = of_pairs(run)
        if more is not None:
            tests["others"] = json.loads(saccade("evaluate", str(run), "--data", str(more), "--json"))
        about = {"files": files, "recipe": recipe.read_text(encoding="utf-8"), "seconds": seconds, "tests": tests}
        (folder / "result.json").write_text(json.dumps(about))
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def page(results: dict[str, dict[str, Any]], runs: Path) -> str:
    machine = (
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} CPU cores shared with other processes, torch {torch.__version__}"
    )
    lines = [
        "# First results on small data",
        "",
        f"{datetime.date.today()}, {machine}, one seed each. `python benchmarks/first_results/run.py`",
        "",
        "| data | records to train on | tested on | metric | network | " + "trivial baselines | training, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        about = json.loads((runs / name / "run" / "run.json").read_text(encoding="utf-8"))
        for where, test in found["tests"].items():
            metric, value = next(iter(test["figures"].items()))
            others = ", ".join(f"{each}: {figures[metric]:.4f}" for each, figures in test.get("baselines", {}).items())
            records = f"{about['records']['train']:,}"
            lines.append(
                f"| {name} | {records} | {where} | {metric} | {value:.4f} | {others} | {found['seconds']:.0f} |"
            )
    for name, found in results.items():
        files = " ".join(found["files"]).replace(str(DATA), "$SACCADE_DATA").replace(str(runs), "runs/first")
        lines += ["", f"## {name}", "", (SETS[name].__doc__ or "").strip(), ""]
        lines += ["```sh", f"saccade data {files} --recipe recipe.yaml", "saccade train recipe.yaml", "```", ""]
        plain = yaml.safe_load(found["recipe"])
        kept = {key: plain[key] for key in ("data", "model", "train") if key in plain}
        for field in ("train", "test"):
            kept["data"].pop(field, None)
        lines += ["```yaml", yaml.safe_dump(kept, sort_keys=False, default_flow_style=None).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/first"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default=",".join(SETS))
    options = parser.parse_args()
    results = {name: result(name, options.runs) for name in options.only.split(",")}
    text = page(results, options.runs)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

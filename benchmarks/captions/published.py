"""Our metrics of captions beside the published code, on the same captions.

    pip install --no-deps pycocoevalcap      # and Java
    python benchmarks/captions/published.py [--out benchmarks/results/DATE-caption-metrics.md]
    python benchmarks/captions/published.py --fixed tests/metrics/captions.json

Tokens: every caption of Flickr8k and every English one of Multi30k by both tokenizers. Figures: the captions of
``tests/metrics/captions.json``, and Flickr8k's test pictures, of whose captions the first is scored against the other four.
``--fixed`` computes the published figures in that file again. Reads $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import machine

from saccade.metrics.captions import CAPTION_METRICS, caption_scores, caption_tokens

FIXED = Path(__file__).parents[2] / "tests" / "metrics" / "captions.json"
SHOWN = 5  # captions that are cut differently
Captions = dict[int, list[str]]


def published_tokens(captions: Captions) -> Captions:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    given = {number: [{"caption": text} for text in texts] for number, texts in captions.items()}
    found: Captions = PTBTokenizer().tokenize(given)
    return found


def published_scores(predictions: Captions, references: Captions) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The figures of tokenised captions, and those of each caption."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge

    bleu, _ = Bleu(4).compute_score(references, predictions, verbose=0)
    cider, each_cider = Cider().compute_score(references, predictions)
    rouge, each_rouge = Rouge().compute_score(references, predictions)
    meteor, _ = Meteor().compute_score(references, predictions)
    figures = {f"bleu_{order}": 100 * value for order, value in enumerate(bleu, start=1)}
    figures |= {"cider": float(cider), "rouge_l": float(rouge), "meteor": float(meteor)}
    return figures, {"cider": list(map(float, each_cider)), "rouge_l": list(map(float, each_rouge))}


def compare(name: str, predictions: list[str], references: list[list[str]]) -> list[str]:
    started = time.perf_counter()
    theirs, _ = published_scores(
        published_tokens({number: [text] for number, text in enumerate(predictions)}),
        published_tokens(dict(enumerate(references))),
    )
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    names = [metric for metric in CAPTION_METRICS if metric not in ("perplexity", "exact_match")]
    ours = caption_scores(names, predictions, references)
    own = time.perf_counter() - started
    lines = [f"## {name}: {len(predictions):,} pictures, {sum(map(len, references)):,} references", ""]
    lines += ["| metric | ours | published code | difference |", "|---|---|---|---|"]
    for metric in names:
        value, other = ours[metric].value, theirs.get(metric)
        rest = f"{other:.6f} | {abs(value - other):.1e}" if other is not None else "– | –"
        lines.append(f"| {metric} | {value:.6f} | {rest} |")
    return [*lines, "", f"Seconds: ours {own:.1f}, the published code {seconds:.1f}; METEOR's start is in both.", ""]


def tokens_of(name: str, captions: list[str]) -> list[str]:
    theirs = published_tokens({number: [text] for number, text in enumerate(captions)})
    ours = [" ".join(caption_tokens(text)) for text in captions]
    different = [number for number, text in enumerate(ours) if theirs[number][0] != text]
    lines = [f"## Tokens of {name}", "", f"{len(different)} of {len(captions):,} captions are cut differently.", ""]
    for number in different[:SHOWN]:
        lines.append(f"- `{captions[number]}`: ours `{ours[number]}`, published `{theirs[number][0]}`")
    return [*lines, ""] if different else lines


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def rewrite_fixed(path: Path) -> None:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    records = document["records"]
    predictions = published_tokens({number: [record["prediction"]] for number, record in enumerate(records)})
    references = published_tokens({number: record["references"] for number, record in enumerate(records)})
    figures, each = published_scores(predictions, references)
    for number, record in enumerate(records):
        record |= {"tokens": predictions[number][0], "reference_tokens": references[number]}
        record |= {metric: values[number] for metric, values in each.items()}
    document["published"] = figures
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fixed", type=Path, help="the file whose published figures are computed again")
    options = parser.parse_args(words)
    if options.fixed is not None:
        rewrite_fixed(options.fixed)
        return
    data = Path(os.environ["SACCADE_DATA"])
    pairs = [line.partition("\t")[::2] for line in lines_of(data / "flickr8k" / "Flickr8k.token.txt.gz")]
    splits = ("train", "val", "test_2016_flickr")
    multi30k = [line.strip() for split in splits for line in lines_of(data / "multi30k" / f"{split}.en.gz")]
    wanted = (data / "flickr8k" / "test.txt").read_text(encoding="utf-8").split()
    captions: dict[str, list[str]] = {Path(name).stem: [] for name in wanted}
    for name, text in pairs:
        stem = name.partition(".")[0]
        if stem in captions:
            captions[stem].append(text)
    fixed = json.loads(FIXED.read_text(encoding="utf-8"))["records"]
    lines = ["# Metrics of captions beside the published code", ""]
    lines += [f"`benchmarks/captions/published.py`, pycocoevalcap 1.2, {machine.cpu_name()}, 2 CPU cores.", ""]
    lines += tokens_of("Flickr8k", [text for _, text in pairs]) + tokens_of("Multi30k", multi30k)
    lines += compare("Fixed captions", [each["prediction"] for each in fixed], [each["references"] for each in fixed])
    lines += compare(
        "Flickr8k test, one caption against the other four",
        [texts[0] for texts in captions.values()],
        [texts[1:] for texts in captions.values()],
    )
    text = "\n".join(lines).rstrip() + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

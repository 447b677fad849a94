"""``saccade import`` and ``saccade export``: convert models from and to other libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from saccade.cli.options import Json, Run, Trust
from saccade.cli.printing import print

AUTO = {  # architecture in config.json → the class that loads it with its heads
    "BertModel": "AutoModel",
    "BertForPreTraining": "AutoModelForPreTraining",
    "BertForMaskedLM": "AutoModelForMaskedLM",
    "BertForNextSentencePrediction": "AutoModelForNextSentencePrediction",
    "BertForSequenceClassification": "AutoModelForSequenceClassification",
    "BertForTokenClassification": "AutoModelForTokenClassification",
}


def import_model(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A Hugging Face folder: config.json, model.safetensors, vocab.txt.")
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run to write; a new folder.")],
    pairs: Annotated[bool, typer.Option("--pairs", help="The classifier reads pairs of texts.")] = False,
    as_json: Json = False,
) -> None:
    """Import a BERT from a Hugging Face folder as a run. Outputs are the same.

    \b
    saccade import ./bert-base-uncased --out runs/bert
    saccade predict runs/bert "the film was [MASK] ." --n-best 5
    saccade train my.yaml train.from=runs/bert model.name=bert_classifier
    """
    from saccade.api.huggingface import import_huggingface

    bundle = import_huggingface(folder, out, pairs=pairs)
    anew = bundle.figures.get("anew", [])
    if as_json:
        about = {"run": str(out), "task": bundle.recipe.task, "model": bundle.recipe.model_name}
        print(json.dumps({**about, "parameters": bundle.parameters, "anew": anew}))
        return
    print(f"{bundle.recipe.model_name} for the task {bundle.recipe.task}, {bundle.parameters:,} parameters: {out}")
    if anew:
        print(f"not in {folder}, so untrained: {', '.join(anew)}")


def export(
    run: Run,
    to: Annotated[Literal["huggingface"], typer.Option(help="huggingface: BERT for the transformers library.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write; a new one.")],
    trust: Trust = None,
) -> None:
    """Export a trained network for another library.

    \b
    saccade export runs/bert --to huggingface --out exported
    """
    from saccade.api.bundle import load
    from saccade.api.huggingface import to_huggingface
    from saccade.storage import read_json

    untrained = to_huggingface(load(run, device="cpu", trust=trust or ()), out)
    if untrained:
        print(f"note: never trained, so not written: {', '.join(untrained)}", file=sys.stderr)
    [architecture] = read_json(out / "config.json")["architectures"]
    print(f"{run} is in {out}: transformers.{AUTO[architecture]}.from_pretrained({str(out)!r})")

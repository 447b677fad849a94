"""The benchmark of prediction: the network of the recipe, texts of so many words, and a table of rates."""

from __future__ import annotations

import random
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "predicting" / "run.py"

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("predicting_run", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "predicting_run", module)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the script adds to it
    spec.loader.exec_module(module)
    return module


def test_the_table_has_a_rate_for_each_way_of_calling(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main(["--tiny", "--out", str(tmp_path / "t.md")])
    text = (tmp_path / "t.md").read_text(encoding="utf-8")
    assert text.strip() in capsys.readouterr().out and "70 documents of 9 words" in text
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 5 and all(float(cell) > 0 for row in rows for cell in row[1:])


def test_documents_have_their_length_in_known_words_and_the_network_its_sizes(script: Any) -> None:
    draw = random.Random(3)
    words = script.made_words(50, draw)
    texts = script.documents(7, 30, words, draw)
    bundle = script.classifier(words, False)
    assert bundle.recipe.model.hidden == 128 and bundle.recipe.model_name == "attentive_classifier"
    for text in texts:
        ids, _ = bundle.task.reader.read(text, "input 1").ids
        assert len(ids) == 30 and bundle.task.tokenizer.UNK not in ids
    assert len(bundle.predict(texts)) == 7

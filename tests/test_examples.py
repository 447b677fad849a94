"""Every script in examples/ runs as its docstring says: it trains, predicts, and saves what it promises to open."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
ANSWERS = {  # how the first line of output begins
    "caption": r"a red square above on the right → a red square above on the right",
    "classify": r"blame ",
    "generate": r"circle 7 \(16, 16, 3\)$",
    "images": r"across \{'across': ",
    "label": r"\[\('Mia Reed', 'PER'\), \('New York', 'LOC'\)\]",
    "language": r"the hens that the cow sees sleep ",
    "point": r".* → \[0\.1, 0\.4, 0\.7, 0\.9\]",
    "pretrain": r"\w+ dogs wait \. \{'",
    "rank": r"my bike is red ",
    "transcribe": r"([a-d]+) → \1, from 0\.\d s",
    "translate": r"forty-two → 42$",
    "visits": r"risk 0\.[5-9]|risk 1\.0",
    "vectors": r"dog: \{'(?:dogs|horses?|cats?)'",
}


def test_every_task_has_an_example():
    assert [script.stem for script in SCRIPTS] == sorted(ANSWERS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_fits_on_a_page_and_the_readme_links_it(script):
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40
    assert f"(examples/{script.name})" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_trains_predicts_and_saves_a_page(script, tmp_path, monkeypatch, capsys, shapes_unchecked):
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    answer, last = capsys.readouterr().out.strip().splitlines()
    assert re.match(ANSWERS[script.stem], answer), answer
    opened = Path(last.removeprefix("open "))
    assert opened.parent == tmp_path
    assert opened.stat().st_size > 1000
    runs = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(runs) == 1
    assert (runs[0] / "model.safetensors").is_file()

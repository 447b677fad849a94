"""A recipe for records in memory: what is guessed, that it trains, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest

import saccade
from saccade.errors import SaccadeError
from tests.data.audio.recorded import write
from tests.hostile_pictures import good_pictures

TEXTS = [f"le café n° {number} était, dit-on,\n« {'bon' if number % 2 else 'nul'} »" for number in range(61)]
STARS = pd.DataFrame({"id": range(61), "review": TEXTS, "stars": ["good" if n % 2 else "bad" for n in range(61)]})
WORDS = [["aa", "bb", "cc", "dd", "ee"][number % 3 :] for number in range(41)]


@pytest.mark.parametrize(
    "form", [lambda frame: frame, lambda frame: frame.to_dict("list"), lambda f: f.to_dict("records")]
)
def test_the_recipe_for_a_table_trains_on_it_without_another_word(tmp_path, form):
    recipe = saccade.recipe_for(form(STARS))
    assert (recipe["task"], recipe["data"]["columns"]) == ("classify", {"text": "review", "label": "stars"})
    recipe["train"]["epochs"] = 1
    recipe["model"] |= {"embedding": 5, "hidden": 7}
    bundle = saccade.train(recipe, form(STARS), folder=tmp_path / "run")
    assert bundle.task.labels == ("bad", "good") and bundle.recipe.model.hidden == 7
    assert len(bundle.predict(STARS[:3])) == 3


@pytest.mark.parametrize(
    ("data", "columns", "task"),
    [
        ({"source": TEXTS, "target": [str(number) for number in range(61)]}, None, "translate"),
        (STARS.assign(id=TEXTS[::-1]), {"source": "review", "target": "id"}, "translate"),
        ({"tokens": WORDS, "tags": [[word[0] for word in words] for words in WORDS]}, None, "label"),
        ({"w": WORDS, "t": [[word[0] for word in words] for words in WORDS]}, {"word": "w", "tag": "t"}, "label"),
        (
            [{"sentence": number, "word": word, "tag": word[0]} for number, words in enumerate(WORDS) for word in words],
            None,
            "label",
        ),
        (
            [{"question": f"q {n}", "candidate": f"c {m}", "relevance": int(m == 2)} for n in range(30) for m in range(4)],
            None,
            "rank",
        ),
    ],
)  # fmt: skip
def test_the_kind_of_data_is_known_by_its_columns(data, columns, task):
    assert saccade.recipe_for(data, columns)["task"] == task


@pytest.mark.parametrize("form", [lambda frame: frame, lambda frame: frame.to_dict("records")])
def test_of_several_splits_the_recipe_is_for_the_training_records(form):
    splits = {"train": form(STARS), "test": form(STARS[:7])}
    assert saccade.recipe_for(splits) == saccade.recipe_for(STARS)
    columns = saccade.recipe_for(
        {"train": TEXTS, "test": [str(n) for n in range(61)]}, {"source": "train", "target": "test"}
    )
    assert columns["task"] == "translate"  # a table with columns of these names


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        ("x.csv", None, r"data: expected a DataFrame.*found a str \(saccade data FILE"),
        ([("a", "b")], None, "data: expected a DataFrame, a dict of columns or a list of dicts, found a list"),
        (pd.DataFrame([["a", "b"]]), None, "data: expected texts as names of columns, found the columns 0, 1"),
        (STARS[:2], {"text": "review", "label": "stars"}, "data: the data would not train: too few texts"),
        (STARS, {"text": "reviews", "label": "stars"}, r"found the columns 'id', 'review', 'stars' \(columns="),
        (STARS, {"txt": "review"}, "columns: expected roles of one kind .*found txt"),
        (STARS, ["review", "stars"], "columns: expected a dict, role → column, .*found a list"),
        ([], None, "data: expected a DataFrame, a dict of columns or a list of dicts, found nothing"),
    ],
)
def test_what_gives_no_recipe_is_told_why(data, columns, message):
    with pytest.raises(SaccadeError, match=message) as raised:
        saccade.recipe_for(data, columns)
    assert "/tmp" not in str(raised.value) and "data.columns" not in str(raised.value)


def test_names_of_pictures_in_a_table_start_at_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = good_pictures(tmp_path, 24)
    table = {"image": names, "label": ["circle", "cross"] * 12, "note": list(range(24))}
    recipe = saccade.recipe_for(table)
    assert recipe["task"] == "classify_images" and not {"train", "images"} & set(recipe["data"])
    bundle = saccade.train(recipe, table, **{"train.epochs": 1, "train.device": "cpu"}, folder="run")
    assert bundle.predict([names[0]])[0].value in ("circle", "cross")


def test_names_of_recordings_in_a_table_start_at_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [write(Path("wav") / f"{number}.wav", 3000 + 80 * number, seed=number).as_posix() for number in range(23)]
    table = {"audio": names, "text": ["low", "high", "on"] * 7 + ["low", "on"]}
    recipe = saccade.recipe_for(table)
    assert recipe["task"] == "transcribe" and not {"train", "recordings"} & set(recipe["data"])
    recipe["model"] |= {"hidden": 3, "layers": 1, "pooling": [2], "state": 5, "alignment": 4, "embedding": 3}
    bundle = saccade.train(recipe, table, **{"train.updates": 1, "train.device": "cpu"}, folder="run")
    assert isinstance(bundle.predict(names[0])[0].value, str)

"""What ``saccade data`` says of pictures with labels or captions, and that the recipe it writes learns."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import saccade
from saccade.data.survey import surveys
from saccade.data.toy import shapes, twins
from saccade.recipes.recipe import read_recipe


@pytest.fixture
def data(command, monkeypatch, tmp_path):
    """Runs the command in this process: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "data")


def draw(folder: Path, each: int, size: int = 17) -> list[Path]:
    """A folder of drawn pictures, with a folder for each of three labels."""
    drawn, files = twins.generate(twins.Twins(train=each * 6, valid=1, test=1, size=size))["train"], []
    counts: dict[str, int] = {}
    for pair in drawn:
        number = counts[pair.label] = counts.get(pair.label, 0) + 1
        if number <= each:
            files.append(folder / pair.label / f"{number}.png")
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pair.draw()).save(files[-1])
    return sorted(files)


def scenes(folder: Path, count: int) -> list[tuple[str, str]]:
    """Drawn scenes in a folder: the name of each, and its caption."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = shapes.generate(shapes.Shapes(train=count, valid=1, test=1, size=16))["train"]
    for number, scene in enumerate(drawn):
        Image.fromarray(scene.draw()).save(folder / f"{number}.png")
    return [(f"{number}.png", scene.caption) for number, scene in enumerate(drawn)]


def table(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def report(data: Any, *words: object) -> dict[str, Any]:
    _, out, err = data(*words, "--json")
    assert not err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_folder_of_class_folders_is_counted_by_class_size_format_and_fault(data):
    files = draw(Path("things"), 7)
    first, second = files[0], files[1]
    Path("things/cross/short.png").write_bytes(first.read_bytes()[:-30])
    Path("things/cross/page.jpg").write_text("<html>")
    Path("things/cross/nothing.webp").write_bytes(b"")
    Path("things/loose.png").write_bytes(first.read_bytes())
    Path("things/notes.md").write_text("about them")
    shutil.copy(second, second.with_name("again.png"))
    shutil.copy(second, "things/square/other.png")
    Image.open(files[2]).resize((31, 19)).save("things/square/wide.jpg")
    found = report(data, "things")
    assert (found["kind"], found["task"], found["would_train"]) == ("pictures", "classify_images", True)
    assert found["labels"] == {"circle": 8, "cross": 7, "square": 9}
    assert found["formats"] == {"PNG": 23, "JPEG": 1}
    assert (found["pixels"]["width"]["longest"], found["pixels"]["height"]["median"]) == (31, 17)
    counts = {reason: fault["count"] for reason, fault in found["faults"].items()}
    assert counts == {"a damaged picture": 1, "no picture, or too large a one": 2, "without a label": 1}
    assert "short.png: expected a picture" in found["faults"]["a damaged picture"]["example"]
    assert (found["repeated"], found["contradicted"], found["different"]) == (1, 1, 22)
    assert "again.png" in found["examples"]["repeated"] or second.name in found["examples"]["repeated"]
    assert any(note.startswith("1 file whose name is not that of a picture") for note in found["notes"])
    assert "faults: drop" in found["recipe"]
    status, out, _ = data("things")
    assert status == 0 and "4 faulty pictures, which the recipe leaves out" in out and "Vocabulary" not in out


def test_a_zip_with_all_classes_in_one_folder_is_surveyed_as_the_folder_is(data):
    draw(Path("things"), 7)
    with zipfile.ZipFile("things.zip", "w") as archive:
        for file in sorted(Path("things").rglob("*.png")):
            archive.write(file, f"all/{file}")
        archive.writestr("all/loose.png", file.read_bytes())
    folder, archived = report(data, "things"), report(data, "things.zip")
    assert archived["labels"] == folder["labels"] == {"circle": 7, "cross": 7, "square": 7}
    assert archived["pixels"] == folder["pixels"] and list(archived["faults"]) == ["without a label"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(("image", "label"), [("image", "label"), ("file_name", "species")])
def test_columns_of_pictures_and_labels_are_found_by_name_or_by_their_values(data, suffix, image, label):
    rows = [(str(file), file.parent.name, str(number)) for number, file in enumerate(draw(Path("things"), 7))]
    if suffix == "csv":
        table(Path("list.csv"), [(image, label, "index"), *rows])
    else:
        records = (dict(zip((image, label, "index"), row, strict=True)) for row in rows)
        Path("list.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = report(data, f"list.{suffix}")
    assert (found["kind"], found["columns"]) == ("pictures", {"image": image, "label": label})
    assert found["labels"] == {"circle": 7, "cross": 7, "square": 7}
    assert ("columns:" in found["recipe"]) == (image != "image")
    named = report(data, f"list.{suffix}", "--column", f"image={image}", "--column", f"label={label}")
    assert named["labels"] == found["labels"]


def test_a_table_without_a_header_has_columns_by_number(data):
    rows = [(str(file), file.parent.name) for file in draw(Path("things"), 7)]
    table(Path("list.csv"), rows)
    found = report(data, "list.csv")
    assert (found["columns"], found["records"]) == ({"image": 1, "label": 2}, 21)


def test_texts_beside_names_of_pictures_that_are_not_there_stay_texts(data):
    rows = [(f"http://x/{n}.jpg", f"they were {n} good ones", ("bad", "good")[n % 2]) for n in range(31)]
    table(Path("list.csv"), [("photo", "text", "label"), *rows])
    assert report(data, "list.csv")["kind"] == "labels"


def captions_in_every_form(rows: list[tuple[str, str]]) -> dict[str, Path]:
    """The same captions as a table, JSONL, COCO's JSON, Flickr8k's lines and texts beside the pictures, which are in
    ``pictures``; of the first picture there is a second caption."""
    every = [*rows, (rows[0][0], "something else")]
    table(Path("list.csv"), [("image", "caption"), *((f"pictures/{name}", text) for name, text in every)])
    joined = [{"photo": f"pictures/{name}", "said": [text]} for name, text in rows]
    joined[0]["said"].append("something else")
    Path("list.jsonl").write_text("\n".join(map(json.dumps, joined)))
    numbers = {name: number for number, (name, _) in enumerate(rows)}
    coco = {
        "images": [{"id": number, "file_name": name} for name, number in numbers.items()],
        "annotations": [{"image_id": numbers[name], "caption": text} for name, text in every],
    }
    Path("annotations").mkdir()
    Path("annotations/list.json").write_text(json.dumps(coco))
    Path("list.txt").write_text("".join(f"{name}#{n}\t{text}\n" for n, (name, text) in enumerate(every)))
    shutil.copytree("pictures", "beside")
    for name, text in rows:
        extra = "\nsomething else\n" if name == rows[0][0] else "\n"
        Path("beside", name).with_suffix(".txt").write_text(text + extra)
    return {path.name: path for path in (Path("list.csv"), Path("list.jsonl"), Path("annotations/list.json"),
                                         Path("list.txt"), Path("beside"))}  # fmt: skip


def test_captions_are_surveyed_alike_in_every_form(data):
    rows = scenes(Path("pictures"), 23)
    found = {name: report(data, path) for name, path in captions_in_every_form(rows).items()}
    for name, survey in found.items():
        assert (survey["kind"], survey["records"], survey["captions"]) == ("captions", 23, 24), name
        assert survey["captions_per_picture"]["longest"] == 2 and survey["formats"] == {"PNG": 23}, name
        assert survey["would_train"] and not survey["faults"], name
    assert found["list.jsonl"]["columns"] == {"image": "photo", "caption": "said"}
    assert "images: ../beside" in found["list.json"]["recipe"]
    for name, survey in found.items():  # each recipe reads what was surveyed
        Path("my.yaml").write_text(survey["recipe"])
        recipe = read_recipe("my.yaml")
        from saccade.tasks.caption import Caption

        splits = Caption.load(recipe.data, recipe.folder, 1)
        assert len(splits.train) + len(splits.valid) + len(splits.test) == 23, name


def test_a_backbone_that_is_named_replaces_the_cnn(data):
    captions_in_every_form(scenes(Path("pictures"), 23))
    with_cnn = report(data, "list.csv")["recipe"]
    with_features = report(data, "list.csv", "--backbone", "efficientnet_lite0")
    assert "channels" in with_cnn and "features" not in with_cnn
    assert "size: 224" in with_features["recipe"] and "size: 16" in with_cnn
    assert "backbone: efficientnet_lite0" in with_features["recipe"] and "channels" not in with_features["recipe"]
    assert with_features["next"][0].endswith("--backbone efficientnet_lite0 --recipe my.yaml")
    Path("my.yaml").write_text(with_features["recipe"])
    assert read_recipe("my.yaml").data.features.backbone == "efficientnet_lite0"
    draw(Path("things"), 3)
    status, _, err = data("things", "--backbone", "efficientnet_lite0")
    assert status == 1 and "--backbone: expected pictures with captions, found pictures" in err


def test_folders_called_train_and_test_are_no_labels(data):
    draw(Path("all/train"), 3)
    draw(Path("all/test"), 3)
    found = report(data, "all")
    assert not found["would_train"] and "saccade data all/train --test all/test" in found["problems"][0]
    beside = report(data, "all/train", "--test", "all/test")
    assert beside["tests"][0]["met"] == beside["tests"][0]["records"] == 9


def test_a_file_with_more_than_a_fifth_of_faulty_pictures_would_not_train(data):
    for file in draw(Path("things"), 7)[:6]:
        file.write_bytes(file.read_bytes()[:40])
    found = report(data, "things")
    assert not found["would_train"] and "more than 20% of the pictures" in found["problems"][0]


def test_a_recipe_of_your_own_is_judged_by_its_own_settings(data):
    rows = scenes(Path("pictures"), 23)
    table(Path("list.csv"), [("image", "caption"), *((f"pictures/{name}", text) for name, text in rows)])
    Path("pictures/3.png").write_bytes(b"GIF89a")
    Path("my.yaml").write_text("task: caption\ndata: {train: list.csv, max_length: 7, too_long: error}\n")
    found = report(data, "my.yaml")
    assert any("exceed" in problem and "data.max_length=7 words" in problem for problem in found["problems"])
    assert any("data.faults: drop leaves them out" in problem for problem in found["problems"])


def test_captions_of_listed_pictures_lie_beside_the_list_wherever_the_recipe_is(data):
    rows = scenes(Path("data/pictures"), 23)
    Path("data/captions.txt").write_text("".join(f"{name}\t{text}\n" for name, text in rows))
    Path("data/train.txt").write_text("".join(f"pictures/{name}\n" for name, _ in rows[:21]))
    Path("data/test.txt").write_text("".join(f"pictures/{name}\n" for name, _ in rows[20:]))
    settings = "{train: data/train.txt, test: data/test.txt, captions: captions.txt, images: ., overlap: drop_test}"
    Path("my.yaml").write_text(f"task: caption\ndata: {settings}\nmodel: {{name: show_attend_tell}}\n")
    found = report(data, "my.yaml")
    assert (found["records"], found["captions"], found["would_train"]) == (21, 21, True)
    assert [(part["records"], part["met"]) for part in found["tests"]] == [(3, 1)]
    from saccade.tasks.caption import Caption

    recipe = read_recipe("my.yaml")
    splits = Caption.load(recipe.data, recipe.folder, 1)
    assert len(splits.train) + len(splits.valid) == 21 and len(splits.test) == 2


def test_pictures_are_decoded_once_although_examples_are_looked_up(data, monkeypatch):
    from saccade.data.images import places

    files = draw(Path("things"), 7)
    shutil.copy(files[1], files[1].with_name("z.png"))
    decoded = []
    read = places.read_picture
    monkeypatch.setattr(places, "read_picture", lambda given, where: decoded.append(where) or read(given, where))
    assert report(data, "things")["repeated"] == 1
    assert len(decoded) == len(set(decoded)) == 22


def test_no_other_kind_takes_a_folder_of_pictures(tmp_path):
    draw(tmp_path / "things", 3)
    kinds = [kind.kind for kind in surveys() if kind.recognises([str(tmp_path / "things")], {}, None, "utf-8")]
    assert kinds[0] == "pictures" and "captions" not in kinds


# First results ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_recipe_for_three_classes_of_sixty_pictures_beats_the_most_frequent_label(data, command):
    files = draw(Path("things"), 60)
    assert data("things", "--recipe", "my.yaml")[0] == 0
    bundle = saccade.train("my.yaml", **{"train.threads": 1, "train.device": "cpu"}, folder="run")
    usual = bundle.figures["baselines"]["most frequent label"]["accuracy"]
    assert bundle.figures["test"]["accuracy"] > max(0.8, usual + 0.3)
    status, out, _ = command("predict", "run", files[0])
    assert (status, out.strip()) == (0, files[0].parent.name)


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_recipe_for_captions_beats_the_most_frequent_caption(data, command):
    rows = scenes(Path("pictures"), 120)
    short = [(f"pictures/{name}", text.split(" ", 2)[1]) for name, text in rows]  # the colour of the largest thing
    table(Path("list.csv"), [("image", "caption"), *((name, f"it is {colour}") for name, colour in short)])
    assert data("list.csv", "--recipe", "my.yaml")[0] == 0
    settings = {"train.threads": 1, "train.device": "cpu", "train.epochs": 12, "metrics": ["exact_match"]}
    bundle = saccade.train("my.yaml", **settings, folder="run")
    usual = bundle.figures["baselines"]["most frequent caption"]["exact_match"]
    assert bundle.figures["test"]["exact_match"] > usual
    stream = io.BytesIO()
    Image.open("pictures/0.png").save(stream, "PNG")
    assert bundle.predict([stream.getvalue()])[0].value.startswith("it is ")

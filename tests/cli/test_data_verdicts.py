"""``saccade data`` says that it would train where ``saccade train`` does, and only there."""

from functools import partial
from pathlib import Path

import pytest

MODELS = {
    "classify": "{name: attentive_classifier, embedding: 4, hidden: 4}",
    "label": "{name: attentive_tagger, embedding: 4, hidden: 4}",
    "rank": "{name: siamese, embedding: 4, hidden: 4}",
}


@pytest.fixture
def run(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    texts = "".join(f"text {n} is good\t{'ab'[n % 2]}\n" for n in range(40))
    Path("classify.tsv").write_text(f"text\tlabel\n{texts}")
    Path("label.conll").write_text("".join(f"the O\nman B-X\nis{n} O\nhere O\n\n" for n in range(40)))
    asked = "".join(f"who is this {n}\tnumber {m}\t{int(not m)}\n" for n in range(40) for m in range(3))
    Path("rank.tsv").write_text(f"question\tcandidate\trelevance\n{asked}")
    return command


FILES = {"classify": "classify.tsv", "label": "label.conll", "rank": "rank.tsv"}


@pytest.mark.parametrize("task", FILES)
@pytest.mark.parametrize(
    "fields",
    ["", "max_length: 3", "test: SAME, overlap: error", "test: SAME, overlap: drop_train", "vectors: nofile.txt"],
)
def test_a_recipe_is_judged_as_training_judges_it(run, task, fields) -> None:
    given = ", ".join(filter(None, [f"train: {FILES[task]}", fields.replace("SAME", FILES[task])]))
    Path("my.yaml").write_text(
        f"task: {task}\ndata: {{{given}}}\nmodel: {MODELS[task]}\ntrain: {{epochs: 1, batch_records: 8}}\n"
    )
    surveyed, trained = run("data", "my.yaml"), run("train", "my.yaml", "--dry-run")
    assert (surveyed[0] == 0) == (trained[0] == 0) == (fields == ""), (surveyed, trained)
    if "vectors" in fields:
        assert "nofile.txt: expected a file, found nothing of that name" in surveyed[2]


def test_vectors_of_a_recipe_are_looked_for_where_it_lies(run, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "v.txt").write_text("text 1 2\ngood 3 4\n")
    recipe = tmp_path / "in" / "my.yaml"
    for vectors in ("v.txt", "{file: v.txt, frozen: true}"):
        recipe.write_text(
            f"task: classify\ndata: {{train: ../classify.tsv, vectors: {vectors}}}\nmodel: {MODELS['classify']}\n"
        )
        assert run("data", "in/my.yaml")[0] == 0
    (tmp_path / "in" / "v.txt").write_bytes(b"\x00\xff\xfe\n")
    assert "v.txt" in run("data", "in/my.yaml")[2]


def test_the_recipe_of_a_file_with_rare_labels_trains(run) -> None:
    train = partial(run, "train", "my.yaml", "--dry-run")
    rare = "".join(f"rare {n}\tr{n}\n" for n in range(9))
    Path("classify.tsv").write_text(Path("classify.tsv").read_text() + rare)
    assert run("data", "classify.tsv", "--recipe", "my.yaml")[0] == 0
    assert [train(f"train.seed={seed}")[0] for seed in range(1, 5)] == [0] * 4


def test_a_test_set_in_another_scheme_would_not_train(run) -> None:
    Path("iob1.conll").write_text("".join(f"the O\nman I-X\nis{n} O\n\n" for n in range(9)) + "the O\n\n")
    status, out, _ = run("data", "label.conll", "--test", "iob1.conll", "--recipe", "my.yaml")
    assert status == 1 and not Path("my.yaml").exists()
    assert "iob1.conll: 9 malformed lines, the first: iob1.conll:2" in out and "written as iob1" in out


def test_answered_questions_are_held_out_by_the_recipes_own_seed(run) -> None:
    asked = "".join(f"who is this {n}\tnumber {m}\t{int(n < 6 and not m)}\n" for n in range(40) for m in range(3))
    Path("rank.tsv").write_text(f"question\tcandidate\trelevance\n{asked}")
    judged = []
    for seed in range(1, 9):
        Path("my.yaml").write_text(
            f"task: rank\ndata: {{train: rank.tsv, hold_out: 0.2}}\nmodel: {MODELS['rank']}\n"
            f"train: {{epochs: 1, batch_records: 8, seed: {seed}}}\n"
        )
        judged.append((run("data", "my.yaml")[0] == 0, run("train", "my.yaml", "--dry-run")[0] == 0))
    assert {surveyed for surveyed, _ in judged} == {True, False}, (
        "some seeds hold out an answered question, some do not"
    )
    assert all(surveyed == trained for surveyed, trained in judged), judged

"""What ``saccade data`` finds out about questions with candidates, and whether their recipe trains."""

from __future__ import annotations

import pytest

from saccade.data.rankings.records import RankColumns, RankedData, load_ranked
from saccade.data.survey.rankings import RankingSurvey
from saccade.errors import InputError, SaccadeError
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml
from saccade.training.config import Train

PLAIN = [(f"who is {n}", f"number {m} is", int(m == n % 3)) for n in range(40) for m in range(3)]
SPARSE = [(f"q{n}", f"c{m} {n}", int(m == 0 and n < 6)) for n in range(56) for m in range(3)]


@pytest.fixture
def table(tmp_path):
    def write(rows, name="x.tsv"):
        lines = ["question\tcandidate\trelevance", *("\t".join(map(str, row)) for row in rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return write


SEED = Train().seed  # of a recipe that names none: what is held out depends on it


def planned(path, tests=()):
    return RankingSurvey(RankedData(train=str(path)), tests).read()


def held_to(path, **fields) -> str:
    data = RankedData(train=str(path), **fields)
    return "; ".join(RankingSurvey(data, has_recipe=True, folder=path.parent, seed=SEED).read().problems)


def test_the_recipe_holds_out_so_much_that_some_question_has_an_answer(table, tmp_path) -> None:
    found = planned(table(SPARSE))
    assert found.seed == SEED and not found.problems and found.recipe()["data"]["hold_out"] == 0.25
    (tmp_path / "my.yaml").write_text(dump_yaml(found.recipe(tmp_path)))
    splits = load_ranked(read_recipe(tmp_path / "my.yaml").data, tmp_path, SEED)
    assert all(any(each.answered for each in part) for part in (splits.train, splits.valid, splits.test))
    assert planned(table(PLAIN)).recipe()["data"]["hold_out"] == 0.15


def test_a_ranker_is_chosen_by_many_validation_questions_or_by_none(table) -> None:
    def written(questions: int) -> dict[str, object]:
        rows = [(f"question {n}", f"answer {n} {m}", int(m == 0)) for n in range(questions) for m in range(3)]
        return planned(table(rows)).recipe()["train"]

    few, some, many = written(37), written(250), written(901)
    assert few["keep"] == "last" and "watch" not in few and "stop_after" not in few
    assert some["watch"] == "loss" and many["watch"] == "map" and "keep" not in some


def test_held_out_questions_without_any_answer_are_told_before_training(table, tmp_path) -> None:
    path = table(SPARSE)
    told = held_to(path)
    assert told.startswith("valid: none of 3 questions held out of train has a relevant candidate")
    assert told.endswith("raise data.hold_out (now 0.05), or give data.valid (data.hold_out: 0.25 holds some out)")
    with pytest.raises(SaccadeError, match=r"^valid: none of 3 questions held out"):
        load_ranked(RankedData(train="x.tsv"), tmp_path, SEED)
    two = [(f"q{n}", f"c{m}", int(m == 0 and n == 0)) for n in range(9) for m in range(3)]
    assert "question held out of train has a relevant" in held_to(table(two))  # nobody could hold out enough


def test_a_file_without_any_answer_is_told_before_training(table, tmp_path) -> None:
    path, empty = table(PLAIN), table([("why", "so", 0), ("when", "now", 0)], "empty.tsv")
    told = f"{empty}: none of 2 questions has a relevant candidate"
    assert told in held_to(path, valid="empty.tsv") and told in "; ".join(planned(path, [empty]).problems)
    for name in ("valid", "test"):
        with pytest.raises(
            InputError, match=f"^data.{name}: expected a question with a relevant candidate, found none"
        ):
            load_ranked(RankedData(**{"train": "x.tsv", name: "empty.tsv"}), tmp_path, SEED)
    with pytest.raises(InputError, match=r"^data.train: .*columns\.relevance may name another column"):
        load_ranked(RankedData(train="empty.tsv", valid="x.tsv", test="x.tsv"), tmp_path, SEED)


def test_a_recipe_is_held_to_its_own_overlap_and_max_length(table) -> None:
    path, half = table(PLAIN), table([*PLAIN[:9], ("a question of more words", "so", 1)], "half.tsv")
    assert held_to(path, max_length=3) == held_to(path, max_length=2, too_long="truncate") == ""
    assert "160 texts exceed data.max_length=2 words (longest: 3): raise it" in held_to(path, max_length=2)
    assert "1 text exceeds data.max_length=4 words (longest: 5)" in held_to(path, test=half.name, max_length=4)
    for overlap in ("keep", "drop_test", "drop_train"):
        assert held_to(path, test="half.tsv", overlap=overlap) == ""
    assert "3 of 4 questions of" in held_to(path, test="half.tsv", overlap="error")
    assert "drop_train leaves none" in held_to(path, test="x.tsv", overlap="drop_train")
    assert "drop_test leaves none" in held_to(path, test="x.tsv", overlap="drop_test")


def test_questions_without_spaces_are_cut_into_characters(table, tmp_path) -> None:
    rows = [
        (f"这是什么{chr(0x4E00 + n)}吗", f"我觉得这是一个{chr(0x5E00 + m)}", int(m == 0))
        for n in range(30)
        for m in range(3)
    ]
    (tmp_path / "my.yaml").write_text(dump_yaml(planned(table(rows)).recipe(tmp_path)))
    data = read_recipe(tmp_path / "my.yaml").data
    assert (data.tokens.kind, data.tokens.min_count, data.max_length) == ("characters", 1, 8)
    assert planned(table(PLAIN)).recipe()["data"]["tokens"]["kind"] == "words"


def test_few_different_questions_are_too_few(table) -> None:
    assert "2 different sources are too few to hold out a valid set and a test set" in "; ".join(
        planned(table(PLAIN[:6])).problems
    )
    assert "too few" not in "; ".join(planned(table(PLAIN[:9])).problems)


def test_rows_of_one_group_are_one_question(table) -> None:
    path = table([(f"{q} ?", f"{c} {n}", g, f"g{n}") for n, (q, c, g) in enumerate(PLAIN)], "grouped.tsv")
    path.write_text(path.read_text().replace("relevance\n", "relevance\tpage\n", 1))
    data = RankedData(train=str(path), columns=RankColumns(group="page"))
    survey = RankingSurvey(data).read()
    assert survey.train.records == len(PLAIN) and not any("group" in problem for problem in survey.problems)

"""What ``saccade data`` finds out about tagged sentences."""

from __future__ import annotations

from saccade.data.survey.tags import TagSurvey, find_scheme
from saccade.data.tags.records import TaggedData
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml

BIO = "Alex B-PER\nHonnold I-PER\nclimbs O\n\n" * 3 + "in O\nEl B-LOC\n\n" * 3 + "on O\nEl B-LOC\n\n"
ODD = "x O\ny I-LOC\n\n"


def planned(path, *tests):
    return TagSurvey(TaggedData(train=str(path)), tests).read()


def recipe_data(path):
    return planned(path).recipe()["data"]


def test_the_scheme_is_the_one_that_fewest_sentences_offend_against() -> None:
    bio, iob1, bioes = [["B-A", "I-A"], ["O"]], [["I-A", "B-A"], ["I-B"]], [["B-A", "E-A"], ["S-B"]]
    assert [find_scheme(each) for each in (bio, iob1, bioes)] == ["bio", "iob1", "bioes"]
    assert find_scheme([*bio, ["B-A"], ["O", "I-A"]]) == "bio"  # one sentence is wrong
    assert find_scheme([["NOUN"], ["O"]]) == find_scheme([["O"]]) == "none"


def test_sentences_words_tags_and_spans_are_counted(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO)
    (tmp_path / "test.conll").write_text("in O\nEl B-LOC\n\nKim B-PER\n")
    found = planned(tmp_path / "x.conll", tmp_path / "test.conll")
    plain = found.to_json()
    words = plain["sides"]["sentence"]
    assert (plain["records"], words["vocabulary"]["running"], words["vocabulary"]["different"]) == (7, 17, 6)
    assert words["words"]["longest"] == 3
    assert plain["scheme"] == "bio" and plain["spans"] == {"LOC": 4, "PER": 3} and plain["would_train"]
    (test,) = plain["tests"]
    assert (test["records"], test["met"], test["unseen_words"]) == (2, 1, 0.3333) and plain["repeated"] == 4


def test_its_recipe_reads_and_says_the_scheme(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO + ODD)
    found = planned(tmp_path / "x.conll")
    (tmp_path / "my.yaml").write_text(dump_yaml(found.recipe(tmp_path)))
    recipe = read_recipe(tmp_path / "my.yaml")
    assert (recipe.task, recipe.data.scheme, recipe.data.learn, recipe.data.faults) == ("label", "bio", "bioes", "drop")
    assert recipe.metrics[0] == recipe.train.watch == "f1" and recipe.data.too_long == "split"
    assert found.drops and "1 malformed line" in found.notes[0] and "x.conll:26: expected" in found.train.first_fault


def test_why_it_would_not_train_is_reported(tmp_path) -> None:
    def problems(text: str, test: str | None = None, **fields) -> str:
        (tmp_path / "x.conll").write_text(text)
        (tmp_path / "t.conll").write_text(test or text)
        data = TaggedData(train=str(tmp_path / "x.conll"), **fields)
        tests = [tmp_path / "t.conll"] if test else []
        return "; ".join(TagSurvey(data, tests, has_recipe=bool(fields)).read().problems)

    assert "a tagger needs at least two tags, found only A" in problems("a A\n\nb A\n\nc A\n")
    assert "more than 20%" in problems(BIO + "alone\n\n" * 5).replace(" %", "%")
    assert "data.faults: drop leaves them out" in problems(BIO + ODD, scheme="bio")
    assert "has tags that the training file lacks: ORG" in problems(BIO, "x B-ORG\n")
    assert "too few sentences (1) for 2 tags" in problems("a A\nb B\n")
    assert problems(BIO) == ""
    assert "t.conll has no sentence" in problems(BIO, "\n")


def test_a_slip_of_the_pen_is_a_fault_and_not_another_scheme(tmp_path) -> None:
    bio = [["B-A", "I-A"]] * 30
    assert find_scheme([*bio, ["B_A", "I-A"]]) == "bio" and find_scheme([*bio, *[["L-A"]] * 3]) == "none"
    (tmp_path / "x.conll").write_text(BIO * 5 + "El B_LOC\n\n")
    found = planned(tmp_path / "x.conll")
    assert (found.data.scheme, found.train.fault_count) == ("bio", 1)
    assert "x.conll:121: expected O or B-TYPE" in found.train.first_fault


def test_tags_that_look_like_something_else_are_reported(tmp_path) -> None:
    def notes(text: str) -> str:
        (tmp_path / "x.conll").write_text(text * 4)
        return "; ".join(planned(tmp_path / "x.conll").notes)

    assert "tags such as B-A look like marks of spans, but L-A" in notes("a B-A\nb L-A\nc O\n\n")
    assert "tags are numbers: data.labels names them" in notes("a 0\nb 1\n\n")
    assert "look like" not in notes("a NOUN\nb O\n\n") and "numbers" not in notes("a B-A\nb O\n\n")


def test_what_is_wrong_with_a_test_file_is_told_of_that_file(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO)
    (tmp_path / "test.conll").write_text("in O\nEl B-LOC\n\n" * 5 + ODD)
    found = planned(tmp_path / "x.conll", tmp_path / "test.conll")
    assert found.drops and found.recipe()["data"]["faults"] == "drop"
    (told,) = [note for note in found.notes if "malformed" in note]
    assert told.startswith(f"{tmp_path / 'test.conll'}: 1 malformed line") and "data.faults: drop" in told
    (section,) = [section for section in found.sections() if "Malformed" in section.title]
    assert section.rows[1][1].endswith("test.conll:17: expected a tag that bio allows after O, found I-LOC")


def test_rare_tags_are_listed_since_all_of_one_may_be_held_out(tmp_path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("".join(f"a{n} {f'T{n}' if n < 6 else 'A'}\nb B\n\n" for n in range(30)))
    (tmp_path / "my.yaml").write_text(dump_yaml(planned(path).recipe(tmp_path)))
    assert read_recipe(tmp_path / "my.yaml").data.labels == ("A", "B", "T0", "T1", "T2", "T3", "T4", "T5")
    path.write_text("".join(f"a{n} A\nb{n} B\n\n" for n in range(30)))
    assert recipe_data(path)["tokens"]["min_count"] == 1  # no word comes twice
    path.write_text(BIO * 4)
    assert "labels" not in recipe_data(path)
    path.write_text(BIO)
    assert recipe_data(path)["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def test_a_test_set_in_another_scheme_is_refused_with_the_reason(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO * 5)
    (tmp_path / "test.conll").write_text("Kim I-PER\nclimbs O\n\n" * 9 + "in O\n\n" * 2)
    found = planned(tmp_path / "x.conll", tmp_path / "test.conll")
    (told,) = found.problems
    assert told.startswith(f"{tmp_path / 'test.conll'}: 9 malformed lines, the first: ")
    assert "its tags are written as iob1, those of the training file as bio: rewrite one of them" in told
    (tmp_path / "test.conll").write_text("El B-LOC\n\n" * 8 + ODD * 3)
    found = planned(tmp_path / "x.conll", tmp_path / "test.conll")
    assert "found I-LOC (more than 20%" in found.problems[0] and "fix the file" in found.problems[0]
    (tmp_path / "test.conll").write_text("El B-LOC\n\n" * 8 + ODD * 2)  # a fifth
    assert not planned(tmp_path / "x.conll", tmp_path / "test.conll").problems


def test_a_recipe_is_held_to_its_own_overlap_and_max_length(tmp_path) -> None:
    path, other = tmp_path / "x.conll", tmp_path / "other.conll"
    path.write_text(BIO + "or O\n\n")
    other.write_text("in O\nEl B-LOC\n\nKim B-PER\nis O\nin O\nEl B-LOC\n\n")

    def problems(test=None, **fields) -> str:
        data = TaggedData(train=str(path), scheme="bio", test=test and str(test), **fields)
        return "; ".join(TagSurvey(data, has_recipe=True).read().problems)

    assert problems(max_length=3) == problems(max_length=2, too_long="split") == ""
    found = problems(max_length=2)
    assert "3 sentences exceed data.max_length=2 words (longest: 3)" in found and "data.too_long: split" in found
    assert "1 sentence exceeds data.max_length=3 words (longest: 4)" in problems(other, max_length=3)
    assert problems(other, overlap="drop_test") == problems(other, overlap="drop_train") == problems(path) == ""
    assert "1 of 2 sentences of" in problems(other, overlap="error")
    assert "drop_train leaves none" in problems(path, overlap="drop_train")
    assert "drop_test leaves none" in problems(path, overlap="drop_test")


def test_few_different_sentences_are_too_few_to_hold_any_out(tmp_path) -> None:
    (tmp_path / "x.conll").write_text("a A\nb B\n\nc A\n\n" * 30)
    (told,) = planned(tmp_path / "x.conll").problems
    assert told.startswith(
        "60 training records with 2 different sources are too few to hold out a valid set and a test set"
    )

"""What ``saccade data`` finds out about tagged sentences."""

from __future__ import annotations

from saccade.data.survey.tags import find_scheme, survey_tags
from saccade.data.tags.records import TaggedData
from saccade.recipes.recipe import read_recipe

BIO = "Alex B-PER\nHonnold I-PER\nclimbs O\n\n" * 3 + "in O\nEl B-LOC\n\n" * 3 + "on O\nEl B-LOC\n\n"
ODD = "x O\ny I-LOC\n\n"


def test_the_scheme_is_the_one_that_fewest_sentences_offend_against() -> None:
    bio, iob1, bioes = [["B-A", "I-A"], ["O"]], [["I-A", "B-A"], ["I-B"]], [["B-A", "E-A"], ["S-B"]]
    assert [find_scheme(each) for each in (bio, iob1, bioes)] == ["bio", "iob1", "bioes"]
    assert find_scheme([*bio, ["B-A"], ["O", "I-A"]]) == "bio"  # one sentence is wrong
    assert find_scheme([["NOUN"], ["O"]]) == find_scheme([["O"]]) == "none"


def test_sentences_words_tags_and_spans_are_counted(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO)
    (tmp_path / "test.conll").write_text("in O\nEl B-LOC\n\nKim B-PER\n")
    found = survey_tags(tmp_path / "x.conll", TaggedData(train="x"), [tmp_path / "test.conll"], planned=True)
    plain = found.to_plain()
    assert (plain["sentences"], plain["words"], plain["vocabulary"], plain["longest"]) == (7, 17, 6, 3)
    assert plain["scheme"] == "bio" and plain["spans"] == {"LOC": 4, "PER": 3} and plain["would_train"]
    assert plain["tests"][0] | {"file": ""} == {"file": "", "sentences": 2, "words": 3, "met": 1, "unseen": 1}
    assert any("33.3 % of the words" in note for note in plain["notes"]) and plain["repeated"] == 4


def test_its_recipe_reads_and_says_the_scheme(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO + ODD)
    found = survey_tags(tmp_path / "x.conll", TaggedData(train=str(tmp_path / "x.conll")), planned=True)
    (tmp_path / "my.yaml").write_text(found.recipe(tmp_path))
    recipe = read_recipe(tmp_path / "my.yaml")
    assert (recipe.task, recipe.data.scheme, recipe.data.learn, recipe.data.faults) == ("label", "bio", "bioes", "drop")
    assert recipe.metrics[0] == recipe.train.watch == "f1" and recipe.data.too_long == "split"
    assert found.drops and "1 sentence is no record" in found.notes[0] and "x.conll:26: expected" in found.notes[0]


def test_why_it_would_not_train_is_said(tmp_path) -> None:
    def problems(text: str, test: str | None = None, **fields) -> str:
        (tmp_path / "x.conll").write_text(text)
        (tmp_path / "t.conll").write_text(test or text)
        planned = not fields
        tests = [tmp_path / "t.conll"] if test else []
        return "; ".join(
            survey_tags(tmp_path / "x.conll", TaggedData(train="x", **fields), tests, planned=planned).problems
        )

    assert "a tagger needs two tags at least, found A alone" in problems("a A\n\nb A\n\nc A\n")
    assert "more than 20%" in problems(BIO + "alone\n\n" * 5).replace(" %", "%")
    assert "data.faults: drop leaves them out" in problems(BIO + ODD, scheme="bio")
    assert "has tags that training lacks: ORG" in problems(BIO, "x B-ORG\n")
    assert "sentences are too few" in problems("a A\nb B\n")
    assert problems(BIO) == ""
    assert "t.conll has no sentence" in problems(BIO, "\n")


def test_a_slip_of_the_pen_is_a_fault_and_not_another_scheme(tmp_path) -> None:
    bio = [["B-A", "I-A"]] * 30
    assert find_scheme([*bio, ["B_A", "I-A"]]) == "bio" and find_scheme([*bio, *[["L-A"]] * 3]) == "none"
    (tmp_path / "x.conll").write_text(BIO * 5 + "El B_LOC\n\n")
    found = survey_tags(tmp_path / "x.conll", TaggedData(train="x"), planned=True)
    assert (found.scheme, len(found.faults)) == ("bio", 1) and "x.conll:121: expected O or B-TYPE" in found.first_fault


def test_tags_that_look_like_something_else_are_told(tmp_path) -> None:
    def notes(text: str) -> str:
        (tmp_path / "x.conll").write_text(text * 4)
        return "; ".join(survey_tags(tmp_path / "x.conll", TaggedData(train="x"), planned=True).notes)

    assert "tags such as B-A look like marks of spans, but L-A" in notes("a B-A\nb L-A\nc O\n\n")
    assert "tags are numbers: data.labels names them" in notes("a 0\nb 1\n\n")
    assert "look like" not in notes("a NOUN\nb O\n\n") and "numbers" not in notes("a B-A\nb O\n\n")


def test_what_is_wrong_with_a_test_file_is_told_of_that_file(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO)
    (tmp_path / "test.conll").write_text("in O\nEl B-LOC\n\n" * 5 + ODD)
    found = survey_tags(tmp_path / "x.conll", TaggedData(train="x"), [tmp_path / "test.conll"], planned=True)
    assert found.drops and "faults: drop" in found.recipe()
    (told,) = [note for note in found.notes if "no record" in note]
    assert told.startswith(f"1 sentence is no record in {tmp_path / 'test.conll'} and left out by data.faults: drop")
    assert told.endswith("test.conll:17: expected a tag that bio allows after O, found I-LOC")


def test_rare_tags_are_listed_since_all_of_one_may_be_held_out(tmp_path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("".join(f"a{n} {f'T{n}' if n < 6 else 'A'}\nb B\n\n" for n in range(30)))
    (tmp_path / "my.yaml").write_text(survey_tags(path, TaggedData(train=str(path)), planned=True).recipe(tmp_path))
    assert read_recipe(tmp_path / "my.yaml").data.labels == ("A", "B", "T0", "T1", "T2", "T3", "T4", "T5")
    path.write_text("".join(f"a{n} A\nb{n} B\n\n" for n in range(30)))
    assert "min_count: 1}" in survey_tags(path, TaggedData(train="x"), planned=True).recipe()  # no word comes twice
    path.write_text(BIO * 4)
    assert "labels" not in survey_tags(path, TaggedData(train="x"), planned=True).recipe()
    path.write_text(BIO)
    assert "labels: [O, B-LOC, I-LOC, B-PER, I-PER]" in survey_tags(path, TaggedData(train="x"), planned=True).recipe()


def test_a_test_set_in_another_scheme_is_refused_with_the_reason(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(BIO * 5)
    (tmp_path / "test.conll").write_text("Kim I-PER\nclimbs O\n\n" * 9 + "in O\n\n" * 2)
    found = survey_tags(tmp_path / "x.conll", TaggedData(train="x"), [tmp_path / "test.conll"], planned=True)
    (told,) = found.problems
    assert told.startswith(f"9 of 11 sentences of {tmp_path / 'test.conll'} are no records, the first: ")
    assert told.endswith("(its tags are written as iob1, those of training as bio: rewrite one of them)")
    (tmp_path / "test.conll").write_text("El B-LOC\n\n" * 8 + ODD * 3)
    found = survey_tags(tmp_path / "x.conll", TaggedData(train="x"), [tmp_path / "test.conll"], planned=True)
    assert found.problems[0].endswith("found I-LOC (more than 20%: mend the file)")
    (tmp_path / "test.conll").write_text("El B-LOC\n\n" * 8 + ODD * 2)  # a fifth
    assert not survey_tags(
        tmp_path / "x.conll", TaggedData(train="x"), [tmp_path / "test.conll"], planned=True
    ).problems


def test_a_recipe_is_held_to_its_own_overlap_and_max_length(tmp_path) -> None:
    path, other = tmp_path / "x.conll", tmp_path / "other.conll"
    path.write_text(BIO + "or O\n\n")
    other.write_text("in O\nEl B-LOC\n\nKim B-PER\nis O\nin O\nEl B-LOC\n\n")

    def problems(test=None, **fields) -> str:
        data = TaggedData(train="x", scheme="bio", test=test and str(test), **fields)
        return "; ".join(survey_tags(path, data, [test] if test else []).problems)

    assert problems(max_length=3) == problems(max_length=2, too_long="split") == ""
    assert "more than data.max_length, 2 words: 3, the longest 3: raise it, or set data.too_long: split" in problems(
        max_length=2
    )
    assert "3 words: 1, the longest 4" in problems(other, max_length=3)
    assert problems(other, overlap="drop_test") == problems(other, overlap="drop_train") == problems(path) == ""
    assert "1 of 2 sentences of" in problems(other, overlap="error")
    assert "drop_train nothing is left" in problems(path, overlap="drop_train")
    assert "drop_test nothing is left" in problems(path, overlap="drop_test")


def test_few_different_sentences_are_too_few_to_hold_any_out(tmp_path) -> None:
    (tmp_path / "x.conll").write_text("a A\nb B\n\nc A\n\n" * 30)
    (told,) = survey_tags(tmp_path / "x.conll", TaggedData(train="x"), planned=True).problems
    assert told.startswith(
        "60 training records with 2 different sources are too few to hold out a valid set and a test set"
    )

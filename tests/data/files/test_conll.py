"""CoNLL columns and CoNLL-U: sentences, documents, what is no word, and what is wrong with a file."""

from __future__ import annotations

import gzip
import lzma

import pytest

from saccade.data.files.conll import Sentence, scan_conll
from saccade.data.files.records import Fault
from saccade.errors import InputError

COLUMNS = "Confidence NN B-NP\nin IN B-PP\n\n\t\nthe DT B-NP\n# # I-NP\n"
UNIVERSAL = (
    "# newdoc id = one\n# text = das casas\n"
    "1-2\tdas\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tde\tde\tADP\tP\t_\t3\tcase\t_\t_\n"
    "2\tas\to\tDET\tD\t_\t3\tdet\t_\t_\n"
    "2.1\tfoi\tser\tVERB\tV\t_\t_\t_\t_\t_\n"
    "3\tcasas novas\tcasa\tNOUN\tN\t_\t0\troot\t_\t_\n\n"
    "# newdoc_id = two\n1\tsim\tsim\tADV\tR\t_\t0\troot\t_\t_\n"
)


@pytest.fixture
def read(tmp_path):
    def read(text, word=1, tag=-1, format="conll", name="x.conll", **options):
        path = tmp_path / name
        opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
        with opener(path, "wt", encoding="utf-8") as file:
            file.write(text)
        return list(scan_conll(path, word, tag, format=format, **options))

    return read


@pytest.mark.parametrize("name", ["x.conll", "x.conll.gz", "x.txt.xz"])
def test_columns_are_read_by_number_and_blank_lines_end_sentences(read, name) -> None:
    found = read(COLUMNS, name=name)
    assert [each.words for each in found] == [["Confidence", "in"], ["the", "#"]]
    assert [each.tags for each in found] == [["B-NP", "B-PP"], ["B-NP", "I-NP"]] and found[1].lines == [5, 6]
    assert read(COLUMNS, tag=2)[0].tags == ["NN", "IN"] and read(COLUMNS, word=-2)[0].words == ["NN", "IN"]


def test_tabs_part_columns_where_there_are_any_and_only_blanks_do_elsewhere(read) -> None:
    assert read("New York\tB\n10\u00a0000\tO\n")[0].words == ["New York", "10\u00a0000"]
    assert read("10\u00a0000  O\n")[0].words == ["10\u00a0000"]  # a no-break space is part of a word


def test_docstart_is_not_a_word_and_begins_a_document(read) -> None:
    found = read("-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\n")
    assert [(each.words, each.document) for each in found] == [
        (["a"], "document 1"), (["b"], "document 1"), (["c"], "document 2"),
    ]  # fmt: skip
    assert read("a O\n")[0].document is None


def test_ranges_and_empty_nodes_of_conllu_are_passed_over(read) -> None:
    found = read(UNIVERSAL, "form", "upos", "conllu")
    assert found[0] == Sentence(["de", "as", "casas novas"], ["ADP", "DET", "NOUN"], [4, 5, 7], "one")
    assert (found[1].words, found[1].document) == (["sim"], "two")
    assert read(UNIVERSAL, "lemma", "XPOS", "conllu")[0].tags == ["P", "D", "N"]
    assert read(UNIVERSAL, 3, 8, "conllu")[0].words == ["de", "o", "casa"]


def test_a_line_that_is_wrong_costs_its_sentence_and_no_other(read) -> None:
    one, broken, three = read("a O\n\nb O\nalone\nc O\n\nd O\n")
    assert isinstance(broken, Fault) and broken.line == 4 and one.words == ["a"] and three.words == ["d"]
    assert "x.conll:4: expected 2 columns, found 1" in str(broken.error)
    (short,) = read("alone\n")
    assert "expected 2 columns, found 1" in str(short.error)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x\tde\tde\tADP\tP\t_\t3\tcase\t_\t_", "x.conll:1: id: expected the number of a word"),
        ("1\tde\tde\t_\tP\t_\t3\tcase\t_\t_", "x.conll:1: expected a tag, found '_'"),
        ("1\t \tde\tADP\tP\t_\t3\tcase\t_\t_", "x.conll:1: expected a word, found ' '"),
        ("1\tde\tADP", "x.conll:1: expected 10 columns, as CoNLL-U has, found 3"),
    ],
)
def test_faults_of_conllu_name_their_line(read, line, message) -> None:
    (broken,) = read(line + "\n", "form", "upos", "conllu")
    assert message in str(broken.error)


def test_a_column_that_is_not_there_is_an_error_of_the_whole_file(read) -> None:
    with pytest.raises(InputError, match=r"x.conll:1: columns: expected a column 4, found 3 columns"):
        read(COLUMNS, tag=4)
    with pytest.raises(InputError, match=r"columns: expected a column -4, found 3"):
        read(COLUMNS, tag=-4)
    with pytest.raises(InputError, match="expected the number of a column"):
        read(COLUMNS, tag="upos")
    with pytest.raises(InputError, match="expected one of form, lemma, upos"):
        read(UNIVERSAL, "form", "pos", "conllu")


def test_other_encodings_are_read_and_wrong_bytes_are_faults(read, tmp_path) -> None:
    (tmp_path / "x.conll").write_bytes("caf\xe9 O\n\nb O\n".encode("latin-1"))
    broken, good = scan_conll(tmp_path / "x.conll", 1, -1, format="conll")
    assert isinstance(broken, Fault) and good.words == ["b"]
    found = list(scan_conll(tmp_path / "x.conll", 1, -1, format="conll", encoding="latin-1"))
    assert found[0].words == ["café"]


def test_lines_of_comment_before_a_sentence_are_passed_over(read) -> None:
    for text in (
        "# id 3f domain=en\neli _ _ B-ARTIST\nis _ _ O\n\n# id 4a\tdomain=en\n\nhe _ _ O\n",
        "# text = hello\neli _ _ B-ARTIST\nis _ _ O\n\n# sent_id = 7\n# text = x y\nhe _ _ O\n",
        "# id 3f\tdomain=en\neli\tB-ARTIST\nis\tO\n\n# id 4a\tdomain=en\nhe\tO\n",  # as many columns as the words
        "# the words of a song, by nobody\n#\n\neli B-ARTIST\nis O\n\n# the second\nhe O\n",
        "#begin document (nw/0); part 000\neli B-ARTIST\nis O\n\nhe O\n#end document\n",
    ):
        found = read(text)
        assert [(each.words, each.tags) for each in found] == [(["eli", "is"], ["B-ARTIST", "O"]), (["he"], ["O"])]
        assert found[0].lines[1] == found[0].lines[0] + 1 and text.splitlines()[found[1].lines[0] - 1].startswith("he")


def test_words_that_begin_with_a_hash_are_words(read) -> None:
    chunked = "# NN B-NP\n20 CD I-NP\n\nthe DT B-NP\n# # I-NP\n# = O\n"
    assert [each.words for each in read(chunked)] == [["#", "20"], ["the", "#", "#"]]
    tweets = "#begin O\n#word O\nok O\n\n# O\n#id O\n\n#end B-X\n\n#text B-X\n= O\n"
    found = read(tweets)
    assert [each.words for each in found] == [["#begin", "#word", "ok"], ["#", "#id"], ["#end"], ["#text", "="]]
    assert found[3].tags == ["B-X", "O"] and read("#a O\n#b B-X\n")[0].words == ["#a", "#b"]  # nothing else in the file
    assert read("#tag = O\nthe DT O\n")[0].words == ["#tag", "the"]


def test_a_line_that_is_short_of_columns_within_a_sentence_is_still_a_fault(read) -> None:
    (found,) = read("the DT B-NP\n# id 7\n#\nend NN I-NP\n")
    assert isinstance(found, Fault) and "found 1" in str(found.error)


def test_conll_2012_says_where_documents_begin(read) -> None:
    text = "".join(
        f"#begin document ({name}); part {part}\na O\n\nb O\n\n#end document\n"
        for name, part in (("nw/0", "000"), ("nw/0", "001"), ("nw/1", "000"))
    )
    assert [each.document for each in read(text)] == ["(nw/0)"] * 4 + ["(nw/1)"] * 2


def test_several_tabs_are_one_divider_where_only_then_lines_have_as_many_columns(read) -> None:
    aligned = read("Wolfgang\tNNP\tB-PER\nis\t\tVBZ\t\tO\n\nin\t\tIN\tO\n")
    assert [each.words for each in aligned] == [["Wolfgang", "is"], ["in"]]
    assert [each.tags for each in aligned] == [["B-PER", "O"], ["O"]]
    assert read("Wolfgang\tB-PER\t\nis\tO\t\n")[0].tags == [
        "B-PER",
        "O",
    ]  # a tab at the end of each line begins no column
    assert read("is\t\tO\nin\tIN\tO\n", tag=3)[0].tags == ["O", "O"]  # an empty cell is a column where tabs are counted

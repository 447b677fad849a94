"""Alignments from files: both formats, counted from 0, and clear words for what is wrong with them."""

import gzip
import json
from pathlib import Path

import pytest

from saccade.data.pairs.gold import Gold, has_words, read_gold, read_links, read_word_pairs, write_links
from saccade.data.pairs.records import Pair
from saccade.errors import InputError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_possible_links_hold_the_sure_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gold", "1-1 2p3\n\n3-2\n")
    assert read_gold(path, first=1) == [
        Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)})),
        Gold(frozenset(), frozenset()),
        Gold(frozenset({(2, 1)}), frozenset({(2, 1)})),
    ]


def test_the_same_file_counted_from_0_is_another_alignment(tmp_path: Path) -> None:
    path = write(tmp_path / "a.talp", "1-1 2p3\n")
    assert read_links(path, first=0) == [frozenset({(1, 1), (2, 3)})]
    assert read_links(path, first=1) == [frozenset({(0, 0), (1, 2)})]


def test_links_are_written_as_they_are_read(tmp_path: Path) -> None:
    links = frozenset({(10, 2), (9, 3), (0, 0)})
    assert write_links(links) == "0-0 9-3 10-2"
    assert read_links(write(tmp_path / "a", write_links(links) + "\n"), first=0) == [links]


def test_jsonl_counts_from_0_and_may_hold_possible_links(tmp_path: Path) -> None:
    record = {"src_words": ["a", "b c"], "tgt_words": ["x"], "alignment": [[0, 0]], "possible": [[1, 0]]}
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(record) + "\n")
    assert read_gold(path) == [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)}))]
    assert has_words(path)
    # two words stay two words: a blank inside one would shift every link after it
    assert read_word_pairs(path) == [Pair("a b·c", "x")]


def test_divided_lines_are_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.src-tgt", "oh , oh !   ||| ah  , ah ! \n2 . ||| 2 .\n")
    assert read_word_pairs(path) == [Pair("oh , oh !", "ah , ah !"), Pair("2 .", "2 .")]


FAULTS = {
    "unsaid": ("a.gold", "1-1\n", {}, "a.gold: expected first to say whether words count from 0 or from 1"),
    "not a link": ("a.gold", "1-1\n1:2\n", {"first": 1}, "a.gold:2: expected links such as 3-4 or 3p4, found '1:2'"),
    "from 0 after all": (
        "a.gold",
        "0-1\n",
        {"first": 1},
        "a.gold:1: expected words counted from 1, found the link 0-1",
    ),
    "empty": ("a.gold", "", {"first": 0}, "a.gold: expected a line of links for each pair, found an empty file"),
    "no links": ("a.jsonl", '{"src_words": ["a"]}\n', {}, "a.jsonl:1: alignment: expected links such as"),
    "no numbers": ("a.jsonl", '{"alignment": [[0, true]]}\n', {}, "a.jsonl:1: alignment: expected links such as"),
    "no JSON": ("a.jsonl", "[0-0\n", {}, "a.jsonl:1: expected a JSON object, found no JSON"),
    "a list": ("a.jsonl", "[]\n", {}, "a.jsonl:1: expected a JSON object, found a list"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_the_file_and_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    name, text, how, message = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        read_gold(write(Path(name), text), **how)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "found"), [("a b\n", "0 dividers"), ("a ||| b ||| c\n", "2 dividers"), (" ||| b\n", "an empty side")]
)
def test_half_a_pair_is_a_fault(tmp_path: Path, text: str, found: str) -> None:
    path = write(tmp_path / "a.src-tgt", "a ||| b\n" + text)
    with pytest.raises(InputError, match=rf"a.src-tgt:2: expected source words \|\|\| target words, found {found}"):
        read_word_pairs(path)

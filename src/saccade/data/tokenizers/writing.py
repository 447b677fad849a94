"""Writes words and punctuation as the training texts do: "l'herbe" for "l ' herbe", and "In Paris" for "in paris".

Of every mark it counts on which sides it touches its neighbours, separately for odd and even occurrences in a text (quotation
marks open and close) and between digits; of every word its case within sentences; and whether sentences begin with a capital.
What most of the training texts do is done. No torch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from saccade.data.tokenizers.tokenizer import Tokenizer, splitting
from saccade.errors import InputError

WRITING = "writing.target.json"  # the bundle's file
READ = 100_000  # texts that are counted
ENDS = (".", "!", "?")  # marks after which a sentence may begin
SIDES = ("", "<", ">", "<>")  # where a mark touches its neighbours


@dataclass(frozen=True)
class Writing:
    """How texts are written.

    Attributes:
        joined: mark, occurrence and place → the sides on which it touches its neighbours.
        cased: word in lower case → as it is written within sentences, where that differs.
        capitals: what a capital follows: the start of a text ("") or the end of a sentence.
    """

    joined: Mapping[str, str]
    cased: Mapping[str, str]
    capitals: tuple[str, ...] = ()

    @classmethod
    def learn(cls, texts: Iterable[str], tokenizer: Tokenizer) -> Writing | None:
        """What these texts do; None where joining words by spaces does the same, or if the tokens are not words."""
        config = tokenizer.config
        if config.kind != "words":
            return None
        split = splitting(replace(config, lower=False))
        touches: dict[str, Counter[str]] = {}
        forms: dict[str, Counter[str]] = {}
        starts: dict[str, Counter[bool]] = {}
        for text in islice(texts, READ):
            _count(split(text), touches, forms, starts)
        joined = {
            key: "".join(side for side in "<>" if 2 * counts[side] > counts[f"any{side}"])
            for key, counts in sorted(touches.items())
        }
        commonest = {word: max(sorted(counts), key=counts.__getitem__) for word, counts in sorted(forms.items())}
        cased = {word: form for word, form in commonest.items() if form != word} if config.lower else {}
        capitals = tuple(mark for mark, counts in sorted(starts.items()) if counts[True] > counts[False])
        writing = cls(joined, cased, capitals if config.lower else ())
        return writing if any(joined.values()) or cased or writing.capitals else None

    def write(self, value: str) -> str:
        """The tokens of a text, with spaces between them, as people write them.

        >>> Writing({"'1": "<>", ".1": "<"}, {"paris": "Paris"}, ("",)).write("l ' herbe de paris .")
        "L'herbe de Paris."
        """
        tokens, seen = value.split(" "), Counter[str]()
        text, touching, start = "", True, ""
        begins = True
        for number, token in enumerate(tokens):
            sides = ""
            if _is_mark(token):
                key = _key(token, seen, tokens[max(0, number - 1) : number + 2])
                sides = self.joined.get(key, self.joined.get(key.rstrip("#"), ""))
                if token in ENDS and ">" not in sides:
                    begins, start = True, token
            else:
                token = self.cased.get(token, token)
                if begins and start in self.capitals:
                    token = token[:1].upper() + token[1:]
                begins = False
            text += token if touching or "<" in sides else f" {token}"
            touching = ">" in sides
        return text

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> Writing:
        """Read what :meth:`to_json` wrote; ``where`` names the file in errors."""
        try:
            plain = json.loads(text)
            joined, cased, capitals = plain["joined"], plain["cased"], tuple(plain["capitals"])
            sound = _texts(joined) and _texts(cased) and all(side in SIDES for side in joined.values())
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(where, expected="how texts are written", found=f"another document: {error}") from None
        if not sound or any(mark not in ("", *ENDS) for mark in capitals):
            raise InputError(where, expected="how texts are written", found="other values")
        return cls(joined, cased, capitals)


def _texts(plain: Any) -> bool:
    return isinstance(plain, dict) and all(isinstance(value, str) for value in plain.values())


def _is_mark(token: str) -> bool:
    return len(token) == 1 and not token.isalnum() and token != "_"


def _key(mark: str, seen: Counter[str], around: list[str]) -> str:
    """A mark, whether this is its odd or even occurrence, and whether it stands between digits."""
    seen[mark] += 1
    digits = len(around) == 3 and around[0][-1:].isdigit() and around[2][:1].isdigit()
    return f"{mark}{2 - seen[mark] % 2}{'#' if digits else ''}"


def _count(
    tokens: list[tuple[str, tuple[int, int]]],
    touches: dict[str, Counter[str]],
    forms: dict[str, Counter[str]],
    starts: dict[str, Counter[bool]],
) -> None:
    """Count what one text does."""
    seen, begins, start = Counter[str](), True, ""
    words = [token for token, _ in tokens]
    for number, (token, (first, last)) in enumerate(tokens):
        if _is_mark(token):
            counts = touches.setdefault(_key(token, seen, words[max(0, number - 1) : number + 2]), Counter())
            if number:
                counts["any<"] += 1
                counts["<"] += tokens[number - 1][1][1] == first
            if number + 1 < len(tokens):
                counts["any>"] += 1
                counts[">"] += tokens[number + 1][1][0] == last
                if token in ENDS and tokens[number + 1][1][0] > last:
                    begins, start = True, token
        elif begins:
            if token[:1].lower() != token[:1].upper():
                starts.setdefault(start, Counter())[token[:1].isupper()] += 1
            begins = False
        else:
            forms.setdefault(token.lower(), Counter())[token] += 1

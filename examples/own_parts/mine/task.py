"""Numbers read aloud, digit by digit: 305 → three zero five. A text task that makes its own records."""

import random
from dataclasses import dataclass, field
from typing import Literal

from saccade.data.pairs.records import Pair, PairData
from saccade.data.splits import hold_out
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.tasks.translate import Translate

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@dataclass(frozen=True)
class AloudData(PairData):
    source: Literal["digits"] | None = "digits"
    target_tokens: TokenizerConfig | None = field(default_factory=lambda: TokenizerConfig(kind="words"))
    count: int = 1000  # numbers
    longest: int = 6  # digits


class Aloud(Translate):
    name, Data, metrics = "aloud", AloudData, ("exact_match", "cer")

    @staticmethod
    def load(data, folder, seed):
        draw = random.Random(seed)
        numbers = {str(draw.randrange(10 ** draw.randint(1, data.longest))) for _ in range(data.count)}
        pairs = [Pair(number, " ".join(WORDS[int(digit)] for digit in number)) for number in sorted(numbers)]
        return hold_out({"train": pairs}, data.hold_out, seed)

    def examples(self, folder, seed, test=None):
        return ["305", "1987", "40024"]

"""Generates questions about people: one candidate answers, the others are about somebody else, or about something else.

    "what is the work of anna ?"    anna , whom tom knows , earns a living as a baker .     answers
                                    tom , whom anna knows , earns a living as a smith .     is about tom
                                    letters reach anna in paris .                           says where anna lives

The words of a question hardly occur in its answer, and a wrong candidate may hold the name too: who is asked about, and what,
must both be found. Names and things are the same in all splits; no question of one split is in another.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from saccade.data.config import check_least

PEOPLE = (
    "anna", "tom", "maria", "peter", "lucy", "omar", "ines", "felix", "clara", "hugo", "nora", "ivan", "rosa", "emil",
    "vera", "carl", "lena", "marc", "dora", "paul",
)  # fmt: skip
THINGS = {
    "work": ("baker", "smith", "nurse", "sailor", "tailor", "judge", "farmer", "painter"),
    "home": ("paris", "rome", "lima", "oslo", "cairo", "porto", "delhi", "kyoto"),
    "meal": ("soup", "bread", "rice", "fish", "beans", "cheese", "apples", "plums"),
    "animal": ("dog", "cat", "horse", "parrot", "goat", "rabbit", "owl", "pony"),
    "music": ("piano", "violin", "drum", "flute", "harp", "guitar", "organ", "trumpet"),
}
QUESTIONS = {
    "work": ("what is the work of {who} ?", "which trade does {who} have ?", "how is money made by {who} ?"),
    "home": ("where does {who} live ?", "in which city would one find {who} ?", "what town is {who} from ?"),
    "meal": ("what does {who} like to eat ?", "which food is best for {who} ?", "what should be cooked for {who} ?"),
    "animal": ("what pet has {who} ?", "which animal belongs to {who} ?", "what creature does {who} keep ?"),
    "music": ("what does {who} play ?", "which instrument has {who} learnt ?", "on what does {who} make music ?"),
}
ANSWERS = {
    "work": ("{who} earns a living as a {what} .", "they call {who} a good {what} ."),
    "home": ("{who} has rooms in {what} .", "letters reach {who} in {what} ."),
    "meal": ("{who} orders {what} every day .", "nothing pleases {who} more than {what} ."),
    "animal": ("{who} walks with a {what} .", "a {what} follows {who} about ."),
    "music": ("{who} practises the {what} at night .", "the {what} sounds well when {who} is at it ."),
}
BESIDE = (" , whom {other} knows ,", " , and not {other} ,", "")  # what may stand after a name
EXAMPLES = (
    "where does anna live ?\tletters reach tom in rome .\tanna has rooms in paris .\tanna walks with a dog .",
    "what pet has peter ?\ta goat follows lucy about .\ta pony follows peter about .\tletters reach peter in oslo .",
    "which trade does rosa have ?\tthey call emil a good smith .\trosa orders soup every day .\tthey call rosa a good nurse .",
)
Made = tuple[str, tuple[str, ...], tuple[float, ...]]  # question, candidates, relevance


@dataclass(frozen=True)
class Facts:
    """The number of questions, of candidates per question, and the seed of the draw."""

    train: int = 3000
    valid: int = 200
    test: int = 400
    candidates: int = 6
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1, candidates=2)


def generate(facts: Facts) -> dict[str, list[Made]]:
    """(question, candidates, relevance) of each split. There are 300 questions: several records of a split may ask the same,
    with other candidates, but no two splits do."""
    asked = [(who, kind, way) for who in PEOPLE for kind in THINGS for way in range(len(QUESTIONS[kind]))]
    random.Random(f"{facts.seed} facts").shuffle(asked)  # seeding by text is the same in every process
    parts = {"test": asked[:60], "valid": asked[60:100], "train": asked[100:]}
    made = {}
    for split, questions in parts.items():
        draw = random.Random(f"{facts.seed} facts {split}")
        made[split] = [_draw(draw, questions, facts.candidates) for _ in range(getattr(facts, split))]
    return made


def _draw(draw: random.Random, questions: list[tuple[str, str, int]], size: int) -> Made:
    who, kind, way = draw.choice(questions)
    others = [name for name in PEOPLE if name != who]
    said = [(_sentence(draw, who, kind, others), 1.0)]
    while len(said) < size:
        # Wrong in one way or in both: about somebody else, or of another thing.
        about = who if draw.random() < 0.5 else draw.choice(others)
        wrong = [name for name in THINGS if name != kind] if about == who else [kind, *THINGS]
        said.append((_sentence(draw, about, draw.choice(wrong), [name for name in PEOPLE if name != about]), 0.0))
    draw.shuffle(said)
    return QUESTIONS[kind][way].format(who=who), tuple(text for text, _ in said), tuple(grade for _, grade in said)


def _sentence(draw: random.Random, who: str, kind: str, others: list[str]) -> str:
    named = who + draw.choice(BESIDE).format(other=draw.choice(others))
    return draw.choice(ANSWERS[kind]).format(who=named, what=draw.choice(THINGS[kind]))

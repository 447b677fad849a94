"""How texts are written: learnt from them, applied to the tokens of an output."""

from __future__ import annotations

import json

import pytest

from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from saccade.data.tokenizers.writing import Writing
from saccade.errors import InputError

TEXTS = [
    "L'herbe d'Anne est verte, dit-elle.",
    'Il crie : "Paris est à Anne !" et rit.',
    "À Paris, Anne a 3,5 € (ou 12.5 €). Elle rit !",
    "Elle voit l'herbe, puis Paris. Il rit.",
    'On dit "non" à Paris, ou "oui", et c\'est 2,5.',
]


def learnt(texts: list[str], *, lower: bool = True, kind: str = "words") -> tuple[Tokenizer, Writing | None]:
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind, lower=lower))  # type: ignore[arg-type]
    return tokenizer, Writing.learn(texts, tokenizer)


@pytest.mark.parametrize("lower", [True, False])
def test_a_text_that_was_learnt_from_is_written_as_it_was(lower: bool) -> None:
    tokenizer, writing = learnt(TEXTS, lower=lower)
    assert writing is not None
    for text in TEXTS:
        tokens = tokenizer.decode(tokenizer.encode(text))
        written = writing.write(tokens)
        assert written == text
        assert tokenizer.encode(written) == tokenizer.encode(text) and tokenizer.canonical(written) == tokens


def test_other_texts_follow_what_most_do() -> None:
    _, writing = learnt(TEXTS)
    assert writing is not None
    assert writing.write('elle dit : " l \' eau " , à paris . il a 7,5 € .'.replace("7,5", "7 , 5")) == (
        'Elle dit : "l\'eau", à Paris. Il a 7,5 €.'
    )
    assert writing.write("une <unk> ; puis anne") == "Une <unk> ; puis Anne"  # no text has a semicolon
    assert writing.write("") == ""


def test_what_texts_do_not_do_is_not_done() -> None:
    assert learnt(["l ' herbe est verte .", "anne , paris et elle"])[1] is None
    assert learnt(["L'herbe."], kind="characters")[1] is None
    lower = learnt(["l'herbe est à anne.", "il rit."])[1]
    assert lower is not None and lower.write("l ' herbe .") == "l'herbe." and not lower.cased and not lower.capitals
    kept = learnt(TEXTS, lower=False)[1]
    assert kept is not None and not kept.cased and not kept.capitals


def test_it_is_kept_in_a_file_and_another_file_is_refused() -> None:
    _, writing = learnt(TEXTS)
    assert writing is not None and Writing.from_json(writing.to_json(), "w") == writing
    plain = json.loads(writing.to_json())
    for broken in ("[]", "{", "[" * 10_000, json.dumps({**plain, "joined": {".1": "<<"}}), json.dumps({**plain, "cased": [1]}),
                   json.dumps({**plain, "capitals": 3}), json.dumps({**plain, "capitals": ["x"]})):  # fmt: skip
        with pytest.raises(InputError, match="w: expected how texts are written"):
            Writing.from_json(broken, "w")

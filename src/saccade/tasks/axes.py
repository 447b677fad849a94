"""Labels the axes of a classifier's trace with the words of its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from saccade.data.labels.batch import Layout
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.trace.axes import Axis, Sentences, Tokens

BREAK = "\n"  # between the two texts of a pair when they are shown as one


def row_axis(
    tokenizer: Tokenizer, texts: Sequence[str], sizes: Sequence[int], *, layout: Layout, keep: Literal["first", "last"]
) -> Tokens:
    """The axis of one text or two in one row; of each text the ``keep`` (first or last) ``sizes`` tokens are read.

    Each token is labelled with its text in the input; its text joins the two by a line break.
    """
    begin, end = (tokenizer.pieces([mark])[0] for mark in (tokenizer.BOS, tokenizer.EOS))
    marked = layout == "marked"
    labels, spans, special = list[str](), list[tuple[int, int]](), list[int]()
    start = 0

    def mark(label: str, place: int) -> None:
        special.append(len(labels))
        labels.append(label)
        spans.append((place, place))

    if marked:
        mark(begin, 0)
    for number, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        written = tokenizer.spans(text) or [(0, len(text))]
        written = written[:size] if keep == "first" else written[len(written) - size :]
        labels += [text[first:last] or "·" for first, last in written]
        spans += [(start + first, start + last) for first, last in written]
        start += len(text)
        if marked or number + 1 < len(texts):
            mark(end, start)
        start += len(BREAK)
    return Tokens(tuple(labels), text=BREAK.join(texts), spans=tuple(spans), special=tuple(special))


def nested_axes(
    tokenizer: Tokenizer,
    text: str,
    places: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    *,
    keep: Literal["first", "last"],
) -> dict[str, Axis]:
    """The axes of a text that is read sentence by sentence: ``sentences``, and nested in it ``text`` for the words.

    ``places`` are the character spans of its sentences; ``sizes`` are the tokens read of each sentence, in total the ``keep``
    (first or last) ones of the text.
    """
    tokens = [
        (start + first, start + last) for start, end in places for first, last in tokenizer.spans(text[start:end])
    ]
    spans, count = tokens or [(0, len(text))], sum(sizes)
    spans = spans[:count] if keep == "first" else spans[len(spans) - count :]
    within = [number for number, size in enumerate(sizes) for _ in range(size)]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    written = [text[spans[end - size][0] : spans[end - 1][1]] for end, size in zip(ends, sizes, strict=True)]
    labels = tuple(text[first:last] or "·" for first, last in spans)
    words = Tokens(labels, "sentences", tuple(within), text, tuple(spans))
    return {"sentences": Sentences(tuple(" ".join(sentence.split()) or "·" for sentence in written)), "text": words}

"""The axes of what a classifier reads: the words as they were written, with the marks around them or in their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from saccade.data.labels.batch import Layout
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.trace.axes import Axis, Sentences, Tokens

BREAK = "\n"  # between the two texts of a pair, where they are shown as one


def row_axis(
    tokenizer: Tokenizer, texts: Sequence[str], sizes: Sequence[int], *, layout: Layout, keep: Literal["first", "last"]
) -> Tokens:
    """One text or two, of which the ``keep`` ``sizes`` tokens are read, as the network sees them in a row.

    Each token is labelled with what was written there; marks are ``special``. The axis's text is the two joined by a line
    break.
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
    """A text that is read sentence by sentence: the axis ``sentences``, and in it the axis ``text`` of the words.

    ``places`` are its sentences as they were cut into tokens; ``sizes`` says how many tokens each one has that was read,
    which together are the text's ``keep`` ones.
    """
    found = [(start + first, start + last) for start, end in places for first, last in tokenizer.spans(text[start:end])]
    spans, count = found or [(0, len(text))], sum(sizes)
    spans = spans[:count] if keep == "first" else spans[len(spans) - count :]
    within = [number for number, size in enumerate(sizes) for _ in range(size)]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    written = [text[spans[end - size][0] : spans[end - 1][1]] for end, size in zip(ends, sizes, strict=True)]
    labels = tuple(text[first:last] or "·" for first, last in spans)
    words = Tokens(labels, "sentences", tuple(within), text, tuple(spans))
    return {"sentences": Sentences(tuple(" ".join(each.split()) or "·" for each in written)), "text": words}

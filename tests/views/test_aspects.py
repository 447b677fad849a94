"""Looks at one text for several aspects are one map; all other traces stay as they are."""

from __future__ import annotations

from dataclasses import replace

import torch

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.panels import merge_aspects

TEXT = "good soup bad tea"


def trace(aspect: str, weights: list[float], *, text: str = TEXT, said: str = "positive") -> Trace:
    words, asked = text.split(), aspect.split()
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    spans += [(len(text), len(text))] + [(len(text) + 1, len(text) + 2) for _ in asked]
    axis = Tokens((*words, "<eos>", *asked), text=f"{text}\n{aspect}", spans=tuple(spans), special=(len(words),))
    row = torch.tensor([[*weights, *([0.0] * (len(axis) - len(weights)))]])
    map = AttentionMap("pool", "label", "text", "dense", {"weights": row}, keys=len(axis))
    axes = {"text": axis, "label": Tokens((said,))}
    return Trace(axes, (map,), about={"task": "classify", "input": axis.text, "output": said, "model": "atae_lstm"})


def test_aspects_of_one_sentence_are_rows_over_its_words() -> None:
    looks = [trace("soup", [0.1, 0.2, 0.3, 0.4]), trace("iced tea", [0.4, 0.3, 0.2, 0.1], said="negative")]
    (found,) = merge_aspects(looks)
    assert found.axes["aspect"].labels == ("soup → positive", "iced tea → negative")
    assert (found.axes["text"].labels, found.axes["text"].text) == (("good", "soup", "bad", "tea"), TEXT)
    torch.testing.assert_close(found.map("pool").weights, torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]))
    assert found.about == {
        "task": "classify", "model": "atae_lstm", "input": TEXT, "output": "soup: positive; iced tea: negative",
    }  # fmt: skip


def test_other_sentences_stand_by_themselves_in_their_order() -> None:
    one, two, other = trace("soup", [1, 0, 0, 0]), trace("tea", [0, 1, 0, 0]), trace("ham", [1, 0], text="nice ham")
    found = merge_aspects([other, one, two, other])
    assert found[0] is other and found[2] is other and len(found[1].axes["aspect"]) == 2
    assert merge_aspects([one]) == [one]


def test_a_network_that_looks_at_the_aspect_too_keeps_its_own_columns() -> None:
    looks = [trace("soup", [0.1, 0.2, 0.3, 0.3, 0.0, 0.1]), trace("tea", [0.4, 0.3, 0.2, 0.1])]
    assert merge_aspects(looks) == looks


def test_traces_with_several_maps_or_without_a_pair_stay_as_they_are() -> None:
    pair = trace("soup", [0.1, 0.2, 0.3, 0.4])
    several = replace(pair, maps=pair.maps * 2)
    single = replace(pair, axes={**pair.axes, "text": replace(pair.axes["text"], special=())})
    for looks in ([several, several], [single, single], [Trace(), Trace()]):
        assert merge_aspects(looks) == looks

"""Generated traces of every kind of source that is not a line of text: a document, a picture, a sound, a graph, a record.

No model looked at any of these: the weights are arithmetic, chosen so that a reader sees what such a trace would say, and
each trace says so in ``about["notes"]``. Legend: T queries, S keys, n width of a state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from saccade.trace.axes import Axis, Frames, Grid, Nodes, Reviews, Sentences, Tokens, Visits
from saccade.trace.maps import AttentionMap, Outputs, Signal, Trace
from tests.web.made_media import HOP, PHRASE, RATE, lake, spectrogram, voice

GENERATED = "Generated to show this view: no model made these numbers."


def sources() -> dict[str, Trace]:
    """Each of them by what a menu calls it."""
    return {
        "a document, generated": document(),
        "a sentence, generated": sentence(),
        "a picture, generated": picture(),
        "a sound, generated": sound(),
        "a graph, generated": graph(),
        "visits, generated": visits(),
        "reviews, generated": reviews(),
    }


def _about(model: str, task: str, read: str, **more: Any) -> dict[str, Any]:
    said = {"task": task, "input": read, "model": model}
    return {**said, "note": GENERATED, "notes": [GENERATED], **more}


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _dense(site: str, query: str, key: str, scores: Tensor, head: int | None = None) -> AttentionMap:
    """A map whose weights are the softmax of its scores [T, S]; a score of −∞ is a key that is not seen."""
    tensors = {"weights": scores.softmax(1).nan_to_num(0.0), "scores": scores}
    return AttentionMap(site, query, key, "dense", tensors, head, keys=scores.shape[1])


# Text -------------------------------------------------------------------------------------------------------------

DOCUMENT = (
    "We came on a rainy Tuesday without a booking.",
    "The waiter found us a table by the window and was kind all evening.",
    "The bread was a little dry.",
    "But the fish soup was wonderful, the best I have eaten in years.",
    "Prices are what you expect near the harbour.",
    "Parking is difficult after six.",
    "We will certainly come back!",
)
TOLD = {
    "kind": 2.6, "dry": 2.4, "wonderful": 3.6, "best": 3.2, "certainly": 2.0, "back": 2.4, "difficult": 2.3, "rainy": 1.2,
    "little": 1.0, "found": 0.8, "years": 0.8, "come": 1.0, "but": 0.9, "soup": 0.8, "bread": 0.6, "fish": 0.5, "!": 1.1,
}  # fmt: skip
SENTENCES = (0.0, 1.3, 0.6, 2.9, -0.2, 0.3, 1.9)


def _words(text: str) -> list[tuple[str, tuple[int, int]]]:
    return [(found.group(), found.span()) for found in re.finditer(r"\w+(?:'\w+)?|[^\w\s]", text)]


def _nested(texts: Sequence[str], parent: str) -> Tokens:
    """The words of several texts, each lying in its own."""
    whole = " ".join(texts)
    starts = [sum(len(text) + 1 for text in texts[:number]) for number in range(len(texts))]
    words = [(number, *word) for number, text in enumerate(texts) for word in _words(text)]
    spans = tuple((starts[number] + start, starts[number] + end) for number, _, (start, end) in words)
    return Tokens(tuple(word for _, word, _ in words), parent, tuple(number for number, *_ in words), whole, spans)


def _word_scores(axis: Tokens, told: Mapping[str, float], seed: int) -> Tensor:
    """For each text a row of scores over all words; words of other texts are not seen."""
    plain = torch.tensor([told.get(word.lower(), 0.0) for word in axis.labels])
    plain += 0.25 * torch.randn(len(axis), generator=_random(seed))
    rows = torch.arange(max(axis.within) + 1)[:, None] == torch.tensor(axis.within)[None]
    return torch.where(rows, plain, -torch.inf)


@cache
def document() -> Trace:
    """Hierarchical attention over a review of a restaurant: words in sentences, sentences in the document."""
    words = _nested(DOCUMENT, "sentence")
    stars = {"4 stars": 0.61, "5 stars": 0.29, "3 stars": 0.07, "2 stars": 0.02, "1 star": 0.01}
    maps = (
        _dense("encoder.words", "sentence", "word", _word_scores(words, TOLD, 1)),
        _dense("encoder.sentences", "label", "sentence", torch.tensor([SENTENCES])),
    )
    axes: dict[str, Axis] = {
        "word": words,
        "sentence": Sentences(DOCUMENT),
        "label": Tokens(("4 stars",), text="4 stars"),
    }
    about = _about("han", "classify", " ".join(DOCUMENT), output="4 stars", score=0.61, probabilities=stars)
    return Trace(axes, maps, about=about)


SENTENCE = "A slow first hour, but the last twenty minutes are among the most moving I have seen."
SAID = {"slow": 2.2, "but": 1.6, "last": 1.0, "most": 1.9, "moving": 3.4, "among": 0.6, "seen": 0.7}


@cache
def sentence() -> Trace:
    """One attention pools a sentence into one vector."""
    found = _words(SENTENCE)
    words = Tokens(tuple(word for word, _ in found), text=SENTENCE, spans=tuple(span for _, span in found))
    scores = torch.tensor([[SAID.get(word.lower(), 0.0) for word in words.labels]])
    scores += 0.25 * torch.randn(1, len(words), generator=_random(2))
    axes = {"text": words, "label": Tokens(("positive",), text="positive")}
    outputs = Outputs("label", (("positive", "negative"),), torch.tensor([[0.91, 0.09]]), torch.tensor([[1, 0]]))
    shares = {"positive": 0.91, "negative": 0.09}
    about = _about("attentive_classifier", "classify", SENTENCE, output="positive", score=0.91, probabilities=shares)
    return Trace(axes, (_dense("pool", "label", "text", scores),), outputs=outputs, about=about)


# Pictures and sounds ----------------------------------------------------------------------------------------------

ROWS, COLUMNS = 12, 16
# The caption, and where in the picture each word lies: (across, down, how wide, how high), none for words of grammar.
CAPTION: tuple[tuple[str, tuple[tuple[float, float, float, float], ...]], ...] = (
    ("a", ((0.30, 0.60, 0.18, 0.18),)),
    ("small", ((0.30, 0.66, 0.10, 0.09),)),
    ("red", ((0.30, 0.695, 0.09, 0.045),)),
    ("boat", ((0.295, 0.58, 0.10, 0.16),)),
    ("on", ((0.30, 0.75, 0.14, 0.06),)),
    ("a", ((0.45, 0.80, 0.30, 0.12),)),
    ("calm", ((0.20, 0.88, 0.18, 0.07), (0.85, 0.85, 0.10, 0.07))),
    ("lake", ((0.50, 0.78, 0.30, 0.11),)),
    ("below", ((0.40, 0.50, 0.28, 0.07),)),
    ("the", ((0.45, 0.42, 0.28, 0.08),)),
    ("mountains", ((0.40, 0.42, 0.13, 0.06), (0.93, 0.45, 0.06, 0.06))),
    ("at", ((0.70, 0.38, 0.16, 0.12),)),
    ("sunset", ((0.70, 0.40, 0.06, 0.075), (0.70, 0.68, 0.04, 0.10))),
    ("<eos>", ((0.50, 0.50, 0.50, 0.40),)),
)
OTHERS = {
    "a": ("the", "one"), "small": ("little", "red"), "red": ("small", "wooden"), "boat": ("ship", "sailboat"),
    "on": ("in", "at"), "calm": ("quiet", "blue"), "lake": ("sea", "water"), "below": ("under", "near"),
    "the": ("a", "high"), "mountains": ("hills", "sky"), "at": ("in", "with"), "sunset": ("dusk", "night"),
    "<eos>": ("with", "and"),
}  # fmt: skip


@cache
def picture() -> Trace:
    """A caption of a picture, word by word, each looking at a grid of patches."""
    y, x = torch.meshgrid((torch.arange(ROWS) + 0.5) / ROWS, (torch.arange(COLUMNS) + 0.5) / COLUMNS, indexing="ij")
    seen = []
    for _, spots in CAPTION:
        near = [torch.exp(-(((x - cx) / wide) ** 2) - ((y - cy) / high) ** 2) for cx, cy, wide, high in spots]
        seen.append(4.8 * torch.stack(near).amax(0).reshape(-1))
    scores = torch.stack(seen) + 0.22 * torch.randn(len(CAPTION), ROWS * COLUMNS, generator=_random(3))
    words = tuple(word for word, _ in CAPTION)
    text = " ".join(words[:-1])
    patches = tuple(f"row {row + 1}, column {column + 1}" for row in range(ROWS) for column in range(COLUMNS))
    axes: dict[str, Axis] = {
        "target": Tokens(words, text=text, special=(len(words) - 1,)),
        "image": Grid(patches, height=ROWS, width=COLUMNS, image=torch.from_numpy(lake())),
    }
    labels = tuple((word, *OTHERS[word]) for word in words)
    return _decode(axes, "image", scores, labels, _about("caption", "caption", "a picture of a lake", output=text))


@cache
def sound() -> Trace:
    """A transcript of speech, letter by letter, each looking at frames of the sound."""
    heard = voice()
    bands = spectrogram(heard)
    middles, letters, segments, time = [], [], [], 0.0
    for phone in PHRASE:
        segments.append((phone.letters, time, time + phone.seconds))
        for number, letter in enumerate(phone.letters):
            letters.append(letter)
            middles.append(time + phone.seconds * (number + 0.5) / len(phone.letters))
        time += phone.seconds
    letters.append("<eos>")
    middles.append(time - 0.05)
    frames = (torch.arange(bands.shape[1]) + 0.5) * HOP
    scores = 4.5 - ((frames[None] - torch.tensor(middles)[:, None]) / 0.035) ** 2 / 2
    scores = scores.clamp(min=-2.0) + 0.3 * torch.randn(scores.shape, generator=_random(4))
    axes: dict[str, Axis] = {
        "target": Tokens(tuple(letters), text="".join(letters[:-1]), special=(len(letters) - 1,)),
        "frame": Frames.of(
            bands.shape[1],
            HOP,
            samples=torch.from_numpy(heard),
            rate=RATE,
            features=torch.from_numpy(bands).T,
            segments=segments,
        ),
    }
    labels = tuple((letter, *[other for other in "etaoi" if other != letter][:2]) for letter in letters)
    about = _about("listener", "transcribe", "two seconds of speech", output="".join(letters[:-1]))
    return _decode(axes, "frame", scores, labels, about)


def _decode(
    axes: Mapping[str, Axis], key: str, scores: Tensor, labels: tuple[tuple[str, ...], ...], about: dict[str, Any]
) -> Trace:
    """What a step-through shows beside the map: states, contexts, likely outputs."""
    T, S = scores.shape
    states = torch.randn(S, 24, generator=_random(S)).tanh()
    map = _dense("decoder.attention", "target", key, scores)
    context = map.weights @ states
    mixing = torch.randn(24, 32, generator=_random(T))
    likely = torch.tensor([3.4, 0.4, 0.0]) + 0.5 * torch.randn(T, 3, generator=_random(T + S))
    signals = {
        "encoder.state": Signal(key, states),
        "decoder.attention.context": Signal("target", context),
        "decoder.state": Signal("target", (2 * context @ mixing).tanh()),
    }
    outputs = Outputs(
        "target", labels, 0.97 * likely.sort(1, descending=True).values.softmax(1), torch.arange(3 * T).reshape(T, 3)
    )
    return Trace(axes, (map,), signals, outputs, about={**about, "scores": {"decoder.attention": "additive"}})


# Graphs -----------------------------------------------------------------------------------------------------------

# Cities, degrees east and north, and how much passes through each
CITIES = {
    "Frankfurt": (8.7, 50.1, 1.9), "Madrid": (-3.7, 40.4, 2.4), "Barcelona": (2.2, 41.4, 1.8), "Bordeaux": (-0.6, 44.8, 0.7),
    "Paris": (2.4, 48.9, 3.2), "Lyon": (4.8, 45.8, 1.2), "Marseille": (5.4, 43.3, 0.9), "London": (-0.1, 51.5, 3.0),
    "Brussels": (4.4, 50.8, 1.5), "Amsterdam": (4.9, 52.4, 1.5), "Cologne": (7.0, 50.9, 1.3), "Lisbon": (-9.1, 38.7, 1.2),
    "Basel": (7.6, 47.6, 0.8), "Zurich": (8.5, 47.4, 1.4), "Milan": (9.2, 45.5, 1.9), "Turin": (7.7, 45.1, 0.6),
    "Rome": (12.5, 41.9, 1.8), "Naples": (14.3, 40.9, 0.8), "Venice": (12.3, 45.4, 0.7), "Munich": (11.6, 48.1, 1.7),
    "Hamburg": (10.0, 53.6, 1.3), "Berlin": (13.4, 52.5, 2.3), "Prague": (14.4, 50.1, 1.2), "Vienna": (16.4, 48.2, 1.8),
    "Budapest": (19.0, 47.5, 1.3), "Warsaw": (21.0, 52.2, 1.4), "Copenhagen": (12.6, 55.7, 0.9), "Zagreb": (16.0, 45.8, 0.6),
}  # fmt: skip
LINES = (
    "Lisbon Madrid Barcelona Marseille Lyon Paris London",
    "Madrid Bordeaux Paris Brussels Amsterdam Hamburg Copenhagen",
    "London Brussels Cologne Frankfurt Munich Vienna Budapest",
    "Lyon Turin Milan Venice Vienna Prague Berlin",
    "Paris Basel Zurich Milan Rome Naples",
    "Hamburg Berlin Warsaw Vienna",
    "Frankfurt Berlin Prague Munich Zurich",
    "Paris Frankfurt Hamburg",
    "Venice Zagreb Budapest Warsaw",
    *("Amsterdam Cologne", "Frankfurt Basel", "Zagreb Vienna", "Venice Rome", "Munich Venice", "Lyon Basel"),
)


@cache
def graph() -> Trace:
    """Graph attention over cities and the railways between them: two layers, of two heads and of one."""
    names = tuple(CITIES)
    pairs = {(names.index(one), names.index(one)) for one in names}
    for line in LINES:
        stops = [names.index(stop) for stop in line.split()]
        pairs |= {pair for a, b in pairwise(stops) for pair in ((a, b), (b, a))}
    edges = torch.tensor(sorted(pairs)).T
    east, north, size = torch.tensor(list(CITIES.values())).T
    # A degree east is shorter than a degree north, and pictures grow downwards.
    places = torch.stack((east * 0.66, -north), 1)
    far = (places[edges[0]] - places[edges[1]]).norm(dim=1)
    tastes = (
        ("layer.0", 0, -0.35 * far),
        ("layer.0", 1, 1.1 * size[edges[1]]),
        ("layer.1", 0, 0.8 * size[edges[1]] - 0.15 * far),
    )
    maps = tuple(
        AttentionMap(
            site, "city", "city", "edges", {"edges": edges, "weights": _over(scores, edges[0])}, head, keys=len(names)
        )
        for site, head, scores in tastes
    )
    about = _about("gat", "graph", "28 cities and the railways between them")
    return Trace({"city": Nodes(names, places=places)}, maps, about=about)


def _over(scores: Tensor, queries: Tensor) -> Tensor:
    """The softmax of scores [E] among the edges of each query."""
    grown = (scores - scores.max()).exp()
    return grown / torch.zeros(int(queries.max()) + 1).index_add(0, queries, grown)[queries]


# Records ----------------------------------------------------------------------------------------------------------

# When, how much it matters, and what was written down with how much each matters
RECORD: tuple[tuple[str, str, float, tuple[tuple[str, float], ...]], ...] = (
    ("2017-03-14", "check-up", -0.6, (("blood pressure 142/88", 1.0), ("weight 84 kg", 0.2))),
    ("2018-03-20", "check-up", -0.4, (("blood pressure 148/91", 1.2), ("HbA1c 6.1 %", 0.8), ("statin begun", 0.5))),
    ("2019-05-02", "clinic", 0.3, (("type 2 diabetes", 2.0), ("HbA1c 7.4 %", 1.4), ("metformin begun", 0.6))),
    ("2019-11-18", "clinic", -0.3, (("HbA1c 6.9 %", 0.9), ("weight 86 kg", 0.3))),
    ("2020-12-09", "emergency", 1.5, (("chest pain", 2.2), ("troponin raised", 2.6), ("ECG: ST depression", 1.9))),
    ("2020-12-15", "ward", 1.1, (("heart attack", 2.4), ("stent", 1.5), ("beta blocker begun", 0.7), ("aspirin begun", 0.4))),
    ("2021-03-03", "clinic", 0.2, (("ejection fraction 45 %", 1.8), ("blood pressure 128/80", 0.2))),
    ("2022-02-22", "clinic", 0.0, (("HbA1c 7.8 %", 1.1), ("creatinine 1.3", 0.9))),
    ("2022-10-30", "emergency", 1.9, (("breathless at rest", 2.0), ("NT-proBNP 2100", 2.7), ("swollen ankles", 1.4))),
    ("2023-01-12", "clinic", 1.4, (("ejection fraction 35 %", 2.6), ("diuretic begun", 1.0), ("weight 91 kg", 0.8))),
)  # fmt: skip


@cache
def visits() -> Trace:
    """A patient's record: attention over visits, and over what was written down at each."""
    codes = tuple(code for *_, written in RECORD for code, _ in written)
    within = tuple(number for number, (*_, written) in enumerate(RECORD) for _ in written)
    inner = torch.tensor([weight for *_, written in RECORD for _, weight in written])
    rows = torch.arange(len(RECORD))[:, None] == torch.tensor(within)[None]
    maps = (
        _dense("encoder.codes", "visit", "code", torch.where(rows, inner, -torch.inf)),
        _dense("encoder.visits", "label", "visit", torch.tensor([[weight for _, _, weight, _ in RECORD]])),
    )
    axes: dict[str, Axis] = {
        "visit": Visits(tuple(place for _, place, *_ in RECORD), times=tuple(time for time, *_ in RECORD)),
        "code": Tokens(codes, "visit", within),
        "label": Tokens(("heart failure",), text="heart failure"),
    }
    shares = {"heart failure": 0.78, "no heart failure": 0.22}
    about = _about(
        "retain", "classify", "ten visits in six years", output="heart failure", score=0.78, probabilities=shares
    )
    return Trace(axes, maps, about=about)


REVIEWS: tuple[tuple[float, float, str], ...] = (
    (5, 0.4, "Arrived quickly and works."),
    (4, 1.3, "Bright and quiet, though the cable is too short for my desk."),
    (2, 2.1, "After three months the hinge broke. The shop replaced it, but it broke again."),
    (5, -0.3, "Nice gift for my sister."),
    (3, 1.0, "Good light, cheap plastic. The hinge feels loose already."),
    (4.5, 0.8, "I read under it every night and my eyes are grateful."),
    (1, 1.6, "Flickers after an hour. Avoid."),
    (5, -0.5, "Five stars."),
)
NOTICED = {
    "hinge": 2.4, "broke": 2.8, "loose": 2.2, "flickers": 3.0, "avoid": 1.8, "quiet": 1.5, "bright": 1.7, "short": 1.6,
    "grateful": 1.8, "good": 1.2, "cheap": 1.6, "works": 1.4, "quickly": 0.9, "nice": 0.8, "light": 0.5, "but": 0.6,
}  # fmt: skip


@cache
def reviews() -> Trace:
    """An item's reviews: attention over reviews and over the words of each, behind a rating that is guessed."""
    texts = tuple(text for *_, text in REVIEWS)
    words = _nested(texts, "review")
    maps = (
        _dense("item.words", "review", "word", _word_scores(words, NOTICED, 5)),
        _dense("item.reviews", "rating", "review", torch.tensor([[weight for _, weight, _ in REVIEWS]])),
    )
    axes: dict[str, Axis] = {
        "review": Reviews(texts, ratings=tuple(rating for rating, *_ in REVIEWS)),
        "word": words,
        "rating": Tokens(("2.9",), text="2.9"),
    }
    about = _about("narre", "rate", "eight reviews of a reading lamp", output="2.9", output_kind="number")
    return Trace(axes, maps, about=about)

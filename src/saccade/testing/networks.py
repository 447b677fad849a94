"""Contracts of networks: encoder–decoders, classifiers, taggers and rankers.

Each contract builds a small network, runs it on one padded batch, and checks what every network of its kind promises:
an item alone gives what it gives in a batch, padding changes nothing, a lens sees the named sites and changes nothing,
gradients reach every parameter, a saved state restores the network.

Legend: B batch, S source positions or sentences, T target or candidate positions, V vocabulary, C labels, K tags,
W words per sentence, L characters per word, F features, d width of a point.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from saccade.nn.classifier import Classifier
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.ranker import Ranker
from saccade.nn.search.beam_search import select
from saccade.nn.tagger import IGNORED, Tagger
from saccade.testing.promises import Promises, demand, drawn, keep, name_of, network_under, numbers, reached, same
from saccade.trace.lens import Lens

CLOSE: Mapping[str, float] = {"rtol": 1e-6, "atol": 1e-8}  # float64, sums in another order
SINGLE: Mapping[str, float] = {"rtol": 1e-5, "atol": 1e-5}  # losses and probabilities, which may be float32
EXACTLY: Mapping[str, float] = {"rtol": 0, "atol": 0}
LENS = "a lens does not change the result, and sees exactly the sites in sites, with weight 0 on padding"
PAD, BOS, EOS = 0, 1, 2
LENGTHS = (7, 3, 5)
B, S = len(LENGTHS), max(LENGTHS)
VOCABULARY = 20
Batch = tuple[Any, ...]


def check_model(network: Any, config: Any = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless an encoder–decoder keeps every promise; return the promises.

    Args:
        network: a class derived from :class:`saccade.nn.EncoderDecoder`, made by ``(config, source_size, target_size)``
            (as ``translate`` does) or by ``(config, width)`` (as ``point`` does); or its name.
        config: what it is made with; ``config_class()`` by default. Small sizes are enough, and quick.

    >>> from saccade.models.rnnsearch import Config, RNNSearch
    >>> len(check_model(RNNSearch, Config(6, 4, 3)))
    12
    """
    __tracebackhide__ = True
    return _check(ModelContract, network, config)


def check_classifier(network: Any, config: Any = None) -> tuple[str, ...]:
    """The same for a class derived from :class:`saccade.nn.Classifier`, made by ``(config, vocabulary, classes)``.

    >>> from saccade.models.attentive_classifier import AttentiveClassifier, Config
    >>> len(check_classifier(AttentiveClassifier, Config(4, hidden=3)))
    9
    """
    __tracebackhide__ = True
    return _check(ClassifierContract, network, config)


def check_tagger(network: Any, config: Any = None) -> tuple[str, ...]:
    """The same for a class derived from :class:`saccade.nn.Tagger`, made by ``(config, vocabulary, labels, characters=0)``.

    >>> from saccade.models.attentive_tagger import AttentiveTagger, Config
    >>> len(check_tagger(AttentiveTagger, Config(4, character_hidden=3, hidden=3)))
    12
    """
    __tracebackhide__ = True
    return _check(TaggerContract, network, config)


def check_ranker(network: Any, config: Any = None) -> tuple[str, ...]:
    """The same for a class derived from :class:`saccade.nn.Ranker`, made by ``(config, vocabulary, features)``.

    >>> from saccade.models.siamese import Config, Siamese
    >>> len(check_ranker(Siamese, Config(4, hidden=3, mlp=5)))
    8
    """
    __tracebackhide__ = True
    return _check(RankerContract, network, config)


def _check(contract: type[NetworkContract], network: Any, config: Any) -> tuple[str, ...]:
    __tracebackhide__ = True
    subject = contract(*network_under(network, contract.base, config))
    return keep(name_of(network), subject, subject.promises)


# What all kinds share -----------------------------------------------------------------------------------------------


class NetworkContract:
    """A class of networks, its config, a padded batch, and the promises that all kinds share."""

    base: ClassVar[type]
    output = "logits"  # what a network returns
    shape: ClassVar[list[int]]
    promises: ClassVar[Promises]

    def __init__(self, kind: Any, config: Any) -> None:
        self.kind, self.config = kind, config

    # Each kind defines these.

    def make(self) -> Any:
        """A new network."""
        raise NotImplementedError

    @cached_property
    def batch(self) -> Batch:
        """The arguments of the network: a padded batch of B items."""
        raise NotImplementedError

    def alone(self, item: int) -> Batch:
        """One item without its padding."""
        raise NotImplementedError

    def repadded(self) -> Batch:
        """The batch with other values in the padding."""
        raise NotImplementedError

    def smaller(self) -> Batch:
        """Another, smaller batch."""
        raise NotImplementedError

    def loss(self, network: Any) -> Tensor:
        """A scalar that depends on every parameter."""
        raise NotImplementedError

    def sizes(self, item: int) -> Mapping[str, int]:
        """The length of each axis of an item's trace, without padding."""
        raise NotImplementedError

    # Shared.

    def build(self, seed: int = 1) -> Any:
        """A network whose parameters depend on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make()

    @cached_property
    def network(self) -> Any:
        """In float64, so that even a tiny leak shows."""
        return self.build().double().eval()

    def predict(self, network: Any, batch: Batch, lens: Lens | None = None) -> Tensor:
        outputs: Tensor = network(*batch) if lens is None else network(*batch, lens=lens)
        return outputs

    @torch.no_grad()
    def has_shape(self) -> None:
        outputs = self.predict(self.network, self.batch)
        demand(list(outputs.shape) == self.shape, f"expected {self.shape}, found {list(outputs.shape)}")
        numbers(outputs, self.output)

    @torch.no_grad()
    def is_alone_as_in_a_batch(self) -> None:
        outputs = self.predict(self.network, self.batch)
        for item in range(B):
            single = self.alone(item)
            found = self.predict(self.network, single)
            within = outputs[item : item + 1][tuple(slice(size) for size in found.shape)]
            name = f"item {item} of {single[0].shape[1]} in a batch of {self.batch[0].shape[1]}"
            same(found, within, name, **CLOSE)

    @torch.no_grad()
    def ignores_padding(self) -> None:
        found = self.predict(self.network, self.repadded())
        same(found, self.predict(self.network, self.batch), "another padding", **CLOSE)

    def is_seen_by_a_lens(self) -> None:
        check_lens(self, self.sizes)

    def has_gradients(self) -> None:
        network = self.build().double().eval()  # in training mode, dropout may cut a parameter off by chance
        self.loss(network).backward()
        idle = getattr(network, "idle", ())
        reached((name, parameter) for name, parameter in network.named_parameters() if name not in idle)

    @torch.no_grad()
    def is_restored(self) -> None:
        other = self.build(seed=7).double().eval()
        other.load_state_dict(self.network.state_dict())
        expected = self.predict(self.network, self.batch)
        same(self.predict(other, self.batch), expected, "a network with the same state_dict", **CLOSE)

    @torch.no_grad()
    def repeats(self) -> None:
        first = self.predict(self.network, self.batch)
        state = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.predict(self.network, self.smaller())
        found = self.predict(self.network, self.batch)
        same(found, first, "the same input again, after another", **EXACTLY)
        for name, tensor in self.network.state_dict().items():
            same(tensor, state[name], f"{name}, which a call changed", **EXACTLY)
        batch = (part.float() if isinstance(part, Tensor) and part.is_floating_point() else part for part in self.batch)
        found = self.predict(self.build().eval(), tuple(batch))
        demand(found.dtype == torch.float32, f"a network in float32 gave {self.output} in {found.dtype}")

    finally_: ClassVar[Promises] = {
        "gradients are finite and reach every parameter": has_gradients,
        "a saved state restores the network": is_restored,
        "in eval mode equal inputs give equal outputs, in the network's own precision": repeats,
    }


@torch.no_grad()
def check_same_under_a_lens(subject: Any) -> None:
    """Raise if a lens changes the outputs."""
    plain = subject.predict(subject.network, subject.batch)
    for lens in (Lens(), Lens("top", k=2), Lens("statistics", detail=["state", "context"])):
        # Kernels that hold no weights round differently.
        same(subject.predict(subject.network, subject.batch, lens), plain, f"under Lens({lens.keep!r})", **CLOSE)


@torch.no_grad()
def check_lens(subject: Any, sizes_of: Callable[[int], Mapping[str, int]]) -> None:
    """Raise unless a lens sees the named sites and changes nothing, and weights are distributions without padding.

    Weights must not be negative, must sum to at most 1 and be 0 on padding. ``sizes_of(item)`` are the lengths of its axes.
    """
    check_same_under_a_lens(subject)
    lens, network = Lens(), subject.network
    subject.predict(network, subject.batch, lens)
    _check_sites(network.sites, lens)
    for item, trace in enumerate(lens.traces if lens.records else ()):
        sizes = sizes_of(item)
        for map in trace.maps:
            demand({map.query, map.key} <= set(sizes), f"{map.site}: axes {map.query} and {map.key}")
            _check_weights(map.site, item, map.weights[: sizes[map.query]], sizes[map.key])


def _check_sites(sites: Any, lens: Lens) -> None:
    named, seen = {site.name for site in sites}, {record.site.name for record in lens.records}
    demand(named == seen, f"sites names {sorted(named)}, the lens saw {sorted(seen)}")


def _check_weights(site: str, item: int, weights: Tensor, keys: int | None) -> None:
    demand((weights >= 0).all(), f"{site}: the least weight is {float(weights.min()):.6g}")
    most = float(weights.sum(-1).max())
    demand(most <= 1 + 1e-6, f"{site}: a row sums to {most:.6g}")
    spent = 0.0 if keys is None else float(weights[:, keys:].sum())
    demand(spent == 0, f"{site}: item {item} has weight {spent:.6g} on padding")


# Encoder–decoders ---------------------------------------------------------------------------------------------------

STEPS, TARGET_SIZE, WIDTH = 5, 13, 2


class ModelContract(NetworkContract):
    """A network that encodes once and writes one token per step."""

    base = EncoderDecoder

    @property
    def points(self) -> bool:
        """Whether it reads points and writes positions of its input."""
        parameters = inspect.signature(self.kind).parameters
        return "width" in parameters and "source_size" not in parameters

    @property
    def shape(self) -> list[int]:  # type: ignore[override]
        return [B, STEPS, S + 1 if self.points else TARGET_SIZE]

    def make(self) -> Any:
        return self.kind(self.config, *((WIDTH,) if self.points else (VOCABULARY, TARGET_SIZE)))

    @cached_property
    def batch(self) -> Batch:
        """source [B, S] or [B, S, d], lengths [B], target [B, T]."""
        generator = torch.Generator().manual_seed(2)
        if self.points:
            target = torch.tensor([[0, 3, 7, 1, 5], [0, 2, 3, 1, 0], [0, 5, 1, 2, 4]])
            return drawn(B, S, WIDTH, seed=2), torch.tensor(LENGTHS), target
        source = torch.randint(3, VOCABULARY, (B, S), generator=generator)
        for row, length in enumerate(LENGTHS):
            source[row, length - 1], source[row, length:] = EOS, PAD
        target = torch.randint(3, TARGET_SIZE, (B, STEPS), generator=generator)
        target[:, 0] = BOS
        return source, torch.tensor(LENGTHS), target

    def alone(self, item: int) -> Batch:
        (source, lengths, target), one = self.batch, slice(item, item + 1)
        return source[one, : LENGTHS[item]], lengths[one], target[one]

    def repadded(self) -> Batch:
        source, lengths, target = self.batch
        other = source.clone()
        for item, length in enumerate(LENGTHS):
            other[item, length:] = 5
        return other, lengths, target

    def smaller(self) -> Batch:
        source, lengths, target = self.batch
        return source[:2, :4], lengths[:2].clamp(max=4), target[:2].clamp(max=4)

    def loss(self, network: Any) -> Tensor:
        following = self.batch[2].roll(-1, dims=1)
        if self.points:  # a pointer may only point at what every item has
            following = following.clamp(max=min(LENGTHS))
        return functional.cross_entropy(network(*self.batch).flatten(0, 1), following.flatten())

    @torch.no_grad()
    def steps_as_taught(self) -> None:
        network, (source, lengths, target) = self.network, self.batch
        taught = network(source, lengths, target)
        memory = network.encode(source, lengths)
        state = network.start(memory)
        for t in range(STEPS):
            row, state = network.step(target[:, t], state, memory, offset=t)
            same(row, taught[:, t], f"step {t}", **CLOSE)

    @torch.no_grad()
    def sees_no_later_token(self) -> None:
        network, (source, lengths, target) = self.network, self.batch
        other = target.clone()
        # Every later token becomes another valid one.
        other[:, 3:] = other[:, 3:] % 3 + 1 if self.points else (other[:, 3:] - 2) % (TARGET_SIZE - 3) + 3
        found, expected = network(source, lengths, other)[:, :3], network(source, lengths, target)[:, :3]
        same(found, expected, "the first 3 steps", **CLOSE)

    @torch.no_grad()
    def can_be_reordered(self) -> None:
        network, (source, lengths, target) = self.network, self.batch
        memory = network.encode(source, lengths)
        rows, again = torch.tensor([2, 0, 0, 1]), torch.tensor([3, 1, 1, 0])
        logits, state = network.step(target[:, 0], network.start(memory), memory, offset=0)
        wide = select(memory, rows)
        spread, moved = network.step(target[rows, 0], network.start(wide), wide, offset=0)
        same(spread, logits[rows], "the first step of rows 2, 0, 0, 1", **CLOSE)
        # A beam's rows move within their item: the memory of rows[again] is that of the same items.
        expected, _ = network.step(target[rows[again], 1], select(state, rows[again]), select(wide, again), offset=1)
        found, _ = network.step(target[rows[again], 1], select(moved, again), select(wide, again), offset=1)
        same(found, expected, "the second step, after the beam was reordered", **CLOSE)
        later, _ = network.step(target[:, 1], state, memory, offset=1)
        same(found, later[rows[again]], "the second step of selected rows", **CLOSE)

    @torch.no_grad()
    def names_its_sites(self) -> None:
        sites = getattr(self.network, "sites", None)
        demand(isinstance(sites, tuple), f"expected sites, a tuple of Site values, found {sites!r}")
        lens = Lens()
        self.network(*self.batch, lens=lens)
        _check_sites(sites, lens)
        for trace in lens.traces if sites else ():
            for map in trace.maps:
                demand(map.queries >= 1, f"{map.site}: the map has no rows")

    @torch.no_grad()
    def has_weights_of_distributions(self) -> None:
        lens = Lens()
        self.network(*self.batch, lens=lens)
        for item, trace in enumerate(lens.traces if lens.records else ()):
            for map in trace.maps:
                real = LENGTHS[item] + map.keys - S  # a pointer also looks at its end mark
                _check_weights(map.site, item, map.weights, real if map.key == "source" else None)

    promises: ClassVar[Promises] = {
        "logits are numbers [batch, steps, vocabulary]": NetworkContract.has_shape,
        "encode, start and step give the same logits as teach": steps_as_taught,
        "an item gives the same result alone and in a padded batch": NetworkContract.is_alone_as_in_a_batch,
        "values in padding do not change the result": NetworkContract.ignores_padding,
        "a step does not depend on later tokens": sees_no_later_token,
        "rows of memory and state can be selected and reordered, as in beam search": can_be_reordered,
        "the lens sees exactly the sites in sites": names_its_sites,
        "weights are not negative, sum to at most 1, and are 0 on padding": has_weights_of_distributions,
        "the result is the same with and without a lens": check_same_under_a_lens,
        **NetworkContract.finally_,
    }


# Classifiers --------------------------------------------------------------------------------------------------------

CLASSES = 4
BETWEEN = (4, 1, 3)  # position of the mark between the two texts of a row
SENTENCES = ((4, 2, 1), (3, 0, 0), (1, 4, 0))  # words per sentence


class ClassifierContract(NetworkContract):
    """A network that assigns a label to a row, to a pair of texts in one row, or to a document of sentences."""

    base, shape = Classifier, [B, CLASSES]

    def make(self) -> Any:
        return self.kind(self.config, VOCABULARY, CLASSES)

    @property
    def nested(self) -> bool:
        """Whether it reads documents as tokens [B, S, W], lengths [B, S] instead of rows."""
        return bool(self.kind.layout == "sentences")

    @cached_property
    def batch(self) -> Batch:
        """Rows: tokens [B, S], lengths [B], segments [B, S], all of them pairs. Documents: no segments."""
        generator = torch.Generator().manual_seed(2)
        if self.nested:
            lengths = torch.tensor(SENTENCES)
            tokens = torch.randint(EOS + 1, VOCABULARY, (*lengths.shape, int(lengths.max())), generator=generator)
            return tokens.masked_fill(_beyond(lengths), PAD), lengths, None
        tokens = torch.randint(EOS + 1, VOCABULARY, (B, S), generator=generator)
        segments = torch.zeros((B, S), dtype=torch.int64)
        for row, (length, mark) in enumerate(zip(LENGTHS, BETWEEN, strict=True)):
            tokens[row, mark], tokens[row, length:] = EOS, PAD
            segments[row, mark + 1 : length] = 1
            if self.kind.layout == "marked":
                tokens[row, 0], tokens[row, length - 1] = BOS, EOS
        return tokens, torch.tensor(LENGTHS), segments

    def alone(self, item: int) -> Batch:
        (tokens, lengths, segments), one = self.batch, slice(item, item + 1)
        if self.nested:
            sentences, words = int((lengths[item] > 0).sum()), int(lengths[item].max())
            return tokens[one, :sentences, :words], lengths[one, :sentences], None
        return tokens[one, : LENGTHS[item]], lengths[one], segments[one, : LENGTHS[item]]

    def repadded(self) -> Batch:
        tokens, lengths, segments = self.batch
        beyond = _beyond(lengths)
        return tokens.masked_fill(beyond, 5), lengths, None if self.nested else segments.masked_fill(beyond, 1)

    def smaller(self) -> Batch:
        tokens, lengths, segments = self.batch
        if self.nested:
            return tokens[:2, :2, :3], lengths[:2, :2].clamp(max=3), None
        return tokens[:2, :3], lengths[:2].clamp(max=3), segments[:2, :3]

    def loss(self, network: Any) -> Tensor:
        return functional.cross_entropy(network(*self.batch), torch.tensor([0, 1, 3]))

    def sizes(self, item: int) -> Mapping[str, int]:
        if not self.nested:
            return {"text": LENGTHS[item], "label": 1}
        lengths = SENTENCES[item]
        return {"text": sum(lengths), "sentences": sum(length > 0 for length in lengths), "label": 1}

    @torch.no_grad()
    def depends_on_words(self) -> None:
        tokens, lengths, segments = self.batch
        place = (slice(None), 0, 0) if self.nested else (slice(None), 2)
        other = tokens.clone()
        other[place] = (other[place] - 2) % (VOCABULARY - 3) + 3
        apart = (self.network(other, lengths, segments) - self.network(*self.batch)).abs().amax(-1)
        demand((apart > 0).all(), "replacing a word changes no logit")

    @torch.no_grad()
    def reads_a_single_text_without_segments(self) -> None:
        tokens, lengths, segments = self.batch
        zeros = None if self.nested else torch.zeros_like(segments)
        without, found = self.network(tokens, lengths), self.network(tokens, lengths, zeros)
        same(without, found, "segments of a single text", **CLOSE)

    promises: ClassVar[Promises] = {
        "logits are numbers [batch, labels]": NetworkContract.has_shape,
        "a row gives the same result alone and in a padded batch": NetworkContract.is_alone_as_in_a_batch,
        "values in padding do not change the result": NetworkContract.ignores_padding,
        "the result depends on the words": depends_on_words,
        "a single text gives the same result with segments of 0 and without segments": reads_a_single_text_without_segments,
        LENS: NetworkContract.is_seen_by_a_lens,
        **NetworkContract.finally_,
    }


def _beyond(lengths: Tensor) -> Tensor:
    """Where the padding is: [..., longest]."""
    return torch.arange(int(lengths.max())) >= lengths.unsqueeze(-1)


# Taggers ------------------------------------------------------------------------------------------------------------

CHARACTERS_PER_WORD, TAGS, CHARACTERS = 4, 4, 11
CERTAIN = 30.0  # an emission beside which others weigh nothing


class TaggerContract(NetworkContract):
    """A network that tags every position; its loss and its predictions use one distribution."""

    base, output, shape = Tagger, "emissions", [B, S, TAGS]

    def make(self) -> Any:
        network = self.kind(self.config, vocabulary=VOCABULARY, labels=TAGS, characters=CHARACTERS)
        if network.crf is not None:  # as if it were trained: initially all transitions are equal
            torch.nn.init.normal_(network.crf.transitions)
        return network

    @cached_property
    def batch(self) -> Batch:
        """tokens [B, S], lengths [B], characters [B, S, L]: rows with the marks of the layout."""
        generator = torch.Generator().manual_seed(2)
        tokens = torch.randint(EOS + 2, VOCABULARY, (B, S), generator=generator)
        characters = torch.randint(1, CHARACTERS, (B, S, CHARACTERS_PER_WORD), generator=generator)
        characters[0, 1, 2:], characters[2, 3, 1:] = 0, 0  # shorter words
        for row, length in enumerate(LENGTHS):
            tokens[row, length:], characters[row, length:] = PAD, 0
            if self.kind.layout == "marked":
                tokens[row, 0], tokens[row, length - 1] = BOS, EOS
        return tokens, torch.tensor(LENGTHS), characters

    @cached_property
    def tags(self) -> Tensor:
        """A tag for some positions [B, S], one row with gaps, −100 elsewhere."""
        tags = torch.randint(0, TAGS, (B, S), generator=torch.Generator().manual_seed(3))
        for row, length in enumerate(LENGTHS):
            tags[row, length:] = IGNORED
        tags[0, 0], tags[0, 3] = IGNORED, IGNORED
        return tags

    @cached_property
    def emissions(self) -> Tensor:
        """Any emissions [B, S, K]."""
        return torch.randn(B, S, TAGS, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def predict(self, network: Any, batch: Batch, lens: Lens | None = None) -> Tensor:
        tokens, lengths, characters = batch
        spelling = characters if network.wants_characters else None
        emissions: Tensor = network(tokens, lengths, characters=spelling, lens=lens)
        return emissions

    def alone(self, item: int) -> Batch:
        (tokens, lengths, characters), length, one = self.batch, LENGTHS[item], slice(item, item + 1)
        return tokens[one, :length], lengths[one], characters[one, :length]

    def repadded(self) -> Batch:
        tokens, lengths, characters = (part.clone() for part in self.batch)
        for item, length in enumerate(LENGTHS):
            tokens[item, length:], characters[item, length:] = 5, 7
        return tokens, lengths, characters

    def smaller(self) -> Batch:
        tokens, lengths, characters = self.batch
        return tokens[:2, :3], lengths[:2].clamp(max=3), characters[:2, :3]

    def loss(self, network: Any) -> Tensor:
        loss: Tensor = network.loss(self.predict(network, self.batch), self.tags, torch.tensor(LENGTHS))
        return loss

    def sizes(self, item: int) -> Mapping[str, int]:
        return {"text": LENGTHS[item]}

    @torch.no_grad()
    def has_shape(self) -> None:
        super().has_shape()
        emissions = self.predict(self.network, self.batch)
        for row, length in enumerate(LENGTHS):
            demand((emissions[row, length:] == 0).all(), f"row {row} of {length} is not 0 beyond its end")

    @torch.no_grad()
    def ignores_padding(self) -> None:
        super().ignores_padding()
        tokens, lengths, characters = self.batch
        wider = torch.cat([characters, torch.zeros_like(characters)], dim=-1)
        found = self.predict(self.network, (tokens, lengths, wider))
        same(found, self.predict(self.network, self.batch), "words in a wider table of characters", **CLOSE)

    @torch.no_grad()
    def depends_on_words(self) -> None:
        tokens, lengths, characters = self.batch
        first = self.predict(self.network, self.batch)
        other = tokens.clone()
        other[:, 1] = (other[:, 1] - 3) % (VOCABULARY - 4) + 4
        apart = (self.predict(self.network, (other, lengths, characters)) - first).abs().amax(-1)
        demand((apart[:, 1] > 0).all(), "replacing a word does not change its emissions")
        demand((apart[:, 0] > 0).all(), "replacing a word does not change the emissions of its neighbours")
        if self.network.wants_characters:
            respelt = characters.clone()
            respelt[:, 1, 0] = respelt[:, 1, 0] % (CHARACTERS - 1) + 1
            apart = (self.predict(self.network, (tokens, lengths, respelt)) - first).abs().amax(-1)
            demand((apart[:, 1] > 0).any(), "other characters change nothing, though the network reads characters")

    @torch.no_grad()
    def predicts_what_it_learns(self) -> None:
        """With one tagged position, the loss is −log of the predicted probability."""
        network, emissions, lengths = self.network, self.emissions, torch.tensor(LENGTHS)
        rows, places, wanted = torch.arange(B), torch.tensor([2, 0, 4]), torch.tensor([3, 0, 1])
        one = torch.full((B, S), IGNORED)
        one[rows, places] = wanted
        _, probabilities = network.decode(emissions, lengths, one != IGNORED)
        expected = -probabilities[rows, places, wanted].log().sum()
        same(expected, network.loss(emissions, one, lengths), "the loss of single tags", **SINGLE)
        _, probabilities = network.decode(emissions, lengths)
        for row, length in enumerate(LENGTHS):
            same(probabilities[row, :length].sum(-1), torch.ones(length), f"probabilities of row {row}", **SINGLE)
            beyond = (probabilities[row, length:] == 0).all()
            demand(beyond, f"row {row} of {length} has probabilities beyond its end")

    @torch.no_grad()
    def predicts_what_is_certain(self) -> None:
        network, tags, lengths = self.network, self.tags, torch.tensor(LENGTHS)
        judged = tags != IGNORED
        emissions = CERTAIN * functional.one_hot(tags.clamp_min(0), TAGS).double()
        found, probabilities = network.decode(emissions, lengths, judged)
        demand((found[judged] == tags[judged]).all(), "it predicts another tag than the one with all the weight")
        silent = (found[~judged] == 0).all() and (probabilities[~judged] == 0).all()
        demand(silent, "it predicts a tag at a position without one")
        loss = float(network.loss(emissions, tags, lengths))
        demand(0 <= loss < 1e-3, f"the loss of a certain and right answer is {loss:.6g}")

    @torch.no_grad()
    def skips_gaps(self) -> None:
        """Row 0 without its gaps is the same row."""
        network, emissions, tags = self.network, self.emissions, self.tags
        judged, length = tags[0] != IGNORED, torch.tensor(LENGTHS[:1])
        count = torch.tensor([int(judged.sum())])
        closed = network.loss(emissions[:1, judged], tags[:1, judged], count)
        same(network.loss(emissions[:1], tags[:1], length), closed, "the loss with gaps", **SINGLE)
        found = network.decode(emissions[:1], length, judged.unsqueeze(0))
        expected = network.decode(emissions[:1, judged], count)
        demand(bool((found[0][0, judged] == expected[0][0]).all()), "the tags with gaps differ")
        same(found[1][0, judged], expected[1][0], "the probabilities with gaps", **SINGLE)

    @torch.no_grad()
    def adds_up_losses(self) -> None:
        network, emissions, tags, lengths = self.network, self.emissions, self.tags, torch.tensor(LENGTHS)
        alone = [
            network.loss(emissions[row : row + 1, :length], tags[row : row + 1, :length], lengths[row : row + 1])
            for row, length in enumerate(LENGTHS)
        ]
        same(network.loss(emissions, tags, lengths), torch.stack(alone).sum(), "the loss of a batch", **SINGLE)

    promises: ClassVar[Promises] = {
        "emissions are numbers [batch, positions, tags], 0 beyond a row's end": has_shape,
        "a row gives the same result alone and in a padded batch": NetworkContract.is_alone_as_in_a_batch,
        "values in padding do not change the result": ignores_padding,
        "the result depends on a word and on its neighbours, and on characters if the network reads them": depends_on_words,
        LENS: NetworkContract.is_seen_by_a_lens,
        "predicted probabilities are those of the training loss": predicts_what_it_learns,
        "a tag with all the weight is predicted, and its loss is 0": predicts_what_is_certain,
        "positions without a tag are skipped by the tag sequence": skips_gaps,
        "the loss of a batch is the sum of the losses of its rows": adds_up_losses,
        **NetworkContract.finally_,
    }


# Rankers ------------------------------------------------------------------------------------------------------------

QUESTIONS, CANDIDATES = (3, 5, 2), (7, 1, 4)  # tokens of each
FEATURES, MARKS = 4, 4


class RankerContract(NetworkContract):
    """A network that scores a candidate for a question."""

    base, output, shape = Ranker, "scores", [B]

    def make(self) -> Any:
        return self.kind(self.config, VOCABULARY, FEATURES)

    @cached_property
    def batch(self) -> Batch:
        """question [B, S], its lengths [B], candidate [B, T], its lengths [B], features [B, F]."""
        generator = torch.Generator().manual_seed(2)
        sides: list[Tensor] = []
        for lengths in (QUESTIONS, CANDIDATES):
            tokens = torch.randint(MARKS, VOCABULARY, (B, max(lengths)), generator=generator)
            sides += [tokens.masked_fill(_beyond(torch.tensor(lengths)), PAD), torch.tensor(lengths)]
        return (*sides, torch.rand(B, FEATURES, generator=generator, dtype=torch.float64))

    def alone(self, item: int) -> Batch:
        (question, asked, candidate, answered, features), one = self.batch, slice(item, item + 1)
        texts = question[one, : QUESTIONS[item]], asked[one], candidate[one, : CANDIDATES[item]], answered[one]
        return (*texts, features[one])

    def repadded(self) -> Batch:
        question, asked, candidate, answered, features = self.batch
        others = question.masked_fill(_beyond(asked), 5), candidate.masked_fill(_beyond(answered), 6)
        return others[0], asked, others[1], answered, features

    def smaller(self) -> Batch:
        return tuple(part[:2] for part in self.batch)

    def loss(self, network: Any) -> Tensor:
        scores: Tensor = network(*self.batch)
        return (scores * torch.tensor([1.0, -2.0, 3.0])).sum()

    def sizes(self, item: int) -> Mapping[str, int]:
        return {"question": QUESTIONS[item], "candidate": CANDIDATES[item], "score": 1}

    @torch.no_grad()
    def depends_on_words(self) -> None:
        scores = self.network(*self.batch)
        for place, name in ((0, "question"), (2, "candidate")):
            other = [part.clone() for part in self.batch]
            other[place][:, 0] = (other[place][:, 0] - 2) % (VOCABULARY - MARKS) + MARKS
            demand((self.network(*other) != scores).all(), f"another word in the {name} changes no score")

    promises: ClassVar[Promises] = {
        "scores are numbers [pairs]": NetworkContract.has_shape,
        "a pair gives the same result alone and in a padded batch": NetworkContract.is_alone_as_in_a_batch,
        "values in padding do not change the result": NetworkContract.ignores_padding,
        "the result depends on the words of both texts": depends_on_words,
        LENS: NetworkContract.is_seen_by_a_lens,
        **NetworkContract.finally_,
    }

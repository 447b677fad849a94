"""What tasks share that write a text about something that is not one: a picture, or a recording.

Legend: B batch, T target, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import Corpus
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.nn.search.beam_search import Hypothesis, Search
from saccade.task import OutputConstraints, Prediction, Scored, Scores, Steers, Surveys, eval_mode
from saccade.tasks.decoding import Decodes, constrained, trace_of
from saccade.tasks.scoring import share
from saccade.tasks.steering import Spelling
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace

TOKENIZER = "tokenizer.json"
WORDS_OF_THE_SOURCE = ("coverage", "unknown")  # settings of a search that ask for words of the source


class Writes(Steers, Scores, Surveys, Decodes):
    """A task that writes a text about a source that has no words.

    Rows of a corpus begin with the number of their record and end with the ids of a text; an item has ``source``, ``notes`` and
    ``wanted``, what its text must hold.
    """

    thing: ClassVar[str]  # the source in messages: "a picture"
    tokenizer: Tokenizer

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        given = {name: getattr(recipe.search, name) for name in WORDS_OF_THE_SOURCE}
        for name, expected in cls.unused_settings(given).items():
            raise InputError("recipe", field=f"search.{name}", expected=expected, found=str(given[name]))

    @classmethod
    def unused_settings(cls, given: Mapping[str, Any]) -> dict[str, str]:
        usual = vars(Search())
        return super().unused_settings(given) | {
            name: f"{usual[name]}: {cls.thing} has no words to cover or to copy"
            for name in WORDS_OF_THE_SOURCE
            if given.get(name, usual[name]) not in (None, usual[name])
        }

    def check_search(self, how: Search) -> None:
        for name, expected in self.unused_settings(vars(how)).items():
            raise SaccadeError(f"search.{name}: expected {expected}")

    @staticmethod
    def tokenizer_in(files: Mapping[str, str]) -> Tokenizer:
        """The tokenizer in the files of a bundle."""
        if TOKENIZER not in files:
            raise InputError(TOKENIZER, expected="a tokenizer in the bundle", found="no such file")
        return Tokenizer.from_json(files[TOKENIZER], TOKENIZER)

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"target": self.tokenizer}

    @property
    def output_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    @cached_property
    def spelling(self) -> Spelling:
        """How outputs are spelt."""
        return Spelling(self.tokenizer)

    def constrain(
        self, items: Sequence[Any], constraints: Sequence[OutputConstraints], dictionary: Mapping[str, str]
    ) -> list[Any]:
        return constrained(self.spelling, items, constraints)

    def source_text(self, record: Any) -> str:
        return str(record.source.name)

    # Rows -------------------------------------------------------------------------------------------------------------

    def first(self, corpus: Corpus, limit: int | None) -> Corpus:
        if limit is None:
            return corpus
        kept = sum(row[0] < limit for row in corpus.rows)  # rows are in the order of records
        return replace(corpus, records=corpus.records[:limit], rows=corpus.rows[:kept], costs=corpus.costs[:kept])

    def unknown_tokens(self, corpus: Corpus) -> list[str]:
        ids = [token for row in corpus.rows for token in row[-1]]
        unknown = ids.count(Tokenizer.UNK)
        return [f"{share('data.train', unknown, len(ids))} and become <unk>"] if unknown else []

    # Hypotheses and probabilities -------------------------------------------------------------------------------------

    def prediction_of(
        self, item: Any, found: Hypothesis, read: list[Record], how: Search, lens: Lens | None
    ) -> Prediction:
        notes = [*item.notes, *item.wanted.notes, *item.wanted.missed(found)]
        if found.stopped == "length":
            notes.append(f"reached {len(found.tokens)} tokens without an end")
        given = dict(item.wanted.given)
        value = self.spelling.written(found.tokens, given) if given else self.tokenizer.decode(found.tokens, "<unk>")
        trace = None
        if lens is not None:
            about = {**self.about, "input": item.source.name, "output": value}
            sites = [record.site for record in (*found.records, *read)]
            seen = {name for site in sites for name in (site.query, site.key)}
            axes = {"target": self.target_axis(found, value), **self.source_axes(item, seen)}
            trace = trace_of(found, read, axes, self.tokenizer.pieces, **about)
        parts = how.parts(found)
        return Prediction(value, found.score, found.log_prob, found.stopped, tuple(notes), trace, parts=parts)

    def target_axis(self, found: Hypothesis, value: str) -> Tokens:
        """The tokens of an output, and its end if it was written."""
        ended = [Tokenizer.EOS] if found.stopped == "eos" else []
        labels = tuple(self.tokenizer.pieces([*found.tokens, *ended]))
        return Tokens(labels, text=value, special=(len(labels) - 1,) if ended else ())

    @abstractmethod
    def source_axes(self, item: Any, names: set[str]) -> dict[str, Axis]:
        """The axes of an item's source, of those with these names."""

    @abstractmethod
    def teach(
        self, network: Any, item: Any, ids: list[int]
    ) -> tuple[Callable[[int, Lens], Float[Tensor, "B T V"]], Tensor]:
        """For the first tokens of an output, so many, the logits of each; and the tokens [T] that they are to predict."""

    def scorer(self, network: Any, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        """The probability of an output, token by token."""
        if output is None:
            prediction = self.predict(network, [given], how=Search())[0]
            output, ended = prediction.value, prediction.stopped != "length"
        ids = self.tokenizer.encode(output)
        length = max(1, len(ids) + ended)
        logits_of, after = self.teach(network, self.read(given, "input 1"), ids)

        @torch.no_grad()
        def score(lens: Lens) -> Scored:
            with eval_mode(network):
                logits = logits_of(length, lens)
            log_probs = -functional.cross_entropy(logits[0].float(), after[:length], reduction="none")
            return Scored(tuple(log_probs.tolist()), lens.trace if lens.records else Trace())

        return score

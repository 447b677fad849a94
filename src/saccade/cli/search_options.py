"""Options of the search, shared by all commands that search, and help that lists options in groups."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand

from saccade.cli.options import Beam, Trust, trained_runs
from saccade.errors import SaccadeError

SEARCH, CONSTRAINTS, SAMPLING, DIVERSITY = "Search", "Constraints", "Sampling", "Diverse beams"
SPEECH = "Speech"
SEARCHED = (
    "beam",
    "length_penalty",
    "coverage",
    "stop",
    "block_ngrams",
    "unknown",
    "ctc",
    "lm",
)  # settings of a search
FOCUS = {"sharpen": "sharpen", "top_frames": "top", "window": "window"}  # option → setting of search.focus


@dataclass(frozen=True)
class SearchOptions:
    """How to search; options that are not given come from the recipe."""

    together: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Another run for an ensemble with RUN; may be repeated.",
            autocompletion=trained_runs,
        ),
    ] = None
    trust: Trust = None
    beam: Beam = None
    length_penalty: Annotated[
        float | None,
        typer.Option(min=0, help="α of the length penalty; above 0 favours longer outputs.", rich_help_panel=SEARCH),
    ] = None
    coverage: Annotated[
        float | None,
        typer.Option(min=0, help="β of the coverage penalty for untranslated source words.", rich_help_panel=SEARCH),
    ] = None
    stop: Annotated[
        Literal["exact", "beam"] | None,
        typer.Option(help="Stop when no better output is possible, or when the beam is full of finished ones.",
                     rich_help_panel=SEARCH),
    ] = None  # fmt: skip
    block_ngrams: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Never repeat N tokens in a row.", rich_help_panel=SEARCH),
    ] = None
    unknown: Annotated[
        Literal["keep", "copy"] | None,
        typer.Option(
            help="Keep <unk> in outputs, or copy the source word with the greatest weight.", rich_help_panel=SEARCH
        ),
    ] = None
    sample: Annotated[
        bool | None,
        typer.Option("--sample/--no-sample", help="Sample outputs instead of searching.", rich_help_panel=SAMPLING),
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(help="Below 1 favours likely tokens, above 1 unlikely ones.", rich_help_panel=SAMPLING),
    ] = None
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Sample from the k likeliest tokens.", rich_help_panel=SAMPLING)
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample from the likeliest tokens with this total probability.", rich_help_panel=SAMPLING),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed of the samples.", rich_help_panel=SAMPLING)] = (
        None
    )
    groups: Annotated[
        int | None, typer.Option(min=1, help="Groups of diverse beam search; 1: off.", rich_help_panel=DIVERSITY)
    ] = None
    diversity: Annotated[
        float | None, typer.Option(min=0, help="λ: strength of the diversity; default 0.5.", rich_help_panel=DIVERSITY)
    ] = None

    ctc: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Weight of CTC's probabilities of prefixes.", rich_help_panel=SPEECH),
    ] = None
    lm: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A language model with the same tokens; its scores are added.",
                     rich_help_panel=SPEECH, autocompletion=trained_runs),
    ] = None  # fmt: skip
    lm_weight: Annotated[
        float | None, typer.Option(help="Weight of the language model; default 0.3.", rich_help_panel=SPEECH)
    ] = None
    sharpen: Annotated[
        float | None,
        typer.Option(help="β: above 1 concentrates the attention on fewer frames.", rich_help_panel=SPEECH),
    ] = None
    top_frames: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Read the K frames with the greatest weights.", rich_help_panel=SPEECH),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(min=1, metavar="W", help="See W frames to each side of the last ones read.",
                     rich_help_panel=SPEECH),
    ] = None  # fmt: skip

    def load(self, run: Path) -> Any:
        """The run's bundle, or the ensemble of all runs named."""
        from saccade.api import load

        return load([run, *self.together] if self.together else run, trust=self.trust or ())

    def search(self, bundle: Any, *, n_best: int = 1, least: int = 1) -> Any:
        """The recipe's search with these options; a beam that is not given holds at least ``least`` hypotheses."""
        start = bundle.recipe.search
        self._check_searched(bundle.task, n_best)
        try:
            sample = self._sampling(start.sample, bundle.task)
            diverse = self._groups(None if sample is not None else start.diverse)
            beam = self.beam
            if beam is None:
                beam = 1 if sample is not None else max(start.beam, n_best, least)
                if sample is None and diverse is not None:
                    beam += -beam % diverse.groups
            changes = {"length_penalty": self.length_penalty, "coverage": self.coverage, "stop": self.stop,
                       "block_ngrams": self.block_ngrams, "unknown": self.unknown, "ctc": self.ctc,
                       "lm": self._language_model(start.lm), "focus": self._focus(start.focus)}  # fmt: skip
            given = {name: value for name, value in changes.items() if value is not None}
            return replace(start, beam=beam, n_best=n_best, sample=sample, diverse=diverse, **given)
        except ValueError as error:
            raise SaccadeError(f"command line: {error}") from None

    def _check_searched(self, task: Any, n_best: int) -> None:
        """Raise on options that the task has no use for."""
        given = {name: getattr(self, name) for name in SEARCHED} | {"n_best": n_best, "sample": self.sample or None}
        focus = next((name for name in FOCUS if getattr(self, name) is not None), None)
        named = {"focus": focus or "focus"}
        for name, expected in task.unused_settings({**given, "focus": focus}).items():
            raise SaccadeError(f"command line: --{named.get(name, name).replace('_', '-')}: expected {expected}")

    def _language_model(self, start: Any) -> Any:
        from saccade.nn.search.fusion import Fusion

        if self.lm is None and self.lm_weight is None:
            return None  # the recipe's
        if self.lm is None and start is None:
            raise SaccadeError("command line: --lm-weight needs --lm RUN")
        given = {"run": None if self.lm is None else str(self.lm.resolve()), "weight": self.lm_weight}
        return replace(start or Fusion("run"), **{name: value for name, value in given.items() if value is not None})

    def _focus(self, start: Any) -> Any:
        from saccade.nn.listener import Focus

        given = {setting: value for name, setting in FOCUS.items() if (value := getattr(self, name)) is not None}
        return replace(start or Focus(), **given) if given else None

    def _sampling(self, start: Any, task: Any) -> Any:
        from saccade.nn.search.beam_search import Sampling

        options = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        given = {name: value for name, value in options.items() if value is not None}
        implied = bool(given) and task.draws  # whose outputs are drawn, whatever is said
        if self.sample is False or (self.sample is None and start is None and not implied):
            if given:
                raise SaccadeError(f"command line: --{next(iter(given)).replace('_', '-')} needs --sample")
            return None
        return replace(start or Sampling(), **given)

    def _groups(self, start: Any) -> Any:
        from saccade.nn.search.beam_search import Diverse

        if self.groups == 1 or (self.groups is None and start is None):
            if self.diversity is not None:
                raise SaccadeError("command line: --diversity needs --groups of 2 or more")
            return None
        given = {"groups": self.groups, "strength": self.diversity}
        return replace(start or Diverse(), **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class Steering(SearchOptions):
    """How to search, and constraints on the output."""

    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Outputs start with this text.", rich_help_panel=CONSTRAINTS)
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS", help="Outputs contain these words; may be repeated.", rich_help_panel=CONSTRAINTS
        ),
    ] = None
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS", help="Outputs do not contain these words; may be repeated.", rich_help_panel=CONSTRAINTS
        ),
    ] = None
    dictionary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Word pairs: translate copied <unk> words by it.", rich_help_panel=CONSTRAINTS
        ),
    ] = None

    def predictor(self, bundle: Any, *, n_best: int = 1, lens: Any = None) -> Callable[[list[Any]], list[Any]]:
        """A function from inputs to the bundle's predictions with these options."""
        from saccade.nn.search.beam_search import WIDE

        how = self.search(bundle, n_best=n_best, least=WIDE if self.require else 1)
        wishes: dict[str, Any] = {"prefix": self.prefix, "require": self.require, "forbid": self.forbid}
        if self.dictionary is not None:
            from saccade.data.pairs.records import read_pairs

            if self.unknown == "keep":
                raise SaccadeError(
                    "command line: --dictionary copies unknown words: it cannot be combined with --unknown keep"
                )
            # The first entry of a word counts.
            wishes["dictionary"] = {pair.source: pair.target for pair in reversed(read_pairs(self.dictionary))}
        return functools.partial(bundle.predict, lens=lens, search=how, **wishes)


def with_options(kind: type[SearchOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of ``kind``, and pass them as its argument ``options``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(kind, include_extras=True)
        own = [part for part in inspect.signature(command, eval_str=True).parameters.values() if part.name != "options"]
        added = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
            for field in fields(kind)
        ]  # fmt: skip

        @functools.wraps(command)
        def run(**given: Any) -> None:
            options = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            command(**given, options=options)

        parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in (*own, *added)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {part.name: part.annotation for part in parameters}
        return run

    return decorate


class GroupedHelp(TyperCommand):
    """A command whose ``--help`` lists its options in the groups they name (``rich_help_panel``)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or plain, []).append(record)
        sections["Options"] = sections.pop("Options")  # the general options come last
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

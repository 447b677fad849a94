"""The settings that every kind of data shares, with their checks, and the one rule for over-long inputs. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from saccade.data.files.lines import Encoding, codec_of
from saccade.data.splits import Overlap
from saccade.errors import InputError, SaccadeError, preview

TooLong = Literal["error", "truncate"]
CUT = "cut to"  # in the note of an input that was too long


@dataclass(frozen=True)
class DataConfig:
    """The fields of a recipe's ``data`` that every kind of data has; a kind adds its own and narrows these.

    Either ``source`` names a data set that the package generates itself (:mod:`saccade.data.toy`), with its settings in the
    field of that name, or ``train``, ``valid`` and ``test`` name files, or hf://OWNER/NAME. $VARIABLES are filled in, and
    relative paths start at the recipe's folder.
    """

    # The fields that name files, beside those of tokens and vectors: an override's relative path starts at the working folder.
    paths: ClassVar[tuple[str, ...]] = ("train", "valid", "test")
    # The fields that may change when a trained network is evaluated: how records are read, not what was learnt from them.
    rereads: ClassVar[tuple[str, ...]] = ("train", "valid", "test", "format", "encoding", "faults", "overlap")
    most_files: ClassVar[float] = 1  # of one split

    source: str | None = None
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    hold_out: float = 0.05  # share of train for valid where valid is not given, then of the rest for test
    format: str | None = None  # needed where a file's suffix does not tell
    encoding: Encoding = "utf-8"
    faults: Literal["error", "drop"] = (
        "error"  # what to do with malformed records; dropped ones are counted and reported
    )
    overlap: Overlap = "keep"  # what to do with sources of valid and test that also occur in train

    def __post_init__(self) -> None:
        """The checks of the shared fields; a kind calls this first."""
        self.check_source()
        codec_of(self.encoding)
        if not 0 < self.hold_out < 0.5:
            raise ValueError(f"hold_out must be above 0 and below 0.5: got {self.hold_out}")

    def check_source(self) -> None:
        """Raise unless there is a generated data set or a training file, and not both."""
        if (self.source is None) == (self.train is None):
            example = next(iter(self.toys()), "NAME")
            raise ValueError(f"source or train must be given, and not both: 'source: {example}' or 'train: FILE'")

    def files(self, split: str) -> str | tuple[str, ...] | None:
        """The files of a split ("train", "valid" or "test"), as the recipe names them."""
        files: str | tuple[str, ...] | None = getattr(self, split)
        return files

    @classmethod
    def toys(cls) -> tuple[str, ...]:
        """The generated data sets that ``source`` may name."""
        options = get_args(get_type_hints(cls)["source"])
        return tuple(name for option in options for name in get_args(option))


def check_least(settings: Any, **least: float) -> None:
    """Raise where a field of ``settings`` is below its least value; a field that is None is not checked."""
    for name, smallest in least.items():
        value = getattr(settings, name)
        if value is not None and value < smallest:
            raise ValueError(f"{name} must be at least {smallest:g}: got {value}")


@dataclass(frozen=True)
class Fitted:
    """Pairs of ids within the limit, and how many sides of how many pairs had to be cut for it."""

    pairs: list[tuple[list[int], list[int]]]
    limit: int
    cut_sources: int
    cut_targets: int
    cut_pairs: int

    def __str__(self) -> str:
        if not self.cut_pairs:
            return f"all {len(self.pairs)} pairs are within {self.limit} tokens"
        return (
            f"{self.cut_pairs} of {len(self.pairs)} pairs cut to {self.limit} tokens "
            f"({self.cut_sources} sources, {self.cut_targets} targets)"
        )


def fit(ids: list[int], limit: int, policy: TooLong, where: str) -> tuple[list[int], bool]:
    """The ids, at most `limit` of them (<bos> and <eos> not counted), and whether any were cut off.

    `where` names the input in the error: "train.tsv: pair 7: source".
    """
    if limit < 1:
        raise SaccadeError(f"data.max_length must be at least 1: got {limit}")
    if policy not in get_args(TooLong):
        raise SaccadeError(f"data.too_long: expected one of {', '.join(get_args(TooLong))}, found {policy!r}")
    if len(ids) <= limit:
        return ids, False
    if policy == "truncate":
        return ids[:limit], True
    hint = f"set data.too_long: truncate, or data.max_length: {len(ids)}"
    raise InputError(where, expected=f"at most {limit} tokens", found=f"{len(ids)}", hint=hint)


def fit_all(
    encoded: Sequence[tuple[list[int], list[int]]], limit: int, policy: TooLong, where: str, sources: Sequence[str] = ()
) -> Fitted:
    """Fit every pair of a corpus, and count the cuts. Pairs are numbered from 1, as lines are, and called by their sources too,
    where those are given."""
    pairs = []
    cut_sources = cut_targets = cut_pairs = 0
    for number, (source, target) in enumerate(encoded, start=1):
        place = f"{where}: pair {number}"
        if sources and policy == "error" and max(len(source), len(target)) > limit:
            place = f"{place} ({preview(sources[number - 1])})"
        source, source_cut = fit(source, limit, policy, f"{place}: source")
        target, target_cut = fit(target, limit, policy, f"{place}: target")
        pairs.append((source, target))
        cut_sources += source_cut
        cut_targets += target_cut
        cut_pairs += source_cut or target_cut
    return Fitted(pairs, limit, cut_sources, cut_targets, cut_pairs)

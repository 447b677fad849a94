"""The tags of a tagger: their order, their counts in the training records, and which may follow which. No torch.

Where tags mark spans, every tag of each type of span is included, whether the training records have it or not: BIOES may be
learnt from BIO files, and a type that occurs only in spans of two words may have a span of three.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from saccade.data.labels.classes import check_counted, described, labels_in
from saccade.data.labels.records import Labelled
from saccade.data.tags.records import Tagged, TaggedData
from saccade.data.tags.schemes import Scheme, converted, may_follow, spans_of, tags_with, types_in
from saccade.documents import Count, checked, parse
from saccade.errors import InputError


@dataclass(frozen=True)
class Tags:
    """The tags of the network's output (``names``, in the scheme ``learn``), their training counts, the file's scheme."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    scheme: Scheme = "none"
    learn: Scheme = "none"

    @classmethod
    def of(cls, records: Sequence[Tagged], data: TaggedData) -> Tags:
        """The tags of these records; ``data.labels`` names all there are, where it is given."""
        learn: Scheme = data.learn or data.scheme
        listed = data.labels or [tag for record in records for tag in record.target]
        if data.scheme != "none":
            types = types_in(listed)
            if not types:
                raise InputError("data.train", expected="at least one span among the tags", found="the tag O alone")
            return cls(tuple(tags_with(types, learn)), (), data.scheme, learn).counted(records)
        names = tuple(data.labels or labels_in(Labelled("", tag) for tag in listed))
        if len(names) < 2:
            raise InputError("data.train", expected="two different tags at least", found=f"the tag {names[0]!r} alone")
        return cls(names, (), data.scheme, learn).counted(records)

    def counted(self, records: Iterable[Tagged]) -> Tags:
        """The same tags, with their counts in these records."""
        counts = Counter(tag for record in records for tag in self.learnt(record.target))
        return replace(self, counts=tuple(counts[name] for name in self.names))

    def learnt(self, tags: Sequence[str]) -> list[str]:
        """The tags of a sentence as the network is taught them."""
        return list(tags) if self.learn == self.scheme else converted(tags, self.learn)

    def in_file_scheme(self, tags: Sequence[str]) -> list[str]:
        """Predicted tags in the file's scheme; invalid sequences are repaired."""
        return converted(tags, self.scheme)

    def numbers(self, tags: Sequence[str], where: str) -> list[int]:
        """The indices of a sentence's tags, as the network is taught them."""
        place, learnt = {name: number for number, name in enumerate(self.names)}, self.learnt(tags)
        unknown = next((tag for tag, taught in zip(tags, learnt, strict=True) if taught not in place), None)
        if unknown is not None:
            spans = self.scheme != "none"
            known, what = (types_in(self.names), "one of the types") if spans else (self.names, "a tag")
            shown = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
            hint = "data.labels can list tags that the training records lack"
            expected = f"{what} of the training records ({shown})"
            raise InputError(where, expected=expected, found=repr(unknown), hint=hint)
        return [place[tag] for tag in learnt]

    @property
    def moves(self) -> NDArray[np.bool_]:
        """Whether a tag may follow another [K + 1, K + 1]; the last row is the start, the last column the end."""
        names: list[str | None] = [*self.names, None]
        return np.array([[may_follow(before, tag, self.learn) for tag in names] for before in names])

    def described(self, records: Sequence[Tagged], *, training: bool) -> str:
        """How often the tags occur in these records, or their spans by type, and which are missing: of training records among
        all there may be, of held-out ones among those of training."""
        names = [name for name, count in zip(self.names, self.counts, strict=True) if training or count]
        if self.scheme == "none":
            found = Counter(tag for record in records for tag in record.target)
            known, what, whole = names, "", sum(found.values())
        else:
            found = Counter(span.type for record in records for span in spans_of(record.target))
            known, what = types_in(names), f"{sum(found.values()):,} spans: "
            whole = sum(len(record.target) for record in records)
        counts = described({name: found[name] for name in sorted(found)})
        absent = [name for name in known if not found[name]]
        missing = f"; none of {', '.join(absent[:8])}{' …' if len(absent) > 8 else ''}" if absent else ""
        return f"{len(records):,} sentences, {whole:,} words; {what}{counts}{missing}"

    def to_json(self) -> str:
        """The file that a bundle keeps."""
        kept = {"tags": self.names, "counts": self.counts, "scheme": self.scheme, "learn": self.learn}
        return json.dumps(kept, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> Tags:
        """Read what :meth:`to_json` wrote; ``where`` names the file in errors."""
        kept = checked(_Stored, parse(text, where), where)
        check_counted(kept.tags, kept.counts, where, "tags")
        return cls(kept.tags, kept.counts, kept.scheme, kept.learn)


@dataclass(frozen=True)
class _Stored:
    tags: tuple[str, ...]
    counts: tuple[Count, ...]
    scheme: Scheme
    learn: Scheme

"""A dataset of the hub is loaded by its name; what goes wrong on the way is one line. A stand-in takes the hub's place."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from saccade.data.pairs.records import Columns, Found, Pair, PairData, header_of, load_splits, read_pairs, scan
from saccade.errors import InputError, SaccadeError


class Rows(list[Any]):
    """What a dataset offers: rows, and the names of its columns."""

    @property
    def column_names(self) -> list[str]:
        return list(self[0]) if self else ["source", "target"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The datasets that there are, by name; ``asked`` keeps what was asked for."""
    shelf: dict[str, Any] = {"asked": []}

    def load_dataset(
        path: str, name: str | None = None, *, split: str, revision: str | None = None, trust_remote_code: bool
    ) -> Any:
        assert not trust_remote_code, "a dataset's own script must not run"
        shelf["asked"].append((path, name, split, revision))
        if path not in shelf:
            raise ConnectionError(f"Couldn't reach '{path}' on the Hub\n(and more)")
        return shelf[path]

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return shelf


def test_a_dataset_is_asked_for_by_its_parts(hub: dict[str, Any]) -> None:
    hub["me/pairs"] = Rows([{"source": "a", "target": "b"}])
    for name in ("hf://me/pairs", "hf://me/pairs/de-en?split=test[:5]", "hf://me/pairs?split=a&revision=v1"):
        assert read_pairs(name) == [Pair("a", "b")]
    # A path on the command line has lost one of its slashes.
    assert read_pairs(Path("hf://me/pairs")) == [Pair("a", "b")]
    assert hub["asked"][:3] == [
        ("me/pairs", None, "train", None), ("me/pairs", "de-en", "test[:5]", None), ("me/pairs", None, "a", "v1"),
    ]  # fmt: skip


def test_columns_may_stand_inside_a_record_or_be_numbers(hub: dict[str, Any]) -> None:
    rows = [{"id": 1, "translation": {"en": "one", "de": "eins"}}, {"id": 2, "translation": {"en": "two", "de": None}}]
    hub["me/nested"] = Rows(rows)
    assert header_of("hf://me/nested") == ["id", "translation.en", "translation.de"]
    found = list(scan("hf://me/nested", columns=Columns("translation.de", "translation.en", "id")))
    assert found[0] == Found(1, Pair("eins", "one"), "1")
    assert str(found[1].error) == "hf://me/nested: row 2: translation.de: expected a string, found null"
    hub["me/flat"] = Rows([{"x": "a", "y": "b"}])
    assert read_pairs("hf://me/flat", source=2, target=1) == [Pair("b", "a")]
    with pytest.raises(InputError, match=r"found the columns 'id', 'translation', 'translation.en'"):
        read_pairs("hf://me/nested")
    with pytest.raises(InputError, match="expected the columns 3 and 1"):
        read_pairs("hf://me/flat", source=3, target=1)


@pytest.mark.parametrize("name", ["hf://imdb", "hf://a/b/c/d", "hf://a//b", "hf://a/b?splits=train", "hf://"])
def test_another_spelling_is_reported_with_the_right_one(hub: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=r"expected hf://OWNER/NAME\[/CONFIGURATION\]\[\?split=train\]"):
        read_pairs(name)
    assert hub["asked"] == []


def test_a_hub_that_cannot_be_reached_is_one_line(hub: dict[str, Any]) -> None:
    with pytest.raises(InputError) as told:
        read_pairs("hf://me/absent")
    said = "hf://me/absent: expected a dataset that can be loaded, found ConnectionError: Couldn't reach 'me/absent'"
    assert str(told.value) == f"{said} on the Hub (and more)"


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SaccadeError, match=r"hub needs .*datasets.*saccade\[hub\]"):
        read_pairs("hf://me/pairs")


def test_a_recipe_names_datasets_as_it_names_files(hub: dict[str, Any], tmp_path: Path) -> None:
    hub["me/pairs"] = Rows([{"de": f"eins {n}", "en": f"one {n}"} for n in range(50)])
    data = PairData(train="hf://me/pairs", columns=Columns("de", "en"))
    splits = load_splits(data, tmp_path, seed=1)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 50
    assert hub["asked"] == [("me/pairs", None, "train", None)]

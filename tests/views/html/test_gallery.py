"""The gallery: what it shows is there, whole, and says whether a model made it."""

from __future__ import annotations

from importlib import resources

import pytest

from saccade.errors import SaccadeError
from saccade.trace.file import same
from saccade.views.html import gallery as shown

PLACE = resources.files("saccade.views.html.gallery")
LARGEST = 600_000  # bytes of all files: every install carries them


@pytest.fixture(scope="module")
def traces():
    return shown.gallery()


def test_every_file_of_the_gallery_is_in_its_menu_and_the_other_way_round() -> None:
    files = {file.name.removesuffix(shown.ENDING) for file in PLACE.iterdir() if file.name.endswith(shown.ENDING)}
    assert files == {*shown.MODELS, *shown.GENERATED}
    assert sum(len(PLACE.joinpath(f"{name}{shown.ENDING}").read_bytes()) for name in files) < LARGEST


def test_what_a_model_looked_at_names_its_recipe_and_what_that_reached(traces) -> None:
    for name, title in shown.MODELS.items():
        about = traces[title].about
        assert about["recipe"] == name
        assert about["metrics"]
        assert "notes" not in about


def test_what_no_model_made_says_so(traces) -> None:
    for title in shown.GENERATED.values():
        assert "generated" in title
        assert any("no model made" in note for note in traces[title].about["notes"])


def test_models_of_the_same_date_looked_at_the_same_source(traces) -> None:
    dates = [traces[title] for name, title in shown.MODELS.items() if name.endswith("_dates")]
    assert len(dates) == 4
    assert len({trace.axes["source"].labels for trace in dates}) == 1
    assert {trace.about["output"] for trace in dates} == {"1998-03-27"}, (
        "the day is not the month, and no digit of either is in the other"
    )


def test_the_beam_and_the_test_of_its_weights_are_in_the_first_example(traces) -> None:
    first = next(iter(traces.values()))
    assert len(first.tree.labels) > len(first.axes["target"])
    assert {"sentence", "figures", "curves"} == first.about["faithfulness"].keys()


def test_a_kept_trace_comes_back_bit_for_bit_and_as_the_same_bytes(traces, tmp_path, monkeypatch) -> None:
    trace = next(iter(traces.values()))
    for name in ("one", "two"):
        shown.keep(trace, tmp_path / f"{name}{shown.ENDING}")
    assert (tmp_path / f"one{shown.ENDING}").read_bytes() == (tmp_path / f"two{shown.ENDING}").read_bytes()
    monkeypatch.setattr(shown.resources, "files", lambda package: tmp_path)
    assert same(shown._read("one"), trace)


def test_the_page_holds_all_of_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("saccade.views.html.page.asset", lambda name: f"/* {name} */")
    page = shown.save(tmp_path / "gallery.html").read_text(encoding="utf-8")
    assert all(title.replace("'", "&#x27;") in page or title in page for title in shown.MODELS.values())
    assert f"<title>{shown.TITLE}</title>" in page


def test_a_file_that_is_gone_is_said_to_be(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shown.resources, "files", lambda package: tmp_path)
    with pytest.raises(SaccadeError, match=r"rnnsearch_dates\.trace\.gz cannot be read"):
        shown.gallery()


def test_a_damaged_file_is_said_to_be(tmp_path, monkeypatch) -> None:
    kept = shown.resources.files("saccade.views.html.gallery").joinpath("rnnsearch_dates.trace.gz").read_bytes()
    (tmp_path / "rnnsearch_dates.trace.gz").write_bytes(kept[:10] + b"\xff" * 7 + kept[17:])
    monkeypatch.setattr(shown.resources, "files", lambda package: tmp_path)
    with pytest.raises(SaccadeError, match=r"rnnsearch_dates\.trace\.gz cannot be read"):
        shown.gallery()

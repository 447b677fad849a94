"""The confusion matrix: rows coloured by shares, counts where there is room, the same bytes for the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.views.charts.confusion import MOST, draw, save

LABELS, COUNTS = ["Cause-Effect(e1,e2)", "<b> $x$ 年", "c"], [[6, 0, 2], [1, 1234, 0], [0, 0, 0]]


def test_a_row_per_true_label_is_coloured_by_its_shares_and_holds_counts() -> None:
    (sheet,) = draw(LABELS, COUNTS, title="trec · test").axes
    mesh = sheet.collections[0].get_array()
    assert np.allclose(mesh, [[0.75, 0, 0.25], [1 / 1235, 1234 / 1235, 0], [0, 0, 0]])
    texts = [text.get_text() for text in sheet.texts]
    assert {"6", "2", "1", "1,234", "true", "predicted", "trec · test"} <= {*texts} and "0" not in texts
    assert texts.count(LABELS[0]) == 2


def test_the_same_numbers_give_the_same_bytes(tmp_path) -> None:
    for name in ("one.png", "two.png", "one.svg", "two.svg"):
        save(LABELS, COUNTS, tmp_path / name)
    for kind in ("png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_of_very_many_labels_the_rarest_are_taken_together() -> None:
    size = MOST + 7
    counts = np.diag(np.arange(size) + 1)
    counts[0, 1] = counts[-1, 2] = 5
    (sheet,) = draw([f"l{number}" for number in range(size)], counts.tolist()).axes
    mesh = sheet.collections[0].get_array()
    assert mesh.shape == (MOST, MOST)
    assert "8 others" in [text.get_text() for text in sheet.texts]
    assert mesh[-1, -1] == 1.0 and mesh[-2, -1] == pytest.approx(5 / (size + 5))


def test_what_is_no_matrix_is_refused(tmp_path) -> None:
    for labels, counts in (([], []), (["a", "b"], [[1, 2]]), (["a", "b"], [[1], [2]])):
        with pytest.raises(SaccadeError, match="a row and a column of counts for each of"):
            draw(labels, counts)
    with pytest.raises(SaccadeError, match=r"expected a picture ending in \.png"):
        save(LABELS, COUNTS, tmp_path / "x.gif")

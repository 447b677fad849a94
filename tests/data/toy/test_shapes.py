"""Drawn scenes: the caption follows from what is drawn, and every noun has its true place."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from saccade.data.toy.shapes import COLOURS, EXAMPLES, RELATIONS, SHAPES, Scene, Shapes, Thing, generate

SMALL = Shapes(train=211, valid=7, test=23)
SCENES = generate(SMALL)["train"]


def seen(scene: Scene) -> list[tuple[str, float, float, float]]:
    """(colour, pixels, middle across, middle down) of each thing, from the pixels of a picture drawn without noise alone."""
    picture = replace(scene, grain=None).draw(211).astype(int)
    found = []
    for colour, shade in COLOURS.items():
        left = np.abs(picture - shade).max(2) <= 2
        while left.any():
            row, column = np.argwhere(left)[0]
            whole, edge = np.zeros_like(left), np.zeros_like(left)
            edge[row, column] = True
            while edge.any():  # all pixels that touch
                whole |= edge
                grown = np.pad(edge, 1)
                edge = grown[:-2, 1:-1] | grown[2:, 1:-1] | grown[1:-1, :-2] | grown[1:-1, 2:]
                edge &= left & ~whole
            rows, columns = np.nonzero(whole)
            across, down = (columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2
            found.append((colour, float(whole.sum()), float(across), float(down)))
            left &= ~whole
    return found


def test_the_caption_follows_from_the_pixels_the_largest_thing_first() -> None:
    for scene in SCENES[:40]:
        things = sorted(seen(scene), key=lambda thing: -thing[1])
        (one, area, across, down), (other, second, others_across, others_down) = things[:2]
        assert area > 1.35 * second and all(second > 1.9 * small for _, small, *_ in things[2:])
        dx, dy = across - others_across, down - others_down
        relation = ("left of", "right of")[dx > 0] if abs(dx) > 2 * abs(dy) else ("above", "below")[dy > 0]
        assert max(abs(dx), abs(dy)) > 2 * min(abs(dx), abs(dy))
        words = scene.caption.split()
        assert (words[1], words[-2], " ".join(words[3:-3])) == (one, other, relation)
        assert scene.captions == (scene.caption,)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
@pytest.mark.parametrize("size", [17, 64, 201])
def test_a_box_holds_its_thing_and_no_pixel_row_or_column_more(number: int, size: int) -> None:
    scene = EXAMPLES[number]
    for index, thing in enumerate(scene.things):
        mask = scene.mask(index, size)
        rows, columns = np.nonzero(mask > 0)
        left, top, right, bottom = (edge * size for edge in thing.box)
        assert rows.min() <= top + 1 and rows.max() >= bottom - 2 and top - 1 <= rows.min() and rows.max() <= bottom
        assert columns.min() <= left + 1 and columns.max() >= right - 2
        assert left - 1 <= columns.min() and columns.max() <= right
        assert mask.max() <= 1 + 1e-5 and mask.shape == (size, size)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_covers_the_area_of_the_circle_of_its_radius_at_every_size(shape: str) -> None:
    scene = Scene((Thing(shape, "red", 0.43, 0.52, 0.19),))
    for size in (23, 64, 301):
        assert scene.mask(0, size).sum() / size**2 == pytest.approx(np.pi * 0.19**2, rel=0.004)


def test_edges_are_smooth_a_pixel_is_covered_by_the_share_of_its_area() -> None:
    side = np.sqrt(np.pi) * 0.2  # of a square with the area of a circle of radius 0.2
    scene = Scene((Thing("square", "blue", 0.5, 0.5, 0.2),))
    mask = scene.mask(0, 10)
    edge = (side * 10 - 2) / 2  # the middle two pixels are covered, and so much of those beside them
    np.testing.assert_allclose(mask[5, 3:7], [edge, 1, 1, edge], atol=0.02)
    np.testing.assert_allclose(mask[3, 3], edge**2, atol=0.02)


def test_colours_are_drawn_as_they_are_and_nothing_lies_outside_the_things() -> None:
    scene = EXAMPLES[0]
    picture = scene.draw()
    assert picture.dtype == np.uint8 and picture.shape == (64, 64, 3)
    covered = sum(scene.mask(index) for index in range(len(scene.things)))
    assert (picture[np.asarray(covered) == 0] == scene.background).all()
    for index, thing in enumerate(scene.things):
        inner = picture[scene.mask(index) > 1 - 1e-5]
        assert len(inner) and np.abs(inner.astype(int) - COLOURS[thing.colour]).max() <= 1


def test_the_two_nouns_differ_and_have_their_places_in_the_order_of_the_caption() -> None:
    for scene in SCENES:
        words = scene.caption.split()
        assert [word for word, _ in scene.places] == [words[2], words[-1]]
        assert words[2] != words[-1]
        for _, (left, top, right, bottom) in scene.places:
            assert 0 < left < right < 1 and 0 < top < bottom < 1


def test_things_do_not_touch_and_distractors_also_have_the_colours_and_shapes_of_the_caption() -> None:
    alike = Counter[str]()
    for scene in SCENES:
        for number, thing in enumerate(scene.things):
            for other in scene.things[:number]:
                a, b = thing.box, other.box
                assert a[0] > b[2] or b[0] > a[2] or a[1] > b[3] or b[1] > a[3]
            if number > 1:
                alike["shape"] += thing.shape in (scene.things[0].shape, scene.things[1].shape)
                alike["colour"] += thing.colour in (scene.things[0].colour, scene.things[1].colour)
    assert min(alike["shape"], alike["colour"]) > 50
    assert {len(scene.things) for scene in SCENES} == {3, 4, 5}


def test_all_shapes_colours_and_relations_occur_about_equally_often() -> None:
    scenes = generate(Shapes(train=1000, valid=1, test=1))["train"]
    relations = Counter(" ".join(scene.caption.split()[3:-3]) for scene in scenes)
    assert set(relations) == set(RELATIONS) and min(relations.values()) > 200
    first = Counter(scene.things[0].shape for scene in scenes)
    assert set(first) == set(SHAPES) and min(first.values()) > 150
    assert set(Counter(scene.things[1].colour for scene in scenes)) == set(COLOURS)
    assert 430 < sum(scene.grain is not None for scene in scenes) < 570


def test_splits_do_not_change_with_the_size_of_another_and_another_seed_draws_others() -> None:
    made = generate(SMALL)
    assert {name: len(part) for name, part in made.items()} == {"train": 211, "valid": 7, "test": 23}
    assert made == generate(SMALL)
    assert generate(replace(SMALL, train=3))["test"] == made["test"] != generate(replace(SMALL, seed=2))["test"]
    assert len({scene for part in made.values() for scene in part}) == 211 + 7 + 23


def test_the_same_scene_has_the_same_pixels_in_another_process() -> None:
    noisy = next(scene for scene in SCENES if scene.grain is not None)
    here = int(noisy.draw().astype(np.int64).ravel() @ np.arange(64 * 64 * 3) % 1_000_003)
    script = (
        "import numpy as np; from saccade.data.toy.shapes import *\n"
        "scenes = generate(Shapes(train=211, valid=1, test=1))['train']\n"
        "noisy = next(scene for scene in scenes if scene.grain is not None)\n"
        "print(noisy.draw().astype(np.int64).ravel() @ np.arange(64 * 64 * 3) % 1_000_003)"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert here == int(there)


def test_noise_changes_the_background_and_leaves_the_things() -> None:
    scene = EXAMPLES[1]
    plain, noisy = replace(scene, grain=None).draw().astype(int), scene.draw().astype(int)
    free = sum(scene.mask(index) for index in range(len(scene.things))) == 0
    assert 3 < (noisy - plain)[free].std() < 20
    assert np.abs(noisy - plain)[scene.mask(0) > 1 - 1e-5].max() <= 1


def test_the_examples_are_such_scenes() -> None:
    assert [scene.caption for scene in EXAMPLES] == [
        "a red circle left of a blue square",
        "a yellow star above a purple triangle",
        "a black cross right of a green circle",
    ]
    for scene in EXAMPLES:
        first, second, *others = scene.things
        assert first.radius**2 > 1.45 * second.radius**2 and all(other.radius < 0.07 for other in others)


@pytest.mark.parametrize("setting", [{"train": 0}, {"size": 15}, {"distractors": 9}, {"noisy": 1.5}])
def test_settings_out_of_range_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        Shapes(**setting)  # type: ignore[arg-type]

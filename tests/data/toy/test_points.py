"""Points are drawn by their seed with the right answer beside them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from saccade.data.points.records import PointData, generate
from saccade.data.toy.points import convex_hull, sorting_order


def turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def inside(point: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    """Whether the point lies in a triangle of others, or between two of them."""
    for a, b in itertools.combinations(others, 2):
        within = min(a[0], b[0]) <= point[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= point[1] <= max(a[1], b[1])
        if turn(a, b, point) == 0 and within:
            return True
    for a, b, c in itertools.combinations(others, 3):
        turns = [turn(a, b, point), turn(b, c, point), turn(c, a, point)]
        if turn(a, b, c) and (min(turns) >= 0 or max(turns) <= 0):
            return True
    return False


@pytest.mark.parametrize("source", ["sorting", "hull"])
def test_the_same_seed_draws_the_same_records_and_another_seed_others(source: Any) -> None:
    data = PointData(source=source, train=7, valid=3, test=5)
    assert generate(data) == generate(data)
    assert generate(data)["test"] != generate(PointData(source=source, train=7, valid=3, test=5, seed=2))["test"]


@pytest.mark.parametrize("source", ["sorting", "hull"])
def test_held_out_records_do_not_change_with_the_size_of_train_and_are_not_in_it(source: Any) -> None:
    small = generate(PointData(source=source, train=3, valid=5, test=7))
    large = generate(PointData(source=source, train=300, valid=5, test=7))
    assert [len(large[name]) for name in ("train", "valid", "test")] == [300, 5, 7]
    assert large["test"] == small["test"]
    assert large["valid"] == small["valid"]
    assert generate(PointData(source=source, test=7), ["test"]) == {"test": small["test"]}
    sources = {name: {record.source for record in records} for name, records in large.items()}
    assert not sources["train"] & (sources["valid"] | sources["test"])


def test_a_held_out_record_that_is_drawn_again_for_training_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.data.toy.points.GRID", 4)  # 12 ordered pairs in all: draws must collide
    made = generate(PointData(source="sorting", train=50, valid=3, test=3, least=2, most=2))
    sources = {name: {record.source for record in records} for name, records in made.items()}
    assert len(made["train"]) == 50
    assert not sources["train"] & (sources["valid"] | sources["test"])
    assert not sources["valid"] & sources["test"]


@pytest.mark.parametrize(("source", "width"), [("sorting", 1), ("hull", 2)])
def test_records_have_from_least_to_most_different_points_of_four_decimals_below_one(source: Any, width: int) -> None:
    records = generate(PointData(source=source, train=200, least=3, most=7), ["train"])["train"]
    assert {len(record.source) for record in records} == {3, 4, 5, 6, 7}
    for record in records:
        assert len(set(record.source)) == len(record.source)
        assert all(len(point) == width for point in record.source)
        assert all(0 <= number < 1 and round(number, 4) == number for point in record.source for number in point)


def test_the_order_of_sorting_puts_numbers_in_ascending_order_each_once() -> None:
    for record in generate(PointData(source="sorting", train=50), ["train"])["train"]:
        chosen = [record.source[position] for position in record.target]
        assert chosen == sorted(record.source)
        assert sorted(record.target) == list(range(len(record.source)))
    assert sorting_order([3, 1, 3, 2, 1]) == (1, 4, 3, 0, 2)  # of equal ones the earlier first


def test_the_hull_is_what_brute_force_finds_counter_clockwise_from_the_lowest_position() -> None:
    rng = random.Random(5)
    for case in range(300):
        side = 5 if case % 2 else 1000  # a small grid: points on edges, in lines, and twice
        points = [(rng.randrange(side), rng.randrange(side)) for _ in range(rng.randint(1, 9))]
        hull = convex_hull(points)
        places = set(points)
        corners = {points.index(place) for place in places if not inside(place, [p for p in places if p != place])}
        assert set(hull) == corners, points
        assert len(hull) == len(corners)
        assert hull[0] == min(hull)
        if len(hull) > 2:
            ring = [points[position] for position in hull]
            assert all(turn(ring[i - 2], ring[i - 1], ring[i]) > 0 for i in range(len(ring))), points


def test_the_hull_of_points_in_a_line_is_its_two_ends() -> None:
    assert convex_hull([(1, 1), (3, 3), (0, 0), (2, 2)]) == (1, 2)
    assert convex_hull([(4, 4), (4, 4)]) == (0,)


def test_a_drawn_hull_answers_the_points_that_are_drawn() -> None:
    for record in generate(PointData(source="hull", train=50), ["train"])["train"]:
        places = [(round(x * 10_000), round(y * 10_000)) for x, y in record.source]
        assert record.target == convex_hull(places)

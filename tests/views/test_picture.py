"""Attention drawn on an image: halos, single patches, boxes, veils."""

import numpy as np
import pytest
import torch

from saccade.views.picture import resampled, seen_at, shrunk, under_veil


def one_hot(rows: int, columns: int, row: int, column: int) -> np.ndarray:
    weights = np.zeros((rows, columns))
    weights[row, column] = 0.8
    return weights


class TestSeen:
    def test_a_halo_is_the_sum_of_the_patches_gaussians(self) -> None:
        weights = np.random.default_rng(3).random((7, 14))
        seen = seen_at(weights, (35, 84))
        deviations = (20 / 224 * 7, 1.25)
        field = np.zeros((35, 84))
        for y in range(35):
            for x in range(84):
                v, u = (y + 0.5) / 35 * 7, (x + 0.5) / 84 * 14
                field[y, x] = sum(
                    weights[i, j]
                    * np.exp(-0.5 * ((v - i - 0.5) / deviations[0]) ** 2 - 0.5 * ((u - j - 0.5) / deviations[1]) ** 2)
                    for i in range(7)
                    for j in range(14)
                )
        assert np.allclose(seen, field * weights.max() / field.max(), atol=1e-12)

    def test_a_halo_is_brightest_in_the_middle_of_its_patch(self) -> None:
        seen = seen_at(one_hot(5, 7, 1, 4), (50, 77))
        assert np.unravel_index(seen.argmax(), seen.shape) in {(14, 49), (15, 49)}
        assert seen.max() == pytest.approx(0.8)

    def test_without_a_halo_a_pixel_has_the_weight_of_its_patch(self) -> None:
        weights = np.arange(6.0).reshape(2, 3)
        seen = seen_at(weights, (4, 9), halo=False)
        assert np.array_equal(seen, weights.repeat(2, 0).repeat(3, 1))

    def test_patches_lie_in_their_box(self) -> None:
        weights = np.ones((2, 3))
        seen = seen_at(weights, (8, 16), (0.25, 0.5, 0.75, 1.0), halo=False)
        assert seen[4:, 4:12].all()
        assert seen.sum() == 4 * 8

    @pytest.mark.parametrize("halo", [True, False])
    def test_of_a_box_beyond_the_image_the_part_on_it_is_drawn(self, halo: bool) -> None:
        """A wide photo with grey above and below: the middle row of patches is the photo."""
        seen = seen_at(one_hot(3, 5, 1, 3), (9, 45), (0.0, -1.0, 1.0, 2.0), halo=halo)
        assert seen[:, 27:36].mean() > 3 * seen[:, :18].mean()
        assert seen.max() == pytest.approx(0.8)

    @pytest.mark.parametrize("halo", [True, False])
    def test_weights_that_are_no_numbers_are_not_looked_at(self, halo: bool) -> None:
        assert not seen_at(np.full((2, 3), np.nan), (5, 7), halo=halo).any()
        assert not seen_at(np.zeros((2, 3)), (5, 7), halo=halo).any()


def test_a_veil_hides_what_was_not_seen_in_its_own_colour() -> None:
    image = np.full((1, 2, 3), 0.5)
    shown = under_veil(image, np.array([[1.0, 0.0]]), (1.0, 0.0, 0.0))
    assert np.allclose(shown[0, 0], 0.5)
    assert np.allclose(shown[0, 1], [0.86 + 0.07, 0.07, 0.07])


def test_an_image_in_fewer_pixels_keeps_its_mean() -> None:
    image = torch.randint(0, 256, (12, 20, 3), dtype=torch.uint8)
    small = resampled(image, 3, 5)
    assert small.shape == (3, 5, 3)
    assert np.allclose(small.mean((0, 1)), image.float().mean((0, 1)).numpy() / 255, atol=1e-6)
    assert resampled(image, 24, 7).shape == (24, 7, 3)


def test_a_shrunk_image_keeps_its_shape_and_a_small_one_its_pixels() -> None:
    image = np.random.default_rng(5).integers(0, 256, (90, 300, 3), dtype=np.uint8)
    assert shrunk(image, 100).shape == (30, 100, 3)
    assert shrunk(image, 300) is image
    assert shrunk(image[:1], 100).shape == (1, 100, 3)

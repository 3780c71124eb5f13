"""The curve behind an AEG: by hand, Borkan et al. (2019) Table 2, a naive area, scikit-learn."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.curves import corners_of

# By hand.


def test_a_subgroup_around_the_background_has_the_area_of_two_triangles():
    curve = corners_of([0.4, 0.6], [0.3, 0.7])
    # Up to 1/2, right to 1, up to 1; then two right-angled triangles of sides 1/2.
    assert {*zip(curve.background_rate, curve.subgroup_rate, strict=True)} == {
        *((0, 0), (0, 1 / 2), (1, 1 / 2), (1, 1)),
    }
    assert curve.unsigned_gap == 2 * (1 / 2 * 1 / 2) / 2


def test_a_score_in_both_is_a_diagonal_segment_which_may_cross_the_diagonal():
    # Triangles of base 1/3 and height 1/2 on either side of the segment (0, 1/3) to (1, 2/3).
    curve = corners_of([0.5], [0.2, 0.5, 0.9])
    assert curve.unsigned_gap == pytest.approx(2 * (1 / 3 * 1 / 2) / 2)


def test_scores_alike_have_no_gap_and_scores_apart_have_the_whole():
    assert corners_of([0.1, 0.5], [0.1, 0.5]).unsigned_gap == 0
    assert corners_of([0.8, 0.9], [0.1, 0.5]).unsigned_gap == 0.5


# Published: Table 2, normal distributions truncated to [0, 1].


def quantiles(mean, deviation, n=4000):
    """Return n scores spread as the truncated normal distribution is: no chance in them."""
    normal = NormalDist(mean, deviation)
    low, high = normal.cdf(0), normal.cdf(1)
    return np.array([normal.inv_cdf(low + (high - low) * (i + 0.5) / n) for i in range(n)])


def test_a_wide_distribution_that_no_auc_sees_has_an_unsigned_gap():
    curve = corners_of(quantiles(0.2, 0.05), quantiles(0.2, 0.1))  # column F
    # Untruncated and twice as wide, it is 1/4 - arctan(1/2) / pi = .1024 exactly.
    untruncated = 0.25 - np.arctan(0.5) / np.pi
    assert curve.unsigned_gap == pytest.approx(untruncated, abs=0.005)


# Oracles.

scores = st.lists(st.integers(-3, 3), min_size=1, max_size=20)


@given(background=scores, subgroup=scores)
def test_corners_lie_on_the_roc_curve_of_membership_and_the_area_is_a_fine_sum(
    background, subgroup
):
    metrics = pytest.importorskip("sklearn.metrics")
    curve = corners_of(background, subgroup)
    members = np.repeat([False, True], [len(background), len(subgroup)])
    x, y, _ = metrics.roc_curve(members, [*background, *subgroup], drop_intermediate=False)
    every = np.round(np.stack((x, y)).T, 12).tolist()
    drawn = np.round(np.stack((curve.background_rate, curve.subgroup_rate)).T, 12).tolist()
    assert all(corner in every for corner in drawn)
    at = (np.arange(2000) + 0.5) / 2000
    start, stop, width = (y - x)[:-1, None], (y - x)[1:, None], np.diff(x)
    area = (np.abs((1 - at) * start + at * stop).mean(axis=1) * width).sum()
    assert curve.unsigned_gap == pytest.approx(area, abs=1e-6)
    flipped = corners_of(subgroup, background)
    assert flipped.unsigned_gap == pytest.approx(curve.unsigned_gap, abs=1e-12)


def test_chance_alone_keeps_the_unsigned_gap_above_0_by_the_documented_amount():
    rng = np.random.default_rng(2)
    found = [corners_of(rng.random(400), rng.random(100)).unsigned_gap for _ in range(200)]
    assert np.mean(found) == pytest.approx(0.31 * np.sqrt(1 / 100 + 1 / 400), rel=0.15)

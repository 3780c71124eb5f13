"""The equality curve: by hand, Borkan et al. (2019) Table 2, naive areas, scikit-learn."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import equality_curve, negative_aeg, positive_aeg
from bias_metrics._core.ranks import place, runs_of
from bias_metrics.thresholds.curves import corners

CLASSES = {"positive": positive_aeg, "negative": negative_aeg}
every_class = pytest.mark.parametrize("of", CLASSES)


def of_one_class(background, subgroup, of):
    """Labels, scores and membership of rows of one class."""
    sizes = [len(background), len(subgroup)]
    labels = np.full(sum(sizes), of == "positive")
    return labels, np.concatenate([background, subgroup]), np.repeat([False, True], sizes)


# By hand.


@every_class
def test_a_subgroup_around_the_background_has_the_areas_of_two_triangles_and_steps(of):
    rows = of_one_class([0.4, 0.6], [0.3, 0.7], of)
    curve = equality_curve(*rows, of=of)
    assert curve.thresholds.tolist() == [0.7, 0.6, 0.4, 0.3]
    # Up to 1/2, right to 1, up to 1: half of the square lies under it.
    assert curve.background_rate.tolist() == [0, 0, 1 / 2, 1, 1]
    assert curve.subgroup_rate.tolist() == [0, 1 / 2, 1 / 2, 1 / 2, 1]
    assert curve.gap.value == 0
    # Two right-angled triangles of sides 1/2.
    assert curve.unsigned_gap.value == 2 * (1 / 2 * 1 / 2) / 2


@every_class
def test_a_score_in_both_is_a_diagonal_segment_which_may_cross_the_diagonal(of):
    # Points (0, 0), (0, 1/2), (1/2, 1/2), ... ; then one segment from (0, 1/3) to (1, 2/3).
    curve = equality_curve(*of_one_class([0.5], [0.2, 0.5, 0.9], of), of=of)
    assert curve.background_rate.tolist() == [0, 0, 1, 1]
    assert curve.subgroup_rate.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert curve.gap.value == pytest.approx(0, abs=1e-15)
    # Triangles of base 1/3 and height 1/2 on either side.
    assert curve.unsigned_gap.value == pytest.approx(2 * (1 / 3 * 1 / 2) / 2)


@every_class
def test_scores_alike_have_no_gap_and_scores_apart_have_the_whole(of):
    alike = equality_curve(*of_one_class([0.1, 0.5], [0.1, 0.5], of), of=of)
    assert (alike.gap.value, alike.unsigned_gap.value) == (0, 0)
    apart = equality_curve(*of_one_class([0.8, 0.9], [0.1, 0.5], of), of=of)
    assert (apart.gap.value, apart.unsigned_gap.value) == (-0.5, 0.5)


# Published: Table 2, normal distributions truncated to [0, 1].


def quantiles(mean, deviation, n=4000):
    """Return n scores spread as the truncated normal distribution is: no chance in them."""
    normal = NormalDist(mean, deviation)
    low, high = normal.cdf(0), normal.cdf(1)
    return np.array([normal.inv_cdf(low + (high - low) * (i + 0.5) / n) for i in range(n)])


def area_by_quadrature(background, subgroup):
    """Integrate abs(share of the subgroup - share of the background) over the background."""
    grid = np.linspace(0, 1, 40001)
    shares = []
    for mean, deviation in (background, subgroup):
        normal = NormalDist(mean, deviation)
        cdf = np.array([normal.cdf(t) for t in grid])
        shares.append((cdf - cdf[0]) / (cdf[-1] - cdf[0]))
    middle = np.abs(shares[0] - shares[1])
    return float(((middle[1:] + middle[:-1]) / 2 * np.diff(shares[0])).sum())


# Column: background and subgroup of one class, and the published population's AEG.
TABLE_2 = {
    "B positives": ((0.6, 0.05), (0.95, 0.05), 0.4999995584),
    "B negatives": ((0.2, 0.05), (0.55, 0.05), 0.4999996284),
    "E positives": ((0.6, 0.05), (0.45, 0.05), -0.4830525732),
    "E negatives": ((0.2, 0.05), (0.35, 0.05), 0.4830520365),
    "F positives": ((0.8, 0.05), (0.8, 0.1), -0.0116242464),
    "F negatives": ((0.2, 0.05), (0.2, 0.1), 0.0116242464),
    "G positives": ((0.7, 0.05), (0.7, 0.2), -0.0356792141),
    "G negatives": ((0.3, 0.05), (0.3, 0.2), 0.0356792141),
}


@pytest.mark.parametrize("column", TABLE_2)
def test_the_gap_of_table_2_is_the_published_one(column):
    background, subgroup, aeg = TABLE_2[column]
    of = column.split()[1].removesuffix("s")
    rows = of_one_class(quantiles(*background), quantiles(*subgroup), of)
    curve = equality_curve(*rows, of=of)
    assert curve.gap.value == pytest.approx(aeg, abs=2e-4)
    expected = area_by_quadrature(background, subgroup)
    assert curve.unsigned_gap.value == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("of", CLASSES)
def test_the_wide_distribution_that_no_auc_sees_has_an_unsigned_gap(of):
    background, subgroup, aeg = TABLE_2[f"F {of}s"]
    rows = of_one_class(quantiles(*background), quantiles(*subgroup), of)
    curve = equality_curve(*rows, of=of)
    assert abs(aeg) < 0.012
    # Untruncated and twice as wide, it is 1/4 - arctan(1/2) / pi = .1024 exactly.
    untruncated = 0.25 - np.arctan(0.5) / np.pi
    assert curve.unsigned_gap.value == pytest.approx(untruncated, abs=0.005)
    assert curve.unsigned_gap.value > 8 * abs(curve.gap.value)


@pytest.mark.parametrize("column", ["B positives", "B negatives", "E positives", "E negatives"])
def test_of_a_plain_shift_both_areas_are_the_same(column):
    background, subgroup, _ = TABLE_2[column]
    rows = of_one_class(quantiles(*background, n=500), quantiles(*subgroup, n=500), "negative")
    curve = equality_curve(*rows)
    assert curve.unsigned_gap.value == pytest.approx(abs(curve.gap.value), abs=1e-3)


# Oracles.


@st.composite
def some_rows(draw):
    row = st.tuples(st.booleans(), st.integers(-3, 3), st.booleans(), st.integers(0, 3))
    columns = np.array(draw(st.lists(row, max_size=40)), dtype=np.int64).reshape(-1, 4).T
    weight = columns[3] / 4 if draw(st.booleans()) else None
    return columns[0].astype(bool), columns[1] / 10, columns[2].astype(bool), weight


@every_class
@given(rows=some_rows())
def test_the_area_under_the_curve_minus_a_half_is_the_aeg(of, rows):
    y_true, y_score, members, weight = rows
    curve = equality_curve(y_true, y_score, members, of=of, sample_weight=weight)
    aeg = CLASSES[of](y_true, y_score, members, sample_weight=weight)
    assert curve.gap.value == (None if aeg.value is None else pytest.approx(aeg.value, abs=1e-12))
    assert curve.gap.reason == (aeg.reason if aeg.value is None else None)


@every_class
def test_the_area_is_the_aeg_of_many_rows_too(of):
    rng = np.random.default_rng(0)
    rows = rng.random(20_000) < 0.3, rng.random(20_000).round(3), rng.random(20_000) < 0.1
    expected = CLASSES[of](*rows).value
    assert equality_curve(*rows, of=of).gap.value == pytest.approx(expected, abs=1e-12)


@every_class
@given(rows=some_rows())
def test_the_unsigned_gap_equals_a_fine_sum_over_the_curve(of, rows):
    y_true, y_score, members, weight = rows
    curve = equality_curve(y_true, y_score, members, of=of, sample_weight=weight)
    if curve.unsigned_gap.value is None:
        assert curve.background_rate.size == curve.thresholds.size == 0
        return
    area, steps = 0.0, 2000
    x, y = curve.background_rate, curve.subgroup_rate
    for i in range(x.size - 1):
        for j in range(steps if x[i + 1] > x[i] else 0):
            at = (j + 0.5) / steps
            difference = (1 - at) * (y[i] - x[i]) + at * (y[i + 1] - x[i + 1])
            area += abs(difference) * (x[i + 1] - x[i]) / steps
    assert curve.unsigned_gap.value == pytest.approx(area, abs=1e-6)
    assert abs(curve.gap.value) <= curve.unsigned_gap.value + 1e-12
    assert curve.unsigned_gap.value <= 0.5


@every_class
@given(rows=some_rows())
def test_flipping_the_mask_turns_the_curve_over_and_keeps_the_unsigned_gap(of, rows):
    y_true, y_score, members, weight = rows
    curve = equality_curve(y_true, y_score, members, of=of, sample_weight=weight)
    flipped = equality_curve(y_true, y_score, ~members, of=of, sample_weight=weight)
    assert flipped.background_rate.tolist() == curve.subgroup_rate.tolist()
    if curve.gap.value is not None:
        assert flipped.gap.value == pytest.approx(-curve.gap.value, abs=1e-12)
        expected = curve.unsigned_gap.value
        assert flipped.unsigned_gap.value == pytest.approx(expected, abs=1e-12)


@every_class
def test_the_curve_is_the_roc_curve_of_membership_by_scikit_learn(of):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    y_true, members = rng.random(2000) < 0.4, rng.random(2000) < 0.2
    y_score = rng.integers(0, 50, 2000) / 50
    curve = equality_curve(y_true, y_score, members, of=of)
    rows = y_true == (of == "positive")
    x, y, thresholds = metrics.roc_curve(members[rows], y_score[rows], drop_intermediate=False)
    np.testing.assert_array_equal(curve.thresholds, thresholds[1:])
    np.testing.assert_allclose(curve.background_rate, x, atol=1e-12)
    np.testing.assert_allclose(curve.subgroup_rate, y, atol=1e-12)
    assert curve.gap.value == pytest.approx(metrics.auc(x, y) - 0.5, abs=1e-12)


def test_chance_alone_keeps_the_unsigned_gap_above_0_by_the_documented_amount():
    rng = np.random.default_rng(2)
    found = [
        equality_curve([0] * 500, rng.random(500), np.arange(500) < 100).unsigned_gap.value
        for _ in range(200)
    ]
    assert np.mean(found) == pytest.approx(0.31 * np.sqrt(1 / 100 + 1 / 400), rel=0.15)


# Undefined, plain values, refusals.


@pytest.mark.parametrize(
    ("y_true", "members", "of", "reason"),
    [
        ([1, 1], [0, 1], "negative", "no background negatives and no subgroup negatives"),
        ([0, 0], [1, 1], "negative", "no background negatives"),
        ([1, 1], [0, 0], "positive", "no subgroup positives"),
    ],
)
def test_without_rows_the_curve_is_empty_and_says_why(y_true, members, of, reason):
    curve = equality_curve(y_true, [0.1, 0.2], members, of=of)
    assert curve.rows() == []
    plain = curve.to_dict()
    assert plain["gap"] == plain["unsigned_gap"] == {"value": None, "reason": reason}
    assert plain["background_rate"] == plain["subgroup_rate"] == plain["thresholds"] == []


def test_an_unknown_class_is_refused():
    with pytest.raises(ValueError, match=r"^`of` must be one of negative, positive; got 'all'.$"):
        equality_curve([0, 1], [0.1, 0.2], [0, 1], of="all")


@every_class
@given(rows=some_rows())
def test_the_corners_alone_have_the_area_of_the_whole_curve(of, rows):
    y_true, y_score, members, _ = rows
    whole = equality_curve(y_true, y_score, members, of=of)
    if whole.unsigned_gap.value is None:
        return
    of_class = y_true == (of == "positive")
    own = runs_of(np.sort(y_score[of_class & members]))
    found = corners(place(np.sort(y_score[of_class & ~members]), own), own)
    assert found.unsigned_gap.value == pytest.approx(whole.unsigned_gap.value, abs=1e-12)
    places = zip(whole.background_rate, whole.subgroup_rate, strict=True)
    drawn = zip(found.background_rate, found.subgroup_rate, strict=True)
    assert {*drawn} <= {*places}

"""What a pass leaves open: by hand, and against draws."""

import functools
import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import compare_bias
from bias_metrics.gate.planning import (
    Counts,
    Guess,
    _spread,
    expected_reaches,
    open_loss,
    paired_reach,
)

Z, WIDER, POWER = 1.644854, 1.959964, 0.841621  # normal quantiles at .95, .975 and .8


def test_of_an_auc_it_is_the_reach_of_the_difference():
    loss = open_loss("bpsn_auc", 0.9, (0.10, 0.2), (7, 30), 0.95, 0.05)
    assert loss.not_excluded == 0.10
    assert loss.visible == pytest.approx(0.10 * (1 + POWER / Z), abs=1e-6)
    assert (loss.scarcer, loss.more) == ("negative", 90)  # 4 x 30 - 30


@pytest.mark.parametrize(
    ("metric", "scarcer"),
    [
        ("subgroup_auc", "positive"),
        ("bpsn_auc", "negative"),
        ("bnsp_auc", "positive"),
        ("positive_aeg", "positive"),
        ("negative_aeg", "negative"),
    ],
)
def test_more_comments_are_of_the_scarcer_class_that_is_compared(metric, scarcer):
    assert open_loss(metric, 0.3, (0.1, 0.1), (20, 200), 0.95, 0.05).scarcer == scarcer


def test_without_a_margin_nothing_is_lacking():
    loss = open_loss("bnsp_auc", 0.9, (0.10, 0.2), (20, 30), 0.95)
    assert (loss.margin, loss.more) == (None, None)
    assert "reason" not in loss.to_dict()


@pytest.mark.parametrize(
    ("value", "reaches", "counts", "given", "reason"),
    [
        (0.9, (0.0, 0.0), (3, 500), None, "fewer than 10 rows"),
        (0.9, None, (30, 500), "clusters are few", "clusters are few"),
        (0.9, None, (30, 500), None, "no interval"),
        (None, None, (0, 500), "no subgroup positives", "no subgroup positives"),
    ],
)
def test_without_a_bound_any_loss_is_left_open_and_it_is_said_why(
    value, reaches, counts, given, reason
):
    loss = open_loss("bnsp_auc", value, reaches, counts, 0.95, 0.05, reason=given)
    assert (loss.not_excluded, loss.visible, loss.more) == (None, None, None)
    assert loss.to_dict()["reason"] == reason
    bounded = open_loss("bnsp_auc", 0.9, (0.4, 0.4), (30, 500), 0.95, 0.05)
    assert loss.order > bounded.order


def test_the_worst_is_the_farthest_beyond_its_margin():
    auc = open_loss("bnsp_auc", 0.9, (0.06, 0.1), (30, 500), 0.95, 0.05)
    gap = open_loss("negative_aeg", 0.4, (0.07, 0.1), (30, 500), 0.95, 0.10)
    free = open_loss("bpsn_auc", 0.9, (0.5, 0.5), (30, 500), 0.95)
    assert max((gap, free, auc), key=lambda one: one.order) is auc


@pytest.mark.parametrize("correlation", [0.8, 0.9])
@pytest.mark.parametrize("gap", [0.0, 0.03, 0.1, -0.2])
def test_the_bound_of_a_gap_and_its_visible_growth_are_those_of_drawn_estimates(gap, correlation):
    """By the definition: a gap is wider if the difference and the sum are on one side of 0."""
    error, n = 0.03, 200_000
    apart, along = (error * math.sqrt(2 * (1 + sign * correlation)) for sign in (-1, 1))
    loss = open_loss("positive_aeg", gap, (Z * apart, Z * error), (90, 900), 0.95)
    rng = np.random.default_rng(3)
    spread = error**2 * np.array([[1, correlation], [correlation, 1]])

    now, before = rng.multivariate_normal([gap, gap], spread, n).T
    sign = np.where(before < 0, -1, 1)
    sure = np.abs(before) > 3 * error
    z = np.where(sure, Z, WIDER)
    same = sign * (now - before) + z * apart
    other = np.minimum(-sign * (now + before) + z * along, -sign * (now - before) + z * apart)
    expected = np.mean(np.maximum(same, other) - 0)
    assert loss.not_excluded == pytest.approx(expected, rel=0.2)

    grown = gap + math.copysign(loss.visible, gap)
    now, before = rng.multivariate_normal([grown, gap], spread, n).T
    change, total = now - before, now + before
    up = (change > Z * apart) & (total > Z * along)
    down = (change < -Z * apart) & (total < -Z * along)
    assert np.mean(up | down) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    ("errors", "farther"),
    [
        (0.0, (WIDER + math.sqrt(2 / math.pi)) / Z),  # either sign may be the rival's
        (2.5, WIDER / Z),  # each sign has half of the error
        (3.01, 1.0),  # more than 3 standard errors from 0 the sign is sure
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bound_of_a_gap_reaches_farther_where_its_sign_is_unsure(errors, farther, sign):
    error, size = 0.03, errors * 0.03
    apart, along = (error * math.sqrt(2 * (1 + of * 0.9)) for of in (-1, 1))
    loss = open_loss("positive_aeg", sign * size, (Z * apart, Z * error), (90, 900), 0.95)
    assert loss.not_excluded == pytest.approx(Z * apart * farther, rel=1e-5)
    # Seen if the difference is shown, and the sum, which is twice the size and what it grows by.
    seen = max((Z + POWER) * apart, (Z + POWER) * along - 2 * size)
    assert loss.visible == pytest.approx(seen, rel=1e-5)


# ------------------------------------------------------------------ drawn comments


N_OWN, N_OUTSIDE, ALIKE = (60, 120), (900, 7000), 0.9


def drawn(rng, distance, loss=0.0):
    """Two models' scores; toxic mentions of the first are lower by `loss`."""
    labels = np.repeat([1, 0, 1, 0], [*N_OWN, *N_OUTSIDE]).astype(bool)
    inside = np.arange(labels.size) < sum(N_OWN)
    common = math.sqrt(ALIKE) * rng.standard_normal(labels.size) + distance * labels
    own = math.sqrt(1 - ALIKE) * rng.standard_normal((2, labels.size))
    first, second = common + own
    return labels, first - loss * (labels & inside), second, {"few": inside}


@pytest.mark.slow
@pytest.mark.parametrize("auc", [0.80, 0.93])
def test_a_visible_loss_is_shown_in_four_of_five_samples_of_comments(auc):
    normal, rng = NormalDist(), np.random.default_rng(4)
    distance = math.sqrt(2) * normal.inv_cdf(auc)
    reaches = []
    for _ in range(200):
        found = compare_bias(*drawn(rng, distance), confidence=0.9).to_dict()
        cell = found["subgroups"]["few"]["bnsp_auc"]
        reaches.append(cell["value"] - cell["low"])
    loss = open_loss("bnsp_auc", auc, (float(np.mean(reaches)), 0.1), N_OWN, 0.95)
    lower = distance - math.sqrt(2) * normal.inv_cdf(auc - loss.visible)
    shown = 0
    for _ in range(400):
        found = compare_bias(*drawn(rng, distance, lower), confidence=0.9).to_dict()
        shown += found["subgroups"]["few"]["bnsp_auc"]["high"] < 0
    assert shown / 400 == pytest.approx(0.8, abs=0.08)


@functools.cache
def compared():
    """Return the metrics of `few` and their changes, of 60 draws at an AUC of .85."""
    rng = np.random.default_rng(5)
    distance = math.sqrt(2) * 1.036433  # the normal quantile at .85
    draws = [compare_bias(*drawn(rng, distance), confidence=0.9) for _ in range(60)]
    return [[one.to_dict()["subgroups"]["few"] for one in (pair.first, pair)] for pair in draws]


@pytest.mark.parametrize("metric", ["subgroup_auc", "bpsn_auc", "bnsp_auc", "negative_aeg"])
def test_a_reach_that_is_planned_is_that_of_drawn_comments(metric):
    both, own, values = [], [], []
    for first, found in compared():
        cell, change = first[metric], found[metric]
        own.append(cell["high"] - cell["low"])
        both.append(change["high"] - change["low"])
        values.append((cell["std_error"], change["std_error"]))
    error, apart = np.mean(values, axis=0)
    correlation = 1 - (apart / error) ** 2 / 2
    down, up = expected_reaches(metric, 0.9, Guess(auc=0.85), Counts(*N_OWN, *N_OUTSIDE))
    assert down + up == pytest.approx(np.mean(own), rel=0.06)
    reach = paired_reach(metric, down, up, correlation)
    assert reach == pytest.approx(np.mean(both) / 2, rel=0.15)


def test_bounds_reach_farther_at_a_low_auc_than_at_a_high_one():
    counts = Counts(50, 50, 10**6, 10**6)
    wide, middle, narrow = (
        paired_reach("bnsp_auc", *expected_reaches("bnsp_auc", 0.9, Guess(auc=auc), counts), 0.8)
        for auc in (0.80, 0.87, 0.95)
    )
    assert wide > middle > narrow


@pytest.mark.parametrize("auc", [0.6, 0.85, 0.99])
def test_the_spread_of_normal_scores_is_that_of_three_normal_draws(auc):
    """Two lower draws are below one upper: two normal variables with a correlation of a half."""
    stats, z = pytest.importorskip("scipy.stats"), NormalDist().inv_cdf(auc)
    both = stats.multivariate_normal.cdf([z, z], cov=[[1, 0.5], [0.5, 1]], abseps=1e-9)
    assert _spread(auc) == pytest.approx(both - auc**2, abs=1e-6)


@pytest.mark.parametrize("auc", [0.0, 1.0])
def test_an_auc_at_its_end_has_no_spread(auc):
    assert _spread(auc) == pytest.approx(0, abs=1e-9)

"""Bounds for every look together: the boundary by numerical integration, and by simulation."""

import math

import numpy as np
import pytest

from bias_metrics import always_valid_confidence
from bias_metrics._core.intervals import quantile
from bias_metrics.sequential.pooled_nights import mixture_quantile

ALPHA = 0.05
NIGHTS = 20


def quantiles(n_rows, planned_rows, confidence=0.9):
    found = (always_valid_confidence(confidence, n, planned_rows=planned_rows) for n in n_rows)
    return np.array([quantile(one) for one in found])


@pytest.mark.parametrize("ratio", [0.2, 1.0, 6.6, 80.0])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.3])
def test_the_quantile_is_where_the_integrated_martingale_reaches_one_over_alpha(alpha, ratio):
    z = mixture_quantile(alpha, ratio)
    # exp(m S - m^2 t / 2) at S = Z sqrt(t), t = ratio and rho = 1, over half-normal m
    m, step = np.linspace(0, 60, 600_001, retstep=True)
    values = np.exp(m * z * math.sqrt(ratio) - m**2 * ratio / 2)
    values *= 2 * np.exp(-(m**2) / 2) / math.sqrt(2 * math.pi)
    integral = step * (values.sum() - values[0] / 2)
    assert integral == pytest.approx(1 / alpha, rel=1e-6)


def test_at_the_planned_rows_the_bounds_are_as_tight_as_they_get():
    aimed = quantiles([1000], 1000)[0]
    others = quantiles(range(100, 5000, 50), 1000)
    assert others.min() == pytest.approx(aimed, rel=2e-3)
    assert others[0] > 1.2 * aimed


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_plan_is_where_the_two_sided_mixture_is_tightest(alpha):
    """Its square, in standard errors, is (1 + 1 / r) log((1 + r) / (2 alpha)^2)."""
    ratio = np.arange(1, 50, 1e-3)
    square = (1 + 1 / ratio) * np.log((1 + ratio) / (2 * alpha) ** 2)
    tightest = float(ratio[square.argmin()])
    for n in (100, 1000, 5000):
        known = mixture_quantile(alpha, tightest * n / 1000)
        assert quantiles([n], 1000, 1 - 2 * alpha)[0] == pytest.approx(known, rel=1e-4)


def test_one_look_at_the_planned_rows_costs_two_thirds_more_than_a_fixed_sample():
    assert quantiles([30_000], 30_000)[0] / quantile(0.9) == pytest.approx(1.68, abs=0.01)


def test_the_plan_matters_little():
    there = quantiles([30_000], 30_000)[0]
    assert quantiles([30_000], 10_000)[0] < 1.03 * there
    assert quantiles([30_000], 90_000)[0] < 1.06 * there


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("planned", [1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 40])
def test_the_errors_of_twenty_equal_nights_add_up_to_less_than_the_stated_one(planned, confidence):
    looks = (
        always_valid_confidence(confidence, night * 500, planned_rows=planned * 500)
        for night in range(1, NIGHTS + 1)
    )
    assert sum((1 - look) / 2 for look in looks) < (1 - confidence) / 2


def test_it_is_wrong_at_any_of_twenty_nights_as_rarely_as_it_says_and_one_look_is_not():
    draws = np.random.default_rng(7).standard_normal((50_000, NIGHTS)).cumsum(axis=1)
    z = draws / np.sqrt(np.arange(1, NIGHTS + 1))
    naive = (z > quantile(0.9)).any(axis=1).mean()
    valid = (z > quantiles(range(1, NIGHTS + 1), 10)).any(axis=1).mean()
    assert naive == pytest.approx(0.216, abs=0.006)
    assert valid == pytest.approx(0.015, abs=0.002)


def test_a_thousand_looks_are_wrong_no_more_often_than_it_says():
    rng = np.random.default_rng(8)
    z = np.zeros(4000)
    wrong = np.zeros(4000, dtype=bool)
    bounds = quantiles(range(1, 1001), 100)
    for night, bound in enumerate(bounds, start=1):
        z += rng.standard_normal(4000)
        wrong |= z / math.sqrt(night) > bound
    assert 0.015 < wrong.mean() < ALPHA


def test_few_rows_of_a_large_plan_get_a_confidence_below_one():
    assert 1 - always_valid_confidence(0.9, 1, planned_rows=10**9) == pytest.approx(1e-12, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.0, 5, 5), "`confidence` must be between 0 and 1"),
        ((0.9, 0, 5), "`n_rows` must be at least 1; got 0"),
        ((0.9, 5, 0), "`planned_rows` must be at least 1; got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, text):
    confidence, n_rows, planned_rows = arguments
    with pytest.raises(ValueError, match=text):
        always_valid_confidence(confidence, n_rows, planned_rows=planned_rows)

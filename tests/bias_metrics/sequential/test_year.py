"""A year of decisions and of a set that is used again, by simulation."""

import math
from statistics import median

import numpy as np
import pytest

from bias_metrics import lord_share, spending_share

nightly = pytest.importorskip("benchmarks._year")
ALPHA = 0.05


def test_levels_of_many_years_are_those_of_each():
    levels = nightly.Levels("share_wrong", 2, 1, nights=9)
    found, promotions = [], []
    for number in range(1, 10):
        found.append(levels.next())
        promoted = np.array([number in {3, 5, 8}, False])
        levels.promote(promoted)
        promotions += [number] if promoted[0] else []
    known = [[one for one in (3, 5, 8) if one < number] for number in range(1, 10)]
    shares = [[lord_share(n, of) for n, of in zip(range(1, 10), known, strict=True)]]
    shares.append([lord_share(n, []) for n in range(1, 10)])
    assert np.allclose(np.transpose(found), ALPHA * np.array(shares), rtol=1e-12)
    assert promotions == [3, 5, 8]
    spent = nightly.Levels("any_wrong", 2, 1, nights=9)
    assert [spent.next() for _ in range(9)] == [ALPHA * spending_share(1, planned=9)] * 9


@pytest.mark.slow
@pytest.mark.parametrize(("a_night", "good"), [(1, 0.0), (1, 0.1), (1, 0.5), (3, 0.1)])
def test_years_with_any_wrong_promotion_are_as_rare_as_stated(a_night, good):
    year = nightly.simulate_year("any_wrong", good, a_night, 1000)
    assert year.any_wrong <= ALPHA + 2.6 * math.sqrt(ALPHA * (1 - ALPHA) / 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("a_night", "good"), [(1, 0.0), (1, 0.1), (1, 0.5), (3, 0.1)])
def test_the_share_of_wrong_promotions_is_at_most_the_stated_one(a_night, good):
    year = nightly.simulate_year("share_wrong", good, a_night, 1000)
    assert year.share_wrong <= ALPHA
    assert year.wrong.sum() <= ALPHA * np.maximum(year.promoted, 1).sum()


@pytest.mark.slow
def test_without_a_correction_a_bad_model_is_promoted_every_twenty_nights():
    year = nightly.simulate_year("none", 0.0, 1, 1000)
    assert year.wrong.mean() == pytest.approx(365 * ALPHA, rel=0.02)
    assert year.any_wrong == 1
    assert nightly.simulate_year("bonferroni", 0.1, 3, 1000).wrong.mean() > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "good", "most"), [("any_wrong", 0.0, 4), ("pooled", 0.0, 4), ("share_wrong", 0.1, 3)]
)
def test_a_better_model_is_promoted_within_a_few_nights(method, good, most):
    assert median(nightly.delays(method, 3.0, good, 1000)) <= most


@pytest.mark.slow
def test_a_set_that_is_used_again_flatters_without_the_guard_and_not_with_it():
    free, _ = nightly.simulate_reuse(nightly.higher, "none", 0.0, 1000)
    ladder, _ = nightly.simulate_reuse(nightly.shown_higher, "none", 0.0, 1000)
    year, gain = nightly.simulate_reuse(nightly.shown_higher, "any_wrong", 0.0, 1000)
    assert free == pytest.approx(365 / math.sqrt(2 * math.pi), rel=0.02)
    assert ladder < 0.3 * free
    assert (year < 0.5, gain) == (True, 0)
    _, kept = nightly.simulate_reuse(nightly.shown_higher, "any_wrong", 0.02, 1000)
    _, most = nightly.simulate_reuse(nightly.higher, "none", 0.02, 1000)
    assert kept > 0.5 * most

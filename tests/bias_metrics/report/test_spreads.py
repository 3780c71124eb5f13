"""Intervals hold where one class is spread more widely than the other, and are not too wide."""

import pytest

spreads = pytest.importorskip("benchmarks._spreads")


def test_a_floor_at_the_truth_rarely_passes_where_few_positives_are_widely_spread():
    found = spreads.cover_spread(spreads.SpreadCase(0.95, 25, 1_000, spread=5.0, replicates=200))
    assert found.passed <= 0.12
    assert found.covered >= 0.9


def test_intervals_are_not_too_wide_where_positives_rank_almost_alike():
    found = spreads.cover_spread(spreads.SpreadCase(0.6, 25, 1_000, spread=0.2, replicates=100))
    assert found.width <= 1.3
    assert found.covered >= 0.88


@pytest.mark.slow
@pytest.mark.parametrize("case", spreads.CASES, ids=str)
def test_intervals_hold_whatever_the_spread_of_the_classes(case):
    assert spreads.cover_spread(case).holds(case.replicates)

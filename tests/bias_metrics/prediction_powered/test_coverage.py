"""Prediction-powered intervals hold, and terms are worth what they should be, by simulation."""

from dataclasses import replace

import pytest

simulated = pytest.importorskip("benchmarks._prediction_powered")
cases = pytest.importorskip("benchmarks.prediction_powered")
pytestmark = pytest.mark.slow
# If the errors of terms depend on the score: the coverage, and the share of false passes.
LEAST, MOST = 0.94, 0.065
FEWER = 10  # the documentation shows the shares of so many times as many samples
GOOD = {"sensitivity": 0.85, "false_positives": 0.01, "replicates": 200}


def fewer(case):
    return replace(case, replicates=case.replicates // FEWER)


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_intervals_cover_the_truth_and_floors_at_the_truth_seldom_pass(case):
    found = simulated.hold(fewer(case))
    assert len(found) == len(simulated.NUMBERS)
    wrong = {name: one for name, one in found.items() if not one.holds}
    if case.dependence:  # as docs/evidence/intervals.md says
        wrong = {name: one for name, one in wrong.items() if not one.within(LEAST, MOST)}
    assert wrong == {}


@pytest.mark.parametrize("case", cases.CLAIMS, ids=str)
def test_a_model_that_is_worse_by_the_margin_is_seldom_shown_not_to_be(case):
    found = simulated.claim(fewer(case), cases.MARGIN)
    assert {name: one for name, one in found.items() if not one.holds} == {}


def test_good_terms_are_worth_twice_as_many_labels():
    found = simulated.hold(simulated.PoweredCase(0.9, 50, **GOOD))
    assert min(one.gain for one in found.values()) > 2


def test_useless_terms_cost_nothing():
    case = simulated.PoweredCase(0.9, 20, 0.1, 0.1, replicates=200)
    found = simulated.hold(case)
    assert all(0.9 < found[name].gain < 1.4 for name in simulated.CELLS)

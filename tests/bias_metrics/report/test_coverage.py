"""Intervals cover the true value as often as they should, by simulation.

The cases are those of docs/evidence/coverage.md; each case has its own seed.
"""

import pytest

pytest.importorskip("sklearn")
simulated = pytest.importorskip("benchmarks._coverage")
cases = pytest.importorskip("benchmarks.coverage")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", cases.CELLS, ids=str)
def test_an_interval_covers_the_true_auc(case):
    found = simulated.cover_cell(case)
    assert found.missing == 0
    assert found.as_demanded, found


@pytest.mark.parametrize("case", cases.FINAL_SCORES, ids=str)
def test_an_interval_covers_the_true_final_score(case):
    found = simulated.cover_final_score(case)
    assert found.missing <= 0.01 * case.replicates
    assert found.as_demanded, found


@pytest.mark.parametrize("case", cases.DIFFERENCES, ids=str)
def test_a_paired_interval_covers_the_true_difference(case):
    found = simulated.cover_difference(case)
    assert found.missing == 0
    assert found.as_demanded, found


@pytest.mark.parametrize("case", cases.CLAIMS, ids=str)
def test_a_model_that_is_worse_by_the_margin_is_seldom_shown_not_to_be(case):
    found = simulated.show_not_worse(case, with_power=False)
    assert found.as_demanded, found

"""Intervals cover the true value as often as they say, by simulation.

The cases are those of docs/coverage.md; a case has the same seed in any company.
"""

import pytest

pytest.importorskip("sklearn")
simulated = pytest.importorskip("benchmarks._coverage")
cases = pytest.importorskip("benchmarks.coverage")
pytestmark = pytest.mark.slow

# What the rules do not reach: 98.5 % covered where 97 % is the most, 6.6 % false claims of 5 %.
MISSED = {(0.99, 500, 5_000, False, 0.9, 0.0), (0.97, 500, 5_000, False, 0.5, 0.02)}


def demanded(of):
    """Each case; those that are known to miss the demand as expected failures."""
    for case in of:
        key = case.auc, case.n_positive, case.n_negative, case.tied, case.correlation, case.drop
        missed = pytest.mark.xfail(reason="docs/coverage.md says by how much", strict=True)
        yield pytest.param(case, marks=[missed] if key in MISSED else [], id=str(case))


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


@pytest.mark.parametrize("case", list(demanded(cases.DIFFERENCES)))
def test_a_paired_interval_covers_the_true_difference(case):
    found = simulated.cover_difference(case)
    assert found.missing == 0
    assert found.as_demanded, found


@pytest.mark.parametrize("case", list(demanded(cases.CLAIMS)))
def test_a_model_that_is_worse_by_the_margin_is_seldom_shown_not_to_be(case):
    found = simulated.show_not_worse(case, with_power=False)
    assert found.as_demanded, found

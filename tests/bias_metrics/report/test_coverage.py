"""Intervals cover the true value as often as they should, by simulation.

The cases are those of docs/evidence/coverage.md; each case has its own seed.
"""

from dataclasses import replace

import pytest

pytest.importorskip("sklearn")
simulated = pytest.importorskip("benchmarks._coverage")
cases = pytest.importorskip("benchmarks.coverage")
clustered = pytest.importorskip("benchmarks._clustered")
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


@pytest.mark.parametrize("case", clustered.CASES, ids=str)
def test_an_interval_of_clustered_rows_covers_the_truth(case):
    for name, found in clustered.cover_clustered(case).items():
        if found.missing > 0.5:  # too few clusters in most samples
            continue
        drawn = (1 - found.missing) * case.replicates
        least = simulated.LEAST - 2 * simulated.monte_carlo_error(simulated.LEAST, drawn)
        assert found.covered >= least, (name, found)


def test_positives_in_few_clusters_are_no_evidence():
    (case,) = (one for one in clustered.CASES if one.few == 10)
    found = clustered.cover_clustered(replace(case, replicates=20))
    assert {name: one.missing for name, one in found.items()} == dict.fromkeys(found, 1.0)

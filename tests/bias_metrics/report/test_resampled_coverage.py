"""Bootstrap intervals cover the true value as often as they should, by simulation."""

import pytest

resampled = pytest.importorskip("benchmarks._resampled")
simulated = pytest.importorskip("benchmarks._coverage")
NEAR_ONE = resampled.ResampledCase(0.99, 50, 200, replicates=150, samples=40)


def test_an_auc_near_one_is_covered():
    assert resampled.cover_resampled(NEAR_ONE).covered >= 0.95


@pytest.mark.parametrize("resample", [resampled.one_model, resampled.two_models])
def test_positives_in_five_clusters_are_no_evidence(resample):
    case = resampled.ResampledCase(0.9, 100, 300, few=5, replicates=20, samples=3)
    assert resampled.cover_resampled(case, resample).missing == 1


@pytest.mark.slow
@pytest.mark.parametrize("resample", [resampled.one_model, resampled.two_models])
@pytest.mark.parametrize("case", resampled.CASES, ids=str)
def test_an_interval_covers_the_truth(case, resample):
    found = resampled.cover_resampled(case, resample)
    assert found.missing == 0
    least = simulated.LEAST - 2 * simulated.monte_carlo_error(simulated.LEAST, case.samples)
    assert found.covered >= least, found

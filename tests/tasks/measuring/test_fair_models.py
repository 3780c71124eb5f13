"""False alarms on fair models: identities are seldom named, for any number of identities."""

import pytest

simulated = pytest.importorskip("benchmarks._fair_models")
DRAWS = 150  # the documentation shows the shares of 1,000


@pytest.mark.evaluates
@pytest.mark.parametrize("n_identities", simulated.SIZES)
def test_a_fair_model_names_somebody_in_few_sets(n_identities):
    assert simulated.simulate_shares(n_identities, DRAWS).is_within_limits()


def test_what_is_promised_can_be_missed():
    found = simulated.Shares(draws=100, named=10)
    assert not found.is_within_limits()
    assert not simulated.Shares(draws=100, first_below=7).is_within_limits()
    assert simulated.Shares(draws=100, named=5, worst_below=3).is_within_limits()

"""How often the gate passes what it should and what it should not, by simulation."""

import pytest

operating = pytest.importorskip("benchmarks._operating")
pytestmark = pytest.mark.slow
DRAWS = 300  # the documentation shows the shares of more


@pytest.mark.parametrize("situation", operating.SITUATIONS, ids=lambda situation: situation.name)
def test_the_gate_passes_as_often_as_it_says(situation):
    rates = operating.simulate_outcomes(situation, DRAWS)
    passes = rates["pass"] / DRAWS
    least, most = situation.passes
    assert passes <= most + operating.get_error_allowance(most, DRAWS)
    assert passes >= least - operating.get_error_allowance(least, DRAWS)
    assert set(rates) <= situation.outcomes_allowed

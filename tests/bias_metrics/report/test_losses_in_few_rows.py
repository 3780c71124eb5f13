"""A loss equal to the margin passes at most at the nominal rate, whichever rows it affects."""

from dataclasses import replace

import pytest

simulated = pytest.importorskip("benchmarks._few_rows")
LOSSES = {f"{one.where} {one}": one for one in simulated.LOSSES}
DRAWS = 400  # the documentation shows the shares of 2,000


@pytest.mark.evaluates
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_the_margin_passes_as_seldom_as_asked(name):
    loss = LOSSES[name]
    assert simulated.is_allowed(loss, simulated.simulate_passes(loss, DRAWS), DRAWS)


@pytest.mark.parametrize("metric", ["bpsn_auc", "bnsp_auc", "fnr_gap"])
def test_an_equal_model_passes_with_enough_rows(metric):
    few = simulated.Loss("none", metric, 20, 0.95, 0.03, 0.025)
    assert simulated.simulate_passes(few, 20) == 0
    assert simulated.simulate_passes(replace(few, n=200), 20) == 1

"""On real comments, a loss of one identity is significant in others, but attributed to it only."""

import numpy as np
import pytest

simulated = pytest.importorskip("benchmarks._whose_harm")


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["muslim BPSN", "muslim BNSP", "white BPSN", "gay BNSP"])
def test_a_planted_harm_is_shown_in_others_and_only_its_identity_is_named(
    plant, real_data, monkeypatch
):
    monkeypatch.setenv("BIASGATE_REAL_DATA", str(real_data))
    # At 95 %, 1 of 20 samples may take a cell of another for its own.
    trials = [
        simulated.LossCounts.from_losses(
            plant, simulated.simulate_losses(plant, "outside_subgroup", np.random.default_rng(seed))
        )
        for seed in range(3)
    ]
    assert all(one.planted >= 1 and one.others >= 1 for one in trials)
    assert sorted(one.own for one in trials)[:2] == [0, 0]

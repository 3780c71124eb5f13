"""On how many nights the alarm is wrong when nothing changes: simulations that could refute it."""

import math

import pytest

from benchmarks._drift import SITUATIONS, alarms, worse

N_SAMPLES = 2000
ALPHA = 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_an_alarm_is_wrong_on_at_most_one_night_in_a_hundred(name):
    most = N_SAMPLES * ALPHA + 3 * math.sqrt(N_SAMPLES * ALPHA * (1 - ALPHA))
    assert max(alarms(SITUATIONS[name], N_SAMPLES)) <= most


@pytest.mark.slow
def test_a_model_that_overrates_one_identity_is_found_on_most_nights():
    of_metrics, of_data = alarms(worse, 300)
    assert of_metrics >= 210
    assert of_data <= 15

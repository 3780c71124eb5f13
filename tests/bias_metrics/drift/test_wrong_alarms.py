"""On how many nights the alarm is wrong when nothing changes: simulations that could refute it."""

import math

import pytest

drift = pytest.importorskip("benchmarks._drift")
pytestmark = pytest.mark.slow
N_SAMPLES = 500  # the documentation shows the shares of 2,000
ALPHA = 0.01


@pytest.mark.parametrize("name", drift.SITUATIONS)
def test_an_alarm_is_wrong_on_at_most_one_night_in_a_hundred(name):
    most = N_SAMPLES * ALPHA + 3 * math.sqrt(N_SAMPLES * ALPHA * (1 - ALPHA))
    assert max(drift.alarms(drift.SITUATIONS[name], N_SAMPLES)) <= most


@pytest.mark.parametrize("name", drift.COUNTABLE)
def test_an_alarm_of_counts_is_wrong_as_rarely(name):
    most = N_SAMPLES * ALPHA + 3 * math.sqrt(N_SAMPLES * ALPHA * (1 - ALPHA))
    assert max(drift.alarms(drift.SITUATIONS[name], N_SAMPLES, counted=True)) <= most


def test_a_model_that_overrates_one_identity_is_found_on_most_nights():
    of_metrics, of_data = drift.alarms(drift.worse, 300)
    assert of_metrics >= 210
    assert of_data <= 15

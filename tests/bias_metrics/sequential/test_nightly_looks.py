"""How often a model that is worse by the margin passes at any of twenty nights, by simulation."""

import os
from statistics import median

import pytest

nightly = pytest.importorskip("benchmarks._nights")
operating = pytest.importorskip("benchmarks._operating")
pytestmark = pytest.mark.slow
DRAWS, STATED = 150, 0.05


@pytest.mark.parametrize("situation", nightly.SITUATIONS, ids=lambda one: one.name)
def test_a_model_worse_by_the_margin_passes_at_any_night_as_rarely_as_stated(situation):
    draws = DRAWS if situation.n_rows < 1000 else 20  # of so many rows each takes seconds
    share = nightly.share_of_passes(situation, 6, draws)
    assert share <= STATED + operating.allowed_error(STATED, draws)


def test_bounds_for_one_look_let_it_pass_four_times_as_often():
    share = nightly.share_of_passes(nightly.SITUATIONS[0], None, DRAWS)
    assert share > 0.15


@pytest.mark.parametrize(("roll_up", "at_most"), [(True, 6), (False, 7)])
def test_an_equal_model_passes_within_a_few_nights_of_five_thousand_rows(
    monkeypatch, real_data, roll_up, at_most
):
    monkeypatch.setitem(os.environ, "BIASGATE_REAL_DATA", str(real_data))
    assert median(nightly.nights_to_pass(6, 5000, 15, roll_up=roll_up)) <= at_most

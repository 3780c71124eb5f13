"""How often intervals of labels by a few raters hold the true value of what they estimate."""

from collections import defaultdict

import numpy as np
import pytest
from support.rated import draw_comments, true_numbers

from bias_metrics import label_noise
from bias_metrics.raters.expected import OVERALL

SAMPLES = 100
# Of 100 samples of an interval that holds at 95 %, three standard errors fewer.
LEAST = 0.885


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "m", "n_clusters"),
    [
        ("logistic", [3], None),
        ("logistic", [10], None),
        ("beta", [3, 3, 10], None),
        ("mixture", [10], None),
        ("mixture", [3], 60),
    ],
)
def test_intervals_hold_the_true_value_of_their_reading(world, m, n_clusters):
    truth = true_numbers(world, m)
    held = defaultdict(list)
    for seed in range(SAMPLES):
        rng = np.random.default_rng(seed)
        fraction, scores, groups, clusters = draw_comments(rng, 1500, world, n_clusters)
        raters = rng.choice(m, fraction.size)
        votes = rng.binomial(raters, fraction) / raters
        found = label_noise(votes, raters, scores, groups, rng=rng, clusters=clusters)
        for name, reading in found.readings.items():
            for key, one in reading.numbers.items():
                if one.value.low is not None:
                    inside = one.value.low <= truth[name][key].value <= one.value.high
                    held[name, key].append(inside)
    often = {which: np.mean(one) for which, one in held.items() if len(one) > SAMPLES / 2}
    assert len(often) >= 25  # too few toxic clusters mention the small subgroup for an interval
    assert min(often.values()) >= LEAST
    for name in ("panel", "expected"):
        mean = np.mean([one for (reading, _), one in often.items() if reading == name])
        assert 0.93 <= mean <= 0.99
    assert np.mean([one for (name, _), one in often.items() if name == "consensus"]) >= 0.95


@pytest.mark.slow
def test_redrawing_labels_from_the_fractions_misses_the_true_value():
    """The mistake that the model of votes is there to avoid."""
    truth = true_numbers("logistic", [3])
    rng = np.random.default_rng(0)
    fraction, scores, groups, _ = draw_comments(rng, 20_000)
    votes = rng.binomial(3, fraction)
    again = rng.binomial(3, votes / 3)
    kept, redrawn = (
        label_noise(one / 3, 3, scores, groups, rng=rng, n_draws=2).panel[OVERALL].value
        for one in (votes, again)
    )
    true = truth["panel"][OVERALL].value
    assert kept.low <= true <= kept.high
    assert redrawn.high < true

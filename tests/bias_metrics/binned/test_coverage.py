"""Coverage of intervals from counts, in simulations with a known truth."""

from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, ScoreCounts

pytestmark = pytest.mark.slow
N_SAMPLES = 1000
LEAST = 0.93
normal_cdf = np.vectorize(NormalDist().cdf)
# Means of the normal scores, whose standard deviation is 1: of the subgroup and of the others.
MEANS = {"own": {"positive": 1.6, "negative": 0.5}, "others": {"positive": 1.9, "negative": 0.0}}
COMPARED = {
    "subgroup_auc": (("own", "positive"), ("own", "negative")),
    "bpsn_auc": (("others", "positive"), ("own", "negative")),
    "bnsp_auc": (("own", "positive"), ("others", "negative")),
}
EDGES = np.array([-np.inf, -0.5, 0.5, 1.5, 2.5, np.inf])
# Rows of the subgroup's classes and of the others', bits of a bin, and whether scores are tied.
CONDITIONS = {
    "skewed scores": ((100, 400, 400, 2000), 12, False),
    "skewed scores in wide bins": ((100, 400, 400, 2000), 1, False),
    "five distinct scores": ((100, 400, 400, 2000), 12, True),
    "a small group": ((15, 40, 400, 2000), 12, False),
    "a small group in wide bins": ((15, 40, 400, 2000), 2, False),
}
PLACES = [("own", "positive"), ("own", "negative"), ("others", "positive"), ("others", "negative")]


def compute_truth(metric, *, tied):
    """Compute P(x > y) + P(x = y) / 2 of two normals, or of the levels between the edges."""
    x, y = (MEANS[side][label] for side, label in COMPARED[metric])
    if not tied:
        return normal_cdf((x - y) / np.sqrt(2))
    of_x, of_y = (np.diff(normal_cdf(EDGES - mean)) for mean in (x, y))
    return of_x @ (np.cumsum(of_y) - of_y / 2)


def draw_scores(rng, sizes, *, tied):
    means = [MEANS[side][label] for side, label in PLACES]
    z = rng.normal(np.repeat(means, sizes), 1)
    score = np.searchsorted(EDGES, z) / 5 if tied else 1 / (1 + np.exp(8 - 3 * z))
    labels = np.repeat([label == "positive" for _, label in PLACES], sizes)
    return Rows(labels, {"gay": np.repeat([side == "own" for side, _ in PLACES], sizes)}), score


@pytest.mark.parametrize("name", CONDITIONS)
def test_intervals_hold_the_truth_in_nearly_all_samples(name):
    sizes, bits, tied = CONDITIONS[name]
    rng = np.random.default_rng(20190513)
    hits = dict.fromkeys(COMPARED, 0)
    for _ in range(N_SAMPLES):
        rows, score = draw_scores(rng, sizes, tied=tied)
        report = ScoreCounts.from_rows(rows, score, shard="all", bits=bits).report()
        for metric in COMPARED:
            cell = getattr(report.subgroups["gay"], metric)
            hits[metric] += cell.low <= compute_truth(metric, tied=tied) <= cell.high
    assert min(hits.values()) >= LEAST * N_SAMPLES, hits

"""Simulated comments whose underlying fractions are known, rated by a few raters each."""

from __future__ import annotations

import numpy as np

from bias_metrics import evaluate_bias
from bias_metrics.raters.expected import (
    SortedRows,
    expected_report,
    pairs_of,
    rater_variances,
)
from bias_metrics.raters.results import numbers_of
from bias_metrics.report.steps import Options
from bias_metrics.rows import Rows

WORLDS = ("logistic", "beta", "mixture")


def draw_comments(rng, n, world="logistic", n_clusters=None, small=0.04):
    """Return underlying fractions, scores, subgroups and clusters of n comments.

    Three ways in which fractions hang together with scores: a normal trait on the logit scale; a
    Beta distribution given the score; and clear comments mixed with contested ones. One subgroup
    has a fifth of the comments, one few; both score higher than they should. Comments of a cluster
    share a part of both trait and score.
    """
    groups = {"large": rng.random(n) < 0.2, "small": rng.random(n) < small}
    shift = 0.4 * groups["large"] + 0.5 * groups["small"]
    clusters, trait, noise = None, rng.normal(size=n), rng.normal(size=n)
    if n_clusters is not None:
        clusters = rng.integers(0, n_clusters, n)
        own = rng.normal(size=(2, n_clusters))[:, clusters]
        trait, noise = (
            np.sqrt(0.7) * a + np.sqrt(0.3) * b for a, b in zip((trait, noise), own, strict=True)
        )
    if world == "logistic":
        fraction = _expit(3 * trait - 3 + shift)
        score = 1.5 * trait + 1.2 * noise + shift
    elif world == "beta":
        score = trait + shift
        mean = _expit(1.5 * trait - 1.5 + 0.3 * shift)
        fraction = rng.beta(2 * mean, 2 * (1 - mean))
    else:
        clear = rng.random(n) < 0.7
        fraction = np.where(clear, rng.beta(0.3, 6, n), rng.beta(2, 1.5, n))
        score = 2 * fraction + 0.6 * noise + 0.5 * shift
    return fraction, score, groups, clusters


def true_numbers(world, m, n=400_000):
    """Return every number of each reading for so many comments that chance hardly matters.

    Each comment has one of the numbers of raters in `m`.
    """
    rng = np.random.default_rng(0)
    fraction, score, groups, _ = draw_comments(rng, n, world)
    rows = SortedRows.of(score)

    def hard(labels):
        return numbers_of(evaluate_bias(labels, score, groups, intervals=False))

    raters = rng.choice(m, n)
    panel = rng.binomial(raters, fraction) >= 0.5 * raters
    checked = Rows(fraction >= 0.5, groups)
    pairs = pairs_of(checked, rows, fraction)
    expected = numbers_of(expected_report(pairs, checked, Options.of(checked)))
    return {"panel": hard(panel), "expected": expected, "consensus": hard(fraction >= 0.5)}


def expected_numbers(votes, m, scores, groups, *, confidence=0.95, **of_rows):
    """Return every number of the expected reading, and its variance that comes from raters."""
    fraction = votes / m
    rows = Rows(fraction >= 0.5, groups, **of_rows)
    asked = Options.of(rows, confidence=confidence)
    pairs = pairs_of(rows, SortedRows.of(scores), fraction)
    by_rater = rater_variances(pairs, asked, fraction * (1 - fraction) / (m - 1))
    return numbers_of(expected_report(pairs, rows, asked)), by_rater


def _expit(x):
    return 1 / (1 + np.exp(-x))

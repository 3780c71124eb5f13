"""Diagnoses of random samples: how often the right pattern is named, and how often a wrong one."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from support.curves import corners_of

from bias_metrics import Rows, diagnose_bias
from bias_metrics.diagnosis.patterns import unsigned_gap

NO_MARGINS = {"aeg_margin": 0, "auc_margin": 0, "spread_margin": 0, "share_margin": 0}


def diagnose(rows, **options):
    labels, scores, members = rows
    return diagnose_bias(Rows(labels, {"g": members}), scores, **options)["g"]


# From Table 2 of Borkan et al. (2019), 1,000 rows a cell: (mean, deviation) of the normal
# distributions, truncated to [0, 1], of background positives and negatives and of subgroup
# positives and negatives. The printed column A follows from no published parameters.

LARGE_SHIFT = ((0.6, 0.05), (0.2, 0.05), (0.95, 0.05), (0.55, 0.05))
TABLE_2 = {
    "none": ("none", ((0.6, 0.05), (0.2, 0.05)) * 2, (1000, 1000)),
    "A": ("A", ((0.6, 0.05), (0.2, 0.05), (0.8, 0.05), (0.4, 0.05)), (1000, 1000)),
    "B": ("B", LARGE_SHIFT, (1000, 1000)),
    "C, more positives": ("C", LARGE_SHIFT, (1500, 500)),
    "C, fewer positives": ("C", LARGE_SHIFT, (500, 1500)),
    "D": ("D", ((0.7, 0.05), (0.3, 0.05), (0.35, 0.05), (0.05, 0.05)), (1000, 1000)),
    "E": ("E", ((0.6, 0.05), (0.2, 0.05), (0.45, 0.05), (0.35, 0.05)), (1000, 1000)),
    "F": ("F", ((0.8, 0.05), (0.2, 0.05), (0.8, 0.1), (0.2, 0.1)), (1000, 1000)),
    "G": ("G", ((0.7, 0.05), (0.3, 0.05), (0.7, 0.2), (0.3, 0.2)), (1000, 1000)),
}
# Shifts of one class alone, for which Table 2 has no letter.
ONE_SIDED = {
    "harmless higher": ((0.6, 0.05), (0.2, 0.05), (0.6, 0.05), (0.25, 0.05)),
    "harmless lower": ((0.6, 0.05), (0.3, 0.05), (0.6, 0.05), (0.25, 0.05)),
    "toxic higher": ((0.6, 0.05), (0.2, 0.05), (0.65, 0.05), (0.2, 0.05)),
    "toxic lower": ((0.6, 0.05), (0.2, 0.05), (0.55, 0.05), (0.2, 0.05)),
}
DRAWN = TABLE_2 | {name: (name, column, (1000, 1000)) for name, column in ONE_SIDED.items()}


def of_sizes(n_subgroup, n_background):
    sizes = (n_background, n_background, *n_subgroup)
    return np.repeat([True, False] * 2, sizes), np.repeat([False, False, True, True], sizes)


def drawn(rng, column, n_subgroup):
    labels, members = of_sizes(n_subgroup, 1000)
    bounds = np.cumsum([0, 1000, 1000, *n_subgroup])
    scores = np.empty(labels.size)
    for distribution, (start, stop) in zip(column, pairwise(bounds), strict=True):
        draws = rng.normal(*distribution, size=3 * (stop - start))
        scores[start:stop] = draws[(draws >= 0) & (draws <= 1)][: stop - start]
    return labels, scores, members


def share_named(name, draws, others=0):
    pattern, column, sizes = DRAWN[name]
    rng = np.random.default_rng(20190513)
    found = Counter()
    for _ in range(draws):
        labels, scores, members = drawn(rng, column, sizes)
        random = {f"other {i}": rng.random(labels.size) < 0.5 for i in range(others)}
        diagnoses = diagnose_bias(Rows(labels, {"g": members} | random), scores)
        found[diagnoses["g"].pattern] += 1
    return found[pattern] / draws


@pytest.mark.evaluates
@pytest.mark.parametrize("name", DRAWN)
def test_each_distribution_is_named_in_nine_draws_of_ten(name):
    assert share_named(name, 40) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_each_distribution_is_named_in_many_draws(name):
    assert share_named(name, 400) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_each_distribution_is_named_among_24_subgroups(name):
    assert share_named(name, 50, others=23) >= 0.9


def overlapping(rng, labels):
    return rng.normal(1.19 * labels)  # AUC .8


UNBIASED = {
    "apart": lambda rng, labels: rng.normal(8.0 * labels),
    "overlapping": overlapping,
    "tied": lambda rng, labels: np.clip(np.round(overlapping(rng, labels)), -1, 2),
    "skewed": lambda rng, labels: np.where(
        labels, rng.beta(5, 1, labels.size), rng.beta(0.3, 3, labels.size)
    ),
    "by chance": lambda rng, labels: rng.random(labels.size),
    "constant": lambda _, labels: np.zeros(labels.size),
}
SIZES = {
    "equal": ((1000, 1000), 1000),
    "skewed counts": ((1500, 500), 1000),
    "few positives": ((30, 200), 2000),
    "few rows": ((25, 25), 25),
}


def share_with_a_pattern(distribution, sizes, draws, **options):
    rng = np.random.default_rng(20190513)
    labels, members = of_sizes(*SIZES[sizes])
    found = Counter(
        diagnose((labels, UNBIASED[distribution](rng, labels), members), **options).pattern
        for _ in range(draws)
    )
    return 1 - (found["none"] + found["no evidence"]) / draws


@pytest.mark.evaluates
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("distribution", UNBIASED)
def test_without_bias_no_pattern_is_seen(distribution, sizes):
    assert share_with_a_pattern(distribution, sizes, 25) == 0


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("distribution", UNBIASED)
def test_even_without_margins_a_pattern_is_seen_in_at_most_5_percent(distribution, sizes):
    assert share_with_a_pattern(distribution, sizes, 500, **NO_MARGINS) <= 0.05


@pytest.mark.slow
def test_a_shift_as_large_as_the_margin_is_called_clear_in_at_most_5_percent():
    rng = np.random.default_rng(20190513)
    labels, members = of_sizes((1000, 1000), 1000)
    shift = 0.17771 * members  # sqrt(2) times the normal quantile of .55
    draws = [diagnose((labels, overlapping(rng, labels) + shift, members)) for _ in range(500)]
    gaps = [one.evidence["negative_aeg"].value for one in draws]
    assert np.mean(gaps) == pytest.approx(0.05, abs=0.002)
    assert sum(one.pattern not in {"none", "no evidence"} for one in draws) <= 25


def lower_positives(rng):
    # Positive AEG -.138: sqrt(2) times the normal quantile of .362. 106 positives.
    labels, members = of_sizes((106, 400), 1000)
    return labels, overlapping(rng, labels) - 0.4993 * (members & labels), members


def wider(rng):
    labels, members = of_sizes((200, 200), 200)
    return labels, np.where(labels, 0.8, 0.2) + rng.normal(0, 0.05 * (1 + members)), members


BIASED = {"positives lower": lower_positives, "Table 2 F": wider}


def share_called_none(name, draws):
    rng = np.random.default_rng(20190513)
    return sum(diagnose(BIASED[name](rng)).pattern == "none" for _ in range(draws)) / draws


@pytest.mark.parametrize("name", BIASED)
def test_bias_is_not_called_none_where_rows_are_few(name):
    assert share_called_none(name, 20) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", BIASED)
def test_bias_is_called_none_in_at_most_5_percent(name):
    assert share_called_none(name, 1000) <= 0.05


@pytest.mark.parametrize(("m", "n"), [(20, 20), (50, 1000), (400, 400)])
def test_chance_alone_keeps_the_unsigned_gap_within_its_bound_just_often_enough(m, n):
    rng = np.random.default_rng(20190513)
    beyond = 0
    for _ in range(400):
        scores = rng.random(m + n)
        curve = corners_of(scores[m:], scores[:m])
        beyond += unsigned_gap(curve, (m, n), 0.9).low > 0
    assert 0.04 <= beyond / 400 <= 0.12  # 10 % but for its caution and 400 draws' chance

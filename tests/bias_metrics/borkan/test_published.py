"""Evidence 2: published score distributions and figures, at their printed precision."""

from dataclasses import dataclass

import numpy as np
import pytest

import bias_metrics
from bias_metrics import MetricValue, evaluate_bias, final_score, power_mean

AUCS = ("subgroup_auc", "bpsn_auc", "bnsp_auc")
AEGS = ("positive_aeg", "negative_aeg")


@dataclass(frozen=True)
class Column:
    """Normal distributions (mean, deviation) truncated to [0, 1], and the published metrics."""

    background_positive: tuple[float, float]
    background_negative: tuple[float, float]
    subgroup_positive: tuple[float, float]
    subgroup_negative: tuple[float, float]
    population: tuple[float, float, float, float, float]
    n_subgroup: tuple[int, int] = (1000, 1000)


# Borkan et al. (2019), Table 2: the parameters of columns A to G and of the unbiased case.
# `population` is subgroup AUC, BPSN AUC, BNSP AUC, positive and negative AEG by quadrature.
# The printed column A (0.42) follows from no published parameters; a shift of .2 stands in.
LARGE_SHIFT = (0.9999999908, 0.7602499389, 1.0, 0.4999995584, 0.4999996284)
TABLE_2 = {
    "no bias": Column(
        (0.6, 0.05), (0.2, 0.05), (0.6, 0.05), (0.2, 0.05), (0.9999999923,) * 3 + (0.0, 0.0)
    ),
    "small right shift": Column(
        *((0.6, 0.05), (0.2, 0.05), (0.8, 0.05), (0.4, 0.05)),
        (0.9999999923, 0.9976611325, 1.0, 0.4976610584, 0.4976610584),
    ),
    "B large right shift": Column(
        (0.6, 0.05), (0.2, 0.05), (0.95, 0.05), (0.55, 0.05), LARGE_SHIFT
    ),
    "C size skew, positives": Column(
        (0.6, 0.05), (0.2, 0.05), (0.95, 0.05), (0.55, 0.05), LARGE_SHIFT, (1500, 500)
    ),
    "size skew, negatives": Column(
        (0.6, 0.05), (0.2, 0.05), (0.95, 0.05), (0.55, 0.05), LARGE_SHIFT, (500, 1500)
    ),
    "D left shift": Column(
        *((0.7, 0.05), (0.3, 0.05), (0.35, 0.05), (0.05, 0.05)),
        (0.9999868719, 1.0, 0.7602499387, -0.4999996285, -0.4997581548),
    ),
    "E low separation": Column(
        *((0.6, 0.05), (0.2, 0.05), (0.45, 0.05), (0.35, 0.05)),
        (0.9213503965, 0.9997965240, 0.9997965175, -0.4830525732, 0.4830520365),
    ),
    "F wide, no overlap": Column(
        *((0.8, 0.05), (0.2, 0.05), (0.8, 0.1), (0.2, 0.1)),
        (0.9999884345, 0.9999999589, 0.9999999589, -0.0116242464, 0.0116242464),
    ),
    "G wide, overlap": Column(
        *((0.7, 0.05), (0.3, 0.05), (0.7, 0.2), (0.3, 0.2)),
        (0.9101523800, 0.9721961307, 0.9721961307, -0.0356792141, 0.0356792141),
    ),
}
# Signs of (positive, negative) AEG by definition 3: positive where the subgroup scores
# higher. Table 2 itself names E and F in one order and G in the other, although all
# three pull the subgroup's scores towards the middle.
SIGNS = {"B": (1, 1), "C": (1, 1), "D": (-1, -1), "E": (-1, 1), "F": (-1, 1), "G": (-1, 1)}


def draw_truncated(rng, distribution, n):
    """Sample a normal truncated to [0, 1] by rejection."""
    draws = rng.normal(*distribution, size=3 * n)
    accepted = draws[(draws >= 0) & (draws <= 1)][:n]
    assert accepted.size == n
    return accepted


def draw_sample(column, times=1):
    """Draw labels, scores and membership, with 1,000 rows per background cell as in the paper."""
    rng = np.random.default_rng(20190513)
    cells = [
        (True, False, column.background_positive, 1000),
        (False, False, column.background_negative, 1000),
        (True, True, column.subgroup_positive, column.n_subgroup[0]),
        (False, True, column.subgroup_negative, column.n_subgroup[1]),
    ]
    sizes = [times * n for *_, n in cells]
    labels, members = (np.repeat([cell[i] for cell in cells], sizes) for i in (0, 1))
    scores = [draw_truncated(rng, cell[2], size) for cell, size in zip(cells, sizes, strict=True)]
    return labels, np.concatenate(scores), members


def bound_standard_error(auc, n):
    """Bound the standard error of an AUC: its variance is at most auc (1 - auc) / n."""
    return np.sqrt(auc * (1 - auc) / n)


@pytest.mark.parametrize("name", TABLE_2)
def test_sampled_table_2_aucs_lie_within_4_standard_errors_of_the_population(name):
    column = TABLE_2[name]
    rows = draw_sample(column)
    for metric, expected in zip(AUCS, column.population[:3], strict=True):
        tolerance = 4 * bound_standard_error(expected, min(column.n_subgroup)) + 1e-6
        measured = getattr(bias_metrics, metric)(*rows).value
        assert measured == pytest.approx(expected, abs=tolerance), metric


@pytest.mark.parametrize("name", TABLE_2)
def test_sampled_table_2_gaps_lie_within_0_04_of_the_population(name):
    column = TABLE_2[name]
    rows = draw_sample(column)
    for metric, expected in zip(AEGS, column.population[3:], strict=True):
        assert getattr(bias_metrics, metric)(*rows).value == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("letter", SIGNS)
def test_gaps_of_table_2_have_the_signs_of_definition_3(letter):
    column = next(value for name, value in TABLE_2.items() if name.startswith(letter + " "))
    rows = draw_sample(column, times=20)  # the gap of column F is .012, one standard error of 1,000
    signs = [np.sign(getattr(bias_metrics, metric)(*rows).value) for metric in AEGS]
    assert tuple(signs) == SIGNS[letter]


@pytest.mark.parametrize("name", TABLE_2)
def test_overall_auc_of_table_2_mixes_the_four_published_aucs_by_their_pairs(name):
    column = TABLE_2[name]
    subgroup, bpsn, bnsp = column.population[:3]
    background = 1.0  # .4 or more apart, at a deviation of .05
    n_pos, n_neg = column.n_subgroup
    wins = background * 1e6 + subgroup * n_pos * n_neg + 1000 * (bpsn * n_neg + bnsp * n_pos)
    expected = wins / ((1000 + n_pos) * (1000 + n_neg))
    labels, scores, _ = draw_sample(column)
    tolerance = 4 * bound_standard_error(expected, 1000 + min(column.n_subgroup)) + 1e-6
    measured = bias_metrics.roc_auc(labels, scores).value
    assert measured == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", TABLE_2)
def test_a_report_of_table_2_holds_the_same_five_numbers(name):
    labels, scores, members = draw_sample(TABLE_2[name])
    cells = evaluate_bias(labels, scores, {"g": members}).subgroups["g"]
    for metric in AUCS + AEGS:
        expected = getattr(bias_metrics, metric)(labels, scores, members)
        assert getattr(cells, metric) == expected


# No paper prints the parts of a final score. These are reference values for the public
# toxic-bert scores of the 2019 Jigsaw test set, nine identities in the order of the
# competition (male ... psychiatric or mental illness); they check the formula, not the AUCs.
TOXIC_BERT = {
    "subgroup_auc": [
        *(0.8731560, 0.8738089, 0.7946963, 0.8894764, 0.8493232),
        *(0.8238238, 0.8071433, 0.8054484, 0.8695318),
    ],
    "bpsn_auc": [
        *(0.8629634, 0.8550919, 0.7831922, 0.9145725, 0.8409802),
        *(0.8795243, 0.8017854, 0.8213029, 0.8260533),
    ],
    "bnsp_auc": [
        *(0.9129190, 0.9192580, 0.9122757, 0.8755195, 0.9102935),
        *(0.8683060, 0.9125154, 0.9016965, 0.9303319),
    ],
}
TOXIC_BERT_MEANS = {"subgroup_auc": 0.838888, "bpsn_auc": 0.837799, "bnsp_auc": 0.903534}


@pytest.mark.parametrize("metric", AUCS)
def test_power_means_of_toxic_bert_agree_to_six_digits(metric):
    assert power_mean(TOXIC_BERT[metric]) == pytest.approx(TOXIC_BERT_MEANS[metric], abs=6e-7)


def test_final_score_of_toxic_bert_agrees_to_six_digits():
    means = {metric: MetricValue(power_mean(values)) for metric, values in TOXIC_BERT.items()}
    measured = final_score(MetricValue(0.901940), means).value
    assert measured == pytest.approx(0.870540, abs=1e-6)

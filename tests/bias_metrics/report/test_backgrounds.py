"""A background without any identity, against loops over the pairs of rows."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from bias_metrics import (
    calibration_report,
    compare_bias,
    compare_calibration,
    decision_indicators,
    evaluate_bias,
    rate_gaps,
)
from bias_metrics._core.covariance import TwoRankings, measure_joint_moments
from bias_metrics._core.influence import rank_rows
from bias_metrics.metrics import FINAL_SCORE_PARTS, SUBGROUP_METRICS
from bias_metrics.report.steps import measure_subgroup, rank_members, rank_scores
from bias_metrics.rows import Rows

NO_IDENTITY = "no_identity"


@pytest.fixture
def rows():
    rng = np.random.default_rng(11)
    y_true = rng.random(600) < 0.4
    y_score = np.round(rng.normal(size=600) + y_true, 1)
    subgroups = {"gay": rng.random(600) < 0.2, "muslim": rng.random(600) < 0.3}
    return y_true, y_score, subgroups


def compare_pairs(lower, upper):
    """Outcome of each pair, in a table of `upper` by `lower`, by comparing all pairs."""
    return (upper[:, None] > lower) + 0.5 * (upper[:, None] == lower)


def select_pairs(rows, name, metric):
    """Return the lower and upper rows of a metric's pairs."""
    y_true, _, subgroups = rows
    own = subgroups[name]
    none = ~np.any(list(subgroups.values()), axis=0)
    return {
        "subgroup_auc": (own & ~y_true, own & y_true),
        "bpsn_auc": (own & ~y_true, none & y_true),
        "bnsp_auc": (none & ~y_true, own & y_true),
        "positive_aeg": (none & y_true, own & y_true),
        "negative_aeg": (none & ~y_true, own & ~y_true),
    }[metric]


def compute_influences(rows, name, metric, y_score=None):
    """Compute the influence of every row on a metric, by its definition."""
    scores = rows[1] if y_score is None else y_score
    lower, upper = select_pairs(rows, name, metric)
    table = compare_pairs(scores[lower], scores[upper])
    found = np.zeros(scores.size)
    for of_class, axis in ((lower, 0), (upper, 1)):
        each = table.mean(axis=axis)
        found[of_class] = (each - each.mean()) / np.sqrt(each.size * (each.size - 1))
    return found


def compute_clustered_error(rows, name, metric, influence, clusters):
    """Compute the error of clustered rows by its definition, which corrects large clusters."""
    sums = 0.0
    for of_class in select_pairs(rows, name, metric):
        n = of_class.sum()
        in_clusters = clusters[of_class]
        share = np.bincount(in_clusters, minlength=clusters.max() + 1) / n
        weights = influence[of_class] * np.sqrt((n - 1) / n)
        sums += np.bincount(in_clusters, weights, share.size) / np.sqrt(1 - share)
    return np.sqrt(np.sum(sums**2))


@pytest.mark.parametrize("intervals", [True, "cells", False])
@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_each_metric_compares_with_the_rows_of_no_subgroup(rows, metric, intervals):
    report = evaluate_bias(*rows, intervals=intervals, background=NO_IDENTITY)
    for name, bias in report.subgroups.items():
        lower, upper = select_pairs(rows, name, metric)
        expected = compare_pairs(rows[1][lower], rows[1][upper]).mean()
        value = getattr(bias, metric).value
        assert value == pytest.approx(expected - 0.5 * metric.endswith("_aeg"), abs=1e-12)


@pytest.mark.parametrize("intervals", [True, "cells"])
@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_a_standard_error_is_that_of_the_placements_of_its_own_rows(rows, metric, intervals):
    report = evaluate_bias(*rows, intervals=intervals, background=NO_IDENTITY)
    for name, bias in report.subgroups.items():
        expected = np.sqrt(np.sum(compute_influences(rows, name, metric) ** 2))
        assert getattr(bias, metric).std_error == pytest.approx(expected, rel=1e-9)


def test_a_power_mean_has_the_influence_of_its_cells(rows):
    report = evaluate_bias(*rows, background=NO_IDENTITY)
    for metric in FINAL_SCORE_PARTS:
        mean = report.overall[metric]
        values = {n: getattr(b, metric).value for n, b in report.subgroups.items()}
        influence = sum(
            (value / mean.value) ** -6 / 2 * compute_influences(rows, name, metric)
            for name, value in values.items()
        )
        assert mean.std_error == pytest.approx(np.sqrt(np.sum(influence**2)), rel=1e-9)


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_clusters_add_up_the_influences_of_their_rows(rows, metric):
    clusters = np.arange(600) % 40
    report = evaluate_bias(*rows, clusters=clusters, background=NO_IDENTITY)
    for name, bias in report.subgroups.items():
        error = compute_clustered_error(
            rows, name, metric, compute_influences(rows, name, metric), clusters
        )
        assert getattr(bias, metric).std_error == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("background", ["outside_subgroup", NO_IDENTITY])
def test_the_bootstrap_spreads_as_the_standard_errors_say(rows, background):
    y_true, y_score, masks = rows
    rng, of_class = np.random.default_rng(3), [np.flatnonzero(y_true), np.flatnonzero(~y_true)]
    drawn = []
    for _ in range(400):
        kept = np.concatenate(
            [rng.choice(rows_in_class, rows_in_class.size) for rows_in_class in of_class]
        )
        again = {name: mask[kept] for name, mask in masks.items()}
        options = {"intervals": False, "background": background}
        drawn.append(evaluate_bias(y_true[kept], y_score[kept], again, **options))
    for name, bias in evaluate_bias(*rows, background=background).subgroups.items():
        for metric, cell in bias.items():
            spread = np.std(
                [getattr(table.subgroups[name], metric).value for table in drawn], ddof=1
            )
            assert spread == pytest.approx(cell.std_error, rel=0.2)


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_what_two_models_share_is_the_sum_over_rows(rows, metric):
    y_true, first, subgroups = rows
    second = np.round(first + np.random.default_rng(5).normal(size=600), 1)
    rankings = [rank_rows(y_true, scores) for scores in (first, second)]
    checked = Rows(y_true, subgroups, background=NO_IDENTITY)
    members = [rank_members(ranked, checked) for ranked in rankings]
    pair = TwoRankings.from_rankings(*rankings)
    for name in subgroups:
        a, b = (
            compute_influences(rows, name, metric),
            compute_influences(rows, name, metric, second),
        )
        moments = measure_joint_moments(
            metric, pair, pair.match_members(*(by_name[name] for by_name in members))
        )
        assert moments.covariance == pytest.approx(a @ b, rel=1e-9)
        assert moments.third_moment == pytest.approx(np.sum((a - b) ** 3), rel=1e-6)
        assert moments.negate_second().third_moment == pytest.approx(np.sum((a + b) ** 3), rel=1e-6)


@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_a_background_many_times_larger_hardly_adds_to_how_skewed_a_difference_is(metric):
    rng = np.random.default_rng(12)
    y_true, own = rng.random(6_000) < 0.4, np.arange(6_000) < 200
    first, second = (rng.exponential(size=6_000) + y_true for _ in range(2))
    rows = y_true, first, {"gay": own}
    rankings = [rank_rows(y_true, scores) for scores in (first, second)]
    checked = Rows(y_true, rows[2], background=NO_IDENTITY)
    members = [rank_members(ranked, checked)["gay"] for ranked in rankings]
    pair = TwoRankings.from_rankings(*rankings)
    apart = compute_influences(rows, "gay", metric) - compute_influences(
        rows, "gay", metric, second
    )
    moments = measure_joint_moments(metric, pair, pair.match_members(*members))
    error = np.sqrt(np.sum(apart**2))
    assert moments.third_moment / error**3 == pytest.approx(np.sum(apart**3) / error**3, abs=0.001)
    # And so it is left out, of the difference and of the sum.
    assert moments.third_moment == pytest.approx(np.sum(apart[own] ** 3), rel=1e-6)
    total = compute_influences(rows, "gay", metric) + compute_influences(
        rows, "gay", metric, second
    )
    assert moments.negate_second().third_moment == pytest.approx(np.sum(total[own] ** 3), rel=1e-6)


@pytest.mark.parametrize("clusters", [None, np.arange(600) % 40], ids=["rows", "clusters"])
def test_a_comparison_has_the_reports_and_the_errors_of_that_background(rows, clusters):
    y_true, first, subgroups = rows
    second = np.round(first + np.random.default_rng(5).normal(size=600), 1)
    options = {"background": NO_IDENTITY, "clusters": clusters}
    compared = compare_bias(y_true, first, second, subgroups, **options)
    for scores, end in ((first, "first"), (second, "second")):
        report = evaluate_bias(y_true, scores, subgroups, **options)
        assert report.keys() == compared.keys()
        assert all(getattr(number, end) == report[key].value for key, number in compared.items())
    for name in subgroups:
        for metric in SUBGROUP_METRICS:
            difference = compute_influences(rows, name, metric) - compute_influences(
                rows, name, metric, second
            )
            units = np.arange(600) if clusters is None else clusters
            error = compute_clustered_error(rows, name, metric, difference, units)
            value = compared.subgroups[name][metric]
            assert value.std_error == pytest.approx(error, rel=1e-9)


def test_integer_weights_are_repetitions(rows):
    y_true, y_score, subgroups = rows
    weights = np.random.default_rng(2).integers(0, 4, 600)
    repeated = [np.repeat(one, weights) for one in (y_true, y_score, *subgroups.values())]
    options = {"intervals": False, "background": NO_IDENTITY}
    weighted = evaluate_bias(*rows, sample_weight=weights, **options)
    twice = evaluate_bias(*repeated[:2], dict(zip(subgroups, repeated[2:], strict=True)), **options)
    for name in subgroups:
        for metric in SUBGROUP_METRICS:
            value = twice[metric, name].value
            assert weighted[metric, name].value == pytest.approx(value, abs=1e-12)


def test_one_subgroup_alone_has_the_same_background_either_way(rows):
    y_true, y_score, subgroups = rows
    alone = {"gay": subgroups["gay"]}
    default = evaluate_bias(y_true, y_score, alone).to_dict()
    other = evaluate_bias(y_true, y_score, alone, background=NO_IDENTITY).to_dict()
    assert other == default | {"background": NO_IDENTITY}


def test_without_subgroups_there_is_nothing_to_compare_with_a_background(rows):
    report = evaluate_bias(*rows[:2], {}, background=NO_IDENTITY)
    assert report.overall.auc == evaluate_bias(*rows[:2], {}).overall.auc
    assert report.subgroups == {}


def test_a_background_that_everyone_is_missing_from_leaves_undefined_cells(rows):
    y_true, y_score, subgroups = rows
    both = {"gay": subgroups["gay"], "straight": ~subgroups["gay"]}
    cells = evaluate_bias(y_true, y_score, both, background=NO_IDENTITY).subgroups["gay"]
    assert cells.subgroup_auc.value is not None
    assert (cells.bpsn_auc.value, cells.bpsn_auc.reason) == (None, "no background positives")
    assert cells.negative_aeg.reason == "no background negatives"


def test_the_overall_auc_covers_all_rows_whatever_the_background(rows):
    reports = [evaluate_bias(*rows, background=one) for one in ("outside_subgroup", NO_IDENTITY)]
    assert reports[0].overall.auc == reports[1].overall.auc
    assert reports[0].subgroups["gay"] != reports[1].subgroups["gay"]


def test_the_steps_take_the_excluded_rows(rows):
    y_true, y_score, subgroups = rows
    mentioned = np.any(list(subgroups.values()), axis=0)
    excluded = rank_scores(y_true[mentioned], y_score[mentioned])
    everyone = rank_scores(y_true, y_score)
    expected = evaluate_bias(*rows, intervals="cells", background=NO_IDENTITY)
    for name, mask in subgroups.items():
        own = y_true[mask], y_score[mask]
        measured = measure_subgroup(everyone, *own, uncertain=True, excluded=excluded)
        assert measured.compute_values(0.95) == expected.subgroups[name]


def test_excluded_rows_that_were_not_ranked_are_refused(rows):
    everyone = rank_scores(rows[0][:100], rows[1][:100])
    with pytest.raises(ValueError, match="must hold at most"):
        measure_subgroup(everyone, [1], [0.1], excluded=rank_scores(*rows[:2]))


def test_an_unknown_background_is_refused(rows):
    msg = "`background` must be one of outside_subgroup, no_identity; got 'others'"
    with pytest.raises(ValueError, match=msg):
        evaluate_bias(*rows, background="others")


def read_means(table):
    return {metric: table.overall[metric] for metric in FINAL_SCORE_PARTS}


def iterate_numbers(numbers, path=()):
    """Yield all numbers of a result, with their paths."""
    if dataclasses.is_dataclass(numbers):
        numbers = {
            field.name: getattr(numbers, field.name) for field in dataclasses.fields(numbers)
        }
    if isinstance(numbers, Mapping):
        for key, value in numbers.items():
            yield from iterate_numbers(value, (*path, key))
    elif isinstance(numbers, int | float):
        yield path, numbers


@pytest.mark.parametrize("of_rows", ["plain", "sample_weight", "clusters"])
def test_a_subgroup_has_the_same_intervals_alone_and_beside_others(rows, of_rows):
    y_true, y_score, subgroups = rows
    rng = np.random.default_rng(4)
    other = np.round(y_score + rng.normal(size=y_true.size), 1)
    options = {
        "plain": {},
        "sample_weight": {"sample_weight": rng.lognormal(0, 0.7, y_true.size)},
        "clusters": {"clusters": rng.integers(0, 90, y_true.size)},
    }[of_rows]
    outside = ~np.logical_or.reduce(list(subgroups.values()))
    probabilities, others = (1 / (1 + np.exp(-scores)) for scores in (y_score, other))
    for name, mask in subgroups.items():
        kept, results = np.flatnonzero(mask | outside), []
        for which, groups in ((np.arange(mask.size), subgroups), (kept, {name: mask})):
            within = {key: values[which] for key, values in options.items()}
            members = {key: number[which] for key, number in groups.items()}
            scores = [values[which] for values in (y_score, other)]
            asked = within | {"background": NO_IDENTITY, "power_mean_groups": [name]}
            report = evaluate_bias(y_true[which], scores[0], members, **asked)
            change = compare_bias(y_true[which], *scores, members, **asked)
            chosen = Rows(y_true[which], members, background=NO_IDENTITY, **within)
            p, q = probabilities[which], others[which]
            found = {
                "cells": report.subgroups[name],
                "means": read_means(report),
                "differences": change.subgroups[name],
                "differences of means": read_means(change),
                "calibration": calibration_report(chosen, p).gaps[name],
                "differences of calibration": compare_calibration(chosen, p, q).subgroups[name],
            }
            if of_rows != "sample_weight":  # a weight outside may be the heaviest, which counts
                decided = decision_indicators(chosen, p, threshold=0.5)
                found["decisions"] = decided.subgroups[name].shares
                found["errors"] = rate_gaps(chosen, p, threshold=0.5).subgroups[name]
            results.append(dict(iterate_numbers(found)))
        beside, alone = results
        assert beside.keys() == alone.keys()
        for place, number in alone.items():
            if place[-1] not in {"p_holm", "p_bh"}:  # which are adjusted for all subgroups
                assert beside[place] == pytest.approx(number, rel=1e-10, abs=1e-12), place

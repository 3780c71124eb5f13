"""Calibration in the pipeline: the numbers of the library, in words, in tables and in MLflow."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support import judging

from bias_metrics import Key, MetricValue, Rows, calibration_report, evaluate_bias
from bias_metrics._core.masks import PackedMasks
from bias_metrics.families import widen_selected
from biasgate.tasks.evidence.rows import EvidenceRows
from biasgate.tasks.measuring import explaining
from biasgate.tasks.measuring.explaining import describe_calibration, measure_calibration
from biasgate.tasks.reporting.figures import draw_reliability
from biasgate.tasks.tracking.log_runs import collect_metrics

N = 400
RNG = np.random.default_rng(0)
SCORE = RNG.random(N)
LABEL = RNG.random(N) < SCORE
GROUPS = {"gay": RNG.random(N) < 0.4, "deaf": np.zeros(N, dtype=bool)}
WEIGHT = RNG.lognormal(0, 0.5, N)


def evidence(y_score=SCORE, *, weights=None, clusters=None, groups=GROUPS):
    rows = EvidenceRows(
        labels=LABEL,
        members=PackedMasks.from_masks(groups.items(), N),
        clusters=clusters,
        weights=weights,
        scores={"candidate": y_score},
    )
    return SimpleNamespace(rows=rows, background="outside_subgroup")


@pytest.mark.parametrize("weights", [None, WEIGHT], ids=["plain", "weighted"])
def test_the_numbers_are_those_of_the_library(weights):
    clusters = np.arange(N) // 4
    found, gaps = measure_calibration(evidence(weights=weights, clusters=clusters))
    expected = calibration_report(
        Rows(LABEL, GROUPS, sample_weight=weights, clusters=clusters), SCORE
    )
    without_gaps = {
        name: {key: one for key, one in of_group.items() if key != "calibration_gap"}
        for name, of_group in expected.to_dict()["subgroups"].items()
    }
    known = expected.to_dict() | {"sentence": found.sentence, "subgroups": without_gaps}
    assert found.to_dict() == known
    assert gaps == expected.gaps


def test_the_sentence_names_the_identity_that_is_farthest_off():
    found, gaps = measure_calibration(evidence())
    gap = widen_selected(gaps["gay"], len(gaps))
    assert gaps["deaf"].value is None
    assert (
        f"in each class, is {gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}], for gay."
        in found.sentence
    )
    assert "Read as probabilities, the scores differ" in found.sentence


def test_the_sentence_passes_over_an_identity_with_few_comments_of_a_class():
    found, gaps = measure_calibration(evidence())
    gaps = {**gaps, "nearly empty": MetricValue(0.9, low=0.1, high=0.99)}
    few = replace(found.subgroups["gay"], n=400, n_positive=19)
    found.subgroups["nearly empty"] = few
    assert ", for gay." in describe_calibration(found, gaps)
    found.subgroups["nearly empty"] = replace(few, n_positive=20)
    assert "is +0.900 [-0.077, +1.000], for nearly empty." in describe_calibration(found, gaps)


def test_a_gap_without_interval_is_reported_without_one():
    found, gaps = measure_calibration(evidence(clusters=np.arange(N) % 5))
    assert found.sentence.endswith(f"is {gaps['gay'].value:+.3f}, for gay.")


def test_without_identities_only_all_rows_are_told():
    assert "Compared with others" not in measure_calibration(evidence(groups={}))[0].sentence


def test_very_many_identities_are_left_out(monkeypatch):
    monkeypatch.setattr(explaining, "MOST", 1)
    found, gaps = measure_calibration(evidence())
    assert (found.subgroups, gaps) == ({}, {})
    assert found.overall.n == N


def report_of(calibrated):
    found, gaps = calibrated
    numbers = {Key("calibration_gap", name): gap for name, gap in gaps.items()}
    bias = evaluate_bias(LABEL, SCORE, GROUPS).add_numbers(numbers)
    return judging.report_of(bias, calibration=found, candidate={"name": "file"}, on="rows")


def test_scores_that_are_no_probabilities_are_told_and_not_drawn():
    found = measure_calibration(evidence(SCORE * 3))
    assert found[0].sentence.startswith("Calibration is not measured: scores are not probab")
    assert draw_reliability(report_of(found)) is None
    assert not any(key.startswith("calibration") for key in collect_metrics(report_of(found).bias))


def test_runs_have_the_gap_of_each_identity():
    found = measure_calibration(evidence())
    keys = collect_metrics(report_of(found).bias)
    assert keys["calibration_gap/gay"] == found[1]["gay"].value
    assert "calibration_gap/deaf" not in keys


def test_the_figure_shows_the_identities_or_else_all_comments(monkeypatch):
    figure = draw_reliability(report_of(measure_calibration(evidence())))
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes if axes.axison]
    assert titles == ["gay", "deaf"]
    monkeypatch.setattr(explaining, "MOST", 1)
    figure = draw_reliability(report_of(measure_calibration(evidence())))
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes if axes.axison]
    assert titles == ["all comments"]

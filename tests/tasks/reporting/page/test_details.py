"""The numbers of a page that the report lacks, beside naive counts and the library."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from support.judged import judge, rows

from bias_metrics import Rows, compare_bias, rate_gaps
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Details
from biasgate.tasks.reporting.page import details as module
from biasgate.tasks.reporting.page.details import measure_details, read_details, write_details

NAMES = ["gay", "muslim", "deaf"]
CLUSTERS = {"cluster": np.arange(900) % 60}


def approximate(expected):
    """Compare up to the digits that a page shows."""
    return pytest.approx(expected, abs=1e-6)


@pytest.fixture(scope="module")
def columns():
    return rows(NAMES, empty=["deaf"], champion=True)


@pytest.fixture(scope="module")
def judged(tmp_path_factory, columns):
    return judge(tmp_path_factory.mktemp("plain"), columns)


def test_histograms_count_every_row_once_by_identity_and_background(judged, columns):
    scores = judged[2].scores
    for name in NAMES:
        inside = columns[f"identity/{name}"]
        for kind, of_class in (("negative", ~columns["label"]), ("positive", columns["label"])):
            found = getattr(scores.subgroups[name], kind)
            assert sum(found.counts) == found.n == (inside & of_class).sum()
            assert sum(found.background) == (~inside & of_class).sum()
    assert len(scores.edges) == len(scores.overall.negative.counts) + 1


def test_quartiles_are_scores_of_the_rows(judged, columns):
    inside = columns["identity/gay"] & columns["label"]
    low, half, high = judged[2].scores.subgroups["gay"].positive.quartiles
    own = np.sort(columns["score/candidate"][inside])
    for share, quartile in ((0.25, low), (0.5, half), (0.75, high)):
        assert (own <= quartile).mean() >= share > (own < quartile).mean()
    assert judged[2].scores.subgroups["deaf"].positive.quartiles is None


def test_error_rates_at_each_threshold_are_the_shares_of_rows(judged, columns):
    curves = judged[2].curves
    label, score, gay = (columns[key] for key in ("label", "score/candidate", "identity/gay"))
    own, overall = curves.subgroups["gay"], curves.overall
    for at, threshold in enumerate(curves.thresholds):
        flagged = score >= threshold
        assert own.false_positive_rate[at] == approximate(flagged[gay & ~label].mean())
        assert own.false_negative_rate[at] == approximate((~flagged)[gay & label].mean())
        assert overall.false_positive_rate[at] == approximate(flagged[~label].mean())
        assert overall.false_negative_rate[at] == approximate((~flagged)[label].mean())


def test_error_rates_of_an_identity_have_wilsons_interval(judged, columns):
    curves = judged[2].curves
    label, score, gay = (columns[key] for key in ("label", "score/candidate", "identity/gay"))
    own = curves.subgroups["gay"]
    for at, threshold in enumerate(curves.thresholds):
        rows = (score >= threshold)[gay & ~label]
        known = binomtest(int(rows.sum()), rows.size).proportion_ci(0.95, "wilson")
        assert own.false_positive_rate_ends[at] == approximate([known.low, known.high])


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize("clusters", [{}, CLUSTERS])
def test_gaps_are_those_of_the_library(tmp_path, columns, background, clusters):
    _, _, details = judge(tmp_path, columns | clusters, background=background)
    curves = details.curves
    members = {name: columns[f"identity/{name}"] for name in NAMES}
    for at in set(range(0, len(curves.thresholds), 9)) - set(curves.named.values()):
        alone = rate_gaps(
            Rows(
                columns["label"], members, clusters=clusters.get("cluster"), background=background
            ),
            columns["score/candidate"],
            threshold=curves.thresholds[at],
        )
        for name in NAMES:
            for metric, cell in alone.subgroups[name].items():
                expected = [cell.value, cell.low, cell.high]
                assert getattr(curves.subgroups[name], metric)[at] == approximate(expected)


def test_at_the_thresholds_of_the_report_the_numbers_are_the_reports(judged):
    report, _, details = judged
    curves = details.curves
    assert curves.named.keys() == {"equal_errors", "given"}
    for kind, at in curves.named.items():
        known = report.thresholds[kind]
        assert curves.thresholds[at] == known.threshold
        for name in NAMES:
            cell = report.bias.select_threshold(kind)[name]["fpr_gap"]
            expected = [cell.value, cell.low, cell.high]
            assert curves.subgroups[name].fpr_gap[at] == expected
            rate = known.subgroups[name].false_positive_rate.value
            assert curves.subgroups[name].false_positive_rate[at] == rate


def test_an_identity_without_rows_has_no_rates(judged):
    found = judged[2].curves.subgroups["deaf"]
    assert set(found.false_positive_rate) == {None}
    assert found.fnr_gap[0] == [None, None, None]
    assert found.false_positive_rate_ends[0] == [None, None]


def test_thresholds_ascend_and_are_short_unless_they_are_the_reports(judged):
    curves = judged[2].curves
    assert curves.thresholds == sorted(set(curves.thresholds))
    others = set(range(len(curves.thresholds))) - set(curves.named.values())
    assert all(float(f"{curves.thresholds[at]:.4g}") == curves.thresholds[at] for at in others)


def test_differences_from_the_champion_are_those_of_the_library(judged, columns):
    alone = compare_bias(
        columns["label"],
        columns["score/candidate"],
        columns["score/champion"],
        {name: columns[f"identity/{name}"] for name in NAMES},
        power_mean_groups=["gay", "muslim"],
    )
    assert convert_to_plain(judged[2].champion) == convert_to_plain(alone)


def test_without_a_champion_there_are_no_differences(tmp_path):
    assert judge(tmp_path, rows(NAMES))[2].champion is None


def test_rows_with_sampling_weights_have_weighted_histograms_and_no_curves(tmp_path, columns):
    weight = np.where(columns["label"], 0.5, 2.0)
    found = judge(tmp_path, columns | {"weight": weight})[2]
    assert found.curves is None
    gay = columns["identity/gay"]
    counts = found.scores.subgroups["gay"].negative.counts
    assert sum(counts) == pytest.approx(2 * (gay & ~columns["label"]).sum())


def test_of_very_many_identities_only_the_worst_are_there(tmp_path, monkeypatch, columns):
    monkeypatch.setattr(module, "PANELS", 2)
    found = judge(tmp_path, columns)[2]
    assert list(found.scores.subgroups) == list(found.curves.subgroups)
    assert list(found.scores.subgroups) == ["gay", "muslim"]


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [(0.001, 0.99, "logit"), (0.0, 1.0, "logit"), (-2.0, 3.0, "linear"), (0.0, 5e-5, "linear")],
)
def test_bins_of_probabilities_are_equally_wide_in_log_odds(tmp_path, columns, low, high, scale):
    rng = np.random.default_rng(1)
    score = np.concatenate([[low, high], rng.uniform(low, high, 898)])
    scores = judge(tmp_path, columns | {"score/candidate": score})[2].scores
    edges = np.array(scores.edges)
    assert scores.scale == scale
    assert (edges[0], edges[-1]) == (low, pytest.approx(high))
    counts = scores.overall.negative.counts, scores.overall.positive.counts
    assert sum(map(sum, counts)) == 900
    inner = edges[1:-1]
    even = np.log(inner / (1 - inner)) if scale == "logit" else inner
    assert np.diff(even) == pytest.approx(np.diff(even)[0], rel=0.2)


def test_scores_that_are_all_the_same_have_a_histogram(tmp_path, columns):
    same = columns | {"score/candidate": np.full(900, 0.5), "score/champion": np.full(900, 0.5)}
    scores = judge(tmp_path, same)[2].scores
    assert scores.edges[0] == 0.0
    assert scores.edges[-1] == 1.0


def test_details_are_read_as_they_were_written(tmp_path, judged):
    report, verdict, details = judged
    write_details(details, tmp_path)
    assert (
        read_details(tmp_path, report, verdict)
        == details
        == Details.from_dict(convert_to_plain(details))
    )


@pytest.mark.parametrize("left", ["nothing", "those of another", "those of another version"])
def test_missing_details_and_those_of_another_report_are_measured_again(tmp_path, columns, left):
    report, verdict, details = judge(tmp_path, columns)
    if left == "those of another version":
        write_details(details, tmp_path)
        content = json.loads((tmp_path / module.FILE).read_text("utf-8"))
        del content["curves"]["overall"]
        (tmp_path / module.FILE).write_text(json.dumps(content), "utf-8")
    if left == "those of another":
        scores = replace(details.scores, subgroups={})
        write_details(replace(details, report_digest="of another", scores=scores), tmp_path)
    assert read_details(tmp_path, report, verdict) == details


def test_thresholds_of_float32_scores_are_compared_in_float32(tmp_path, columns):
    score = np.where(columns["label"], 0.7, 0.2).astype(np.float32)
    report, verdict, _ = judge(tmp_path, columns | {"score/candidate": score}, threshold=0.7)
    found = measure_details(report, verdict, EvidenceFile(tmp_path / "evidence.parquet")).curves
    at = found.thresholds.index(0.7)
    assert found.overall.false_negative_rate[at] == 0

"""The meaning of the numbers: significantly low AUCs, errors, and the identity to look at first."""

import numpy as np
import pytest
from support.judging import evidence_of, report_of
from support.made import bias_of, verdict_of

from bias_metrics import (
    MetricValue,
    RowCounts,
    equal_error_rate,
    error_rates,
    evaluate_bias,
    threshold_report,
)
from bias_metrics.families import widen_selected
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.measuring.explaining import describe_harm, explain_numbers, look_first
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.reporting.terminal import explain_report
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

AUCS = ("subgroup_auc", "bpsn_auc", "bnsp_auc")


def cells_of(**values):
    """Build the numbers of an identity; other AUCs default to its `subgroup_auc`."""
    values = {auc: values.get(auc, values["subgroup_auc"]) for auc in AUCS} | values
    known = {name: MetricValue(value, None if value else "r") for name, value in values.items()}
    return known | dict.fromkeys(("positive_aeg", "negative_aeg"), MetricValue(0.0))


def table_of(subgroups, auc=0.9, **counts):
    """Build a table of these numbers; the default counts are 20 rows of each class."""
    known = dict.fromkeys(subgroups, RowCounts(20, 20)) | counts
    return bias_of(subgroups, auc=MetricValue(auc), counts=known)


def rows(n=4000):
    """Simulate rows with high scores for harmless mentions of `gay`, and a rare `deaf`."""
    rng = np.random.default_rng(3)
    y_true = rng.random(n) < 0.4
    groups = {"muslim": rng.random(n) < 0.2, "gay": rng.random(n) < 0.2, "deaf": np.arange(n) < 30}
    y_score = rng.normal(0.3 + 0.4 * y_true + 0.25 * groups["gay"], 0.15)
    return y_true, y_score, groups


@pytest.fixture
def written(tmp_path):
    """Write rows as evidence."""

    def written(y_true, y_score, groups, *, power_mean_groups=None, background="outside_subgroup"):
        columns = {"id": np.arange(y_true.size).astype(str), "label": y_true}
        columns |= {"score/candidate": y_score}
        columns |= {f"identity/{name}": mask for name, mask in groups.items()}
        choices = {"background": background}
        return evidence_of(tmp_path, columns, choices=choices, power_mean_groups=power_mean_groups)

    return written


def test_the_spread_of_identities_is_that_of_the_library_unless_there_are_very_many(written):
    y_true, y_score, groups = rows()
    bias = evaluate_bias(*rows())
    found = explain_numbers(written(*rows()), bias)
    assert found.spread == {metric: bias.difference(metric) for metric in SUBGROUP_METRICS}
    report = report_of(bias, spread=convert_to_plain(found.spread))
    assert report.spread == found.spread
    shown = dict(Story.from_report(report, verdict_of()).numbers)
    assert shown["Highest minus lowest BPSN AUC"] == found.spread["bpsn_auc"].value
    many = {f"g{one}": groups["gay"] for one in range(65)}
    bias = evaluate_bias(y_true, y_score, many)
    assert explain_numbers(written(y_true, y_score, many), bias).spread is None


def test_errors_are_those_of_the_library(written):
    y_true, y_score, groups = rows()
    found = explain_numbers(written(*rows()), evaluate_bias(*rows()), threshold=0.5)
    equal = equal_error_rate(y_true, y_score)
    for kind, threshold in (("equal_errors", equal.threshold), ("given", 0.5)):
        whole = threshold_report(*rows(), threshold=threshold).to_dict()
        assert found.thresholds[kind].to_dict().items() >= whole.items()
        mask = groups["gay"]
        of_gay = error_rates(y_true[mask], y_score[mask], threshold=threshold).to_dict()
        assert found.thresholds[kind].subgroups["gay"].to_dict() == of_gay
    assert found.thresholds["equal_errors"].equal_error_rate.to_dict() == equal.rate.to_dict()


def test_a_low_auc_is_significant_by_bounds_that_hold_together(written):
    assert explain_numbers(written(*rows()), evaluate_bias(*rows())).harms == {"gay": "bpsn_auc"}
    # Three AUCs of three identities and that of all comments share 5 %.
    level = 1 - 2 * 0.05 / (3 * 3 + 1)
    jointly = evaluate_bias(*rows(), confidence=level)
    least = jointly.overall.auc.low
    cells = {name: [one[auc] for auc in AUCS] for name, one in jointly.subgroups.items()}
    low = {name for name, of in cells.items() if any(one.high < least for one in of)}
    assert low == {"gay"}


def test_an_auc_that_is_low_by_its_own_interval_alone_is_not_called_low(written):
    rng = np.random.default_rng(11)
    y_true = rng.random(3000) < 0.4
    groups = {f"g{at}": rng.random(3000) < 0.05 for at in range(40)}
    y_score = rng.normal(0.3 + 0.4 * y_true, 0.3)
    alone = evaluate_bias(y_true, y_score, groups)
    own = [
        name
        for name, one in alone.subgroups.items()
        if any(one[auc].high < alone.overall.auc.value for auc in AUCS)
    ]
    assert own
    assert explain_numbers(written(y_true, y_score, groups), alone).harms == {}


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (
            "bpsn_auc",
            'Harmless comments that mention "gay" often score higher than toxic {} do not',
        ),
        ("bnsp_auc", 'Toxic comments that mention "gay" often score lower than harmless {} do not'),
        ("subgroup_auc", 'Harmless comments that mention "gay" often score higher than toxic {}'),
    ],
)
def test_a_harm_is_said_by_the_number_beside_it(metric, said):
    cells = cells_of(**dict.fromkeys(AUCS, 0.9) | {metric: 0.702})
    bias = table_of({"gay": cells}, auc=0.871)
    told = describe_harm(bias, {"gay": metric}, "gay")
    assert told.startswith(said.format("comments that"))
    assert told.endswith("mention it (29.8% of pairs; all comments: 12.9%).")
    assert len(told.split()) <= 25
    assert describe_harm(bias, {}, "gay") == ""


def test_without_a_threshold_of_its_own_errors_are_told_where_they_are_equal(written):
    found = explain_numbers(written(*rows()), evaluate_bias(*rows()))
    assert list(found.thresholds) == ["equal_errors"]


def test_the_sums_cover_the_groups_of_the_power_means(written):
    y_true, y_score, groups = rows()
    groups["deaf"] &= y_true  # nothing harmless
    evidence = written(y_true, y_score, groups)
    bias = evaluate_bias(y_true, y_score, groups)
    at = explain_numbers(evidence, bias).thresholds["equal_errors"]
    assert "undefined for deaf (no negatives)" in at.fped.reason
    evidence = written(y_true, y_score, groups, power_mean_groups=["gay", "muslim"])
    at = explain_numbers(evidence, bias).thresholds["equal_errors"]
    assert at.groups == ["gay", "muslim"]
    assert at.fped.value > 0


def test_what_is_printed_names_the_identity_its_harm_and_the_errors(written):
    y_true, y_score, _ = rows()
    bias = evaluate_bias(*rows())
    parts = dict(vars(explain_numbers(written(*rows()), bias, threshold=0.5)))
    report = report_of(parts.pop("bias"), **parts)
    story = Story.from_report(report, verdict_of())
    look, at = list(explain_report(report, story))[::2]
    lowest = widen_selected(bias.subgroups["gay"].bpsn_auc, 7 * len(bias.subgroups))
    ends = f"{lowest.low:.3f}, {lowest.high:.3f}"
    assert f"[{ends}]" in story.worst.text  # one number has one interval
    number = f"{lowest.value:.3f} [95% CI {lowest.low:.3f} to {lowest.high:.3f}]"
    assert look == (
        f"Look first at gay (its lowest AUC is bpsn_auc {number}). "
        f"{describe_harm(bias, {'gay': 'bpsn_auc'}, 'gay')}"
    )
    flagged = error_rates(y_true, y_score, threshold=0.5).false_positive_rate.value
    assert at.startswith(f"At the threshold 0.5: {flagged:.1%} of harmless comments flagged")
    assert ". FPED 0." in at


def test_a_significantly_low_auc_comes_before_a_lower_one_that_is_not():
    values = {"a": 0.5, "b": 0.8, "c": 0.4, "d": 0.7}
    cells = {name: cells_of(subgroup_auc=value) for name, value in values.items()}
    cells["d"] = cells_of(subgroup_auc=0.7, bpsn_auc=None)
    bias = table_of(cells)
    found = look_first(bias, {"b": "bpsn_auc", "d": "bnsp_auc"})
    assert (found.subgroup, found.metric) == ("d", "bnsp_auc")
    assert found.sentence == (
        'Look first at d (its lowest AUC is bnsp_auc 0.700). Toxic comments that mention "d" often '
        "score lower than harmless comments that do not mention it (30.0% of pairs; all comments: "
        "10.0%). Also significantly low: b."
    )
    found = look_first(bias, {})
    assert found.subgroup == "c"
    assert found.sentence.startswith("No identity has a significantly low AUC. The lowest with")
    empty = {name: cells_of(subgroup_auc=None) for name in cells}
    assert look_first(table_of(empty), {}).subgroup is None


def test_an_auc_of_few_rows_is_not_the_one_to_look_at_first():
    few = {"subgroup_auc": 0.9, "bpsn_auc": 0.8, "bnsp_auc": 0.2}
    cells = {"few": cells_of(**few), "many": cells_of(subgroup_auc=0.9)}
    found = look_first(table_of(cells, few=RowCounts(19, 20)), {})
    assert (found.subgroup, found.metric) == ("few", "bpsn_auc")
    assert "at least 20 comments in each class is bpsn_auc 0.800 of few" in found.sentence
    assert look_first(table_of(cells, few=RowCounts(19, 19)), {}).subgroup == "many"
    found = look_first(table_of(cells, few=RowCounts(19, 19), many=RowCounts(1, 1)), {})
    assert found.subgroup is None
    assert "at least 20 comments in each class" in found.sentence


def test_a_threshold_of_a_candidate_is_a_finite_number():
    settings = {"name": "mine", "kind": "scores", "path": "x.csv"}
    assert CANDIDATES.validate_python(settings | {"threshold": 0.7}).threshold == 0.7
    for wrong in (float("nan"), float("inf"), "high"):
        with pytest.raises(ValueError, match="threshold"):
            CANDIDATES.validate_python(settings | {"threshold": wrong})

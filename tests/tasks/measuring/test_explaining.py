"""What the numbers mean: the library's diagnoses and errors, and which identity comes first."""

import numpy as np
import pytest
from support.judging import CHOICES, evidence_of

from bias_metrics import (
    diagnose_bias,
    equal_error_rate,
    error_rates,
    evaluate_bias,
    threshold_report,
)
from biasgate.printing import explained
from biasgate.tasks.measuring.diagnosis import N_PERMUTATIONS, SEED, explain, look_first
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

AUCS = ("subgroup_auc", "bpsn_auc", "bnsp_auc")


def rows(n=4000):
    """Harmless mentions of `gay` score high; `deaf` is rare."""
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
        choices = CHOICES | {"background": background}
        return evidence_of(tmp_path, columns, choices=choices, power_mean_groups=power_mean_groups)

    return written


def test_diagnoses_and_errors_are_those_of_the_library(written):
    y_true, y_score, groups = rows()
    found = explain(written(*rows()), evaluate_bias(*rows()), threshold=0.5)
    alone = diagnose_bias(*rows())
    assert found["diagnosis"]["subgroups"] == {name: one.to_dict() for name, one in alone.items()}
    assert alone["gay"].pattern == "B"
    equal = equal_error_rate(y_true, y_score)
    for kind, threshold in (("equal_errors", equal.threshold), ("given", 0.5)):
        rng = np.random.default_rng(SEED)
        whole = threshold_report(*rows(), threshold=threshold, rng=rng).to_dict()
        assert found["thresholds"][kind].items() >= whole.items()
        mask = groups["gay"]
        of_gay = error_rates(y_true[mask], y_score[mask], threshold=threshold).to_dict()
        assert found["thresholds"][kind]["subgroups"]["gay"] == of_gay
        assert found["thresholds"][kind]["fped"]["n_permutations"] == N_PERMUTATIONS
    assert found["thresholds"]["equal_errors"]["equal_error_rate"] == equal.rate.to_dict()


def test_diagnoses_have_the_background_of_the_set(written):
    evidence = written(*rows(), background="no_identity")
    found = explain(evidence, evaluate_bias(*rows(), background="no_identity"))
    told = {
        background: {
            name: one.to_dict()
            for name, one in diagnose_bias(*rows(), background=background).items()
        }
        for background in ("no_identity", "outside_subgroup")
    }
    assert found["diagnosis"]["subgroups"] == told["no_identity"] != told["outside_subgroup"]


def test_without_a_threshold_of_its_own_errors_are_told_where_they_are_equal(written):
    found = explain(written(*rows()), evaluate_bias(*rows()))
    assert list(found["thresholds"]) == ["equal_errors"]


def test_the_sums_cover_the_groups_of_the_power_means(written):
    y_true, y_score, groups = rows()
    groups["deaf"] &= y_true  # nothing harmless
    evidence = written(y_true, y_score, groups)
    bias = evaluate_bias(y_true, y_score, groups)
    at = explain(evidence, bias)["thresholds"]["equal_errors"]
    assert "undefined for deaf (no negatives)" in at["fped"]["reason"]
    evidence = written(y_true, y_score, groups, power_mean_groups=["gay", "muslim"])
    at = explain(evidence, bias)["thresholds"]["equal_errors"]
    assert at["groups"] == ["gay", "muslim"]
    assert at["fped"]["value"] > at["fped"]["quantiles"]["0.95"]["value"]


def test_what_is_printed_names_the_identity_its_harm_and_the_errors(written):
    y_true, y_score, _ = rows()
    bias = evaluate_bias(*rows())
    report = explain(written(*rows()), bias, threshold=0.5) | {"warnings": []}
    look, at = explained(report)[::2]
    lowest = bias.subgroups["gay"].bpsn_auc
    number = f"{lowest.value:.3f} [95 % interval {lowest.low:.3f}, {lowest.high:.3f}]"
    assert look.startswith(
        f"Look first at gay (its lowest AUC is bpsn_auc {number}, large right shift). Harmless"
    )
    flagged = error_rates(y_true, y_score, threshold=0.5).false_positive_rate.value
    assert at.startswith(f"At the threshold 0.5: {flagged:.1%} of harmless comments flagged")
    assert "Worst: harmless comments that mention gay" in at


def test_the_lowest_auc_of_a_clear_pattern_comes_before_a_lower_one_without():
    patterns = {"a": "none", "b": "D", "c": "no evidence", "d": "other"}
    said = {
        name: {"pattern": one, "name": f"pattern {one}", "sentence": f"So {name}."}
        for name, one in patterns.items()
    }
    values = {"a": 0.5, "b": 0.8, "c": 0.4, "d": 0.7}
    cells = {name: {auc: {"value": value} for auc in AUCS} for name, value in values.items()}
    cells = {name: one | {"n_positive": 20, "n_negative": 20} for name, one in cells.items()}
    cells["d"]["bpsn_auc"] = {"value": None, "reason": "r"}
    found = look_first({"subgroups": cells}, said)
    assert (found["subgroup"], found["metric"]) == ("d", "bnsp_auc")
    assert found["sentence"].startswith(
        "Look first at d (its lowest AUC is bnsp_auc 0.700). So d. Clearly treated"
    )
    assert found["sentence"].endswith("differently too: b.")
    unclear = {name: one | {"pattern": "no evidence"} for name, one in said.items()}
    found = look_first({"subgroups": cells}, unclear, clustered=True)
    assert found["subgroup"] == "c"
    assert found["sentence"].startswith("No identity shows a clear pattern of bias; the lowest")
    assert found["sentence"].endswith("which rows of one cluster are not.)")
    found = look_first({"subgroups": cells}, unclear, labelled_alone=True)
    assert "pattern of bias in the rows with human identity labels alone; the" in found["sentence"]
    empty = {name: one | {auc: {"value": None} for auc in AUCS} for name, one in cells.items()}
    assert look_first({"subgroups": empty}, said)["subgroup"] is None


def test_an_auc_of_few_rows_is_not_the_one_to_look_at_first():
    aucs = {auc: {"value": 0.9} for auc in AUCS}
    few = aucs | {"bnsp_auc": {"value": 0.2}, "bpsn_auc": {"value": 0.8}}
    cells = {
        "nearly empty": few | {"n_positive": 19, "n_negative": 20},
        "many": aucs | {"n_positive": 20, "n_negative": 20},
    }
    unclear = {"pattern": "no evidence", "name": "", "sentence": "So."}
    said = dict.fromkeys(cells, unclear)
    found = look_first({"subgroups": cells}, said)
    assert (found["subgroup"], found["metric"]) == ("nearly empty", "bpsn_auc")
    assert "the lowest AUC with enough evidence is bpsn_auc 0.800 of nearly" in found["sentence"]
    cells["nearly empty"]["n_negative"] = 19
    found = look_first({"subgroups": cells}, said)
    assert found["subgroup"] == "many"
    cells["many"]["n_negative"] = cells["many"]["n_positive"] = 1
    found = look_first({"subgroups": cells}, said)
    assert found["subgroup"] is None
    assert "20 rows of each class" in found["sentence"]


def test_a_threshold_of_a_candidate_is_a_finite_number():
    settings = {"name": "mine", "kind": "scores", "path": "x.csv"}
    assert CANDIDATES.validate_python(settings | {"threshold": 0.7}).threshold == 0.7
    for wrong in (float("nan"), float("inf"), "high"):
        with pytest.raises(ValueError, match="threshold"):
            CANDIDATES.validate_python(settings | {"threshold": wrong})

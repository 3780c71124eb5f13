"""Warnings of a report: reversed scores, rows left out, terms and identities without rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.judging import evidence_of
from support.partial import partial

from bias_metrics import evaluate_bias
from bias_metrics.parts import DominantUnits
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.measuring.cautions import (
    describe_dominant_units,
    describe_unmeasured_rows,
    list_cautions,
    warn_of_inversion,
)
from biasgate.tasks.measuring.explaining import explain_numbers, measure_calibration
from biasgate.tasks.records import ReportedChoices
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

RNG = np.random.default_rng(6)
LABEL = RNG.random(600) < 0.4
GOOD = RNG.normal(LABEL, 0.8)
GAY = RNG.random(600) < 0.3
FILE = CANDIDATES.validate_python(
    {"name": "mine", "kind": "scores", "path": "x.csv", "score": "non_toxic"}
)
ALL = partial({"n_rows": 600, "n_rows_measured": 600})


def bias(score, **groups):
    return evaluate_bias(LABEL, score, groups or {"gay": GAY})


def test_scores_that_are_fine_are_not_warned_of():
    assert list_cautions(bias(GOOD), ALL, FILE, {}) == []


def test_an_identity_of_every_row_is_named_as_the_cause():
    everyone = np.ones_like(GAY)
    [warning] = list_cautions(bias(GOOD, gay=GAY, all=everyone), ALL, FILE, {})
    assert warning.startswith("every measured row mentions all, so metrics are undefined")
    assert "whether this column contains only 1s." in warning
    assert (
        "these columns contain"
        in list_cautions(bias(GOOD, a=everyone, b=everyone), ALL, FILE, {})[0]
    )


def test_clusters_that_decide_alone_are_named_and_many_counted():
    one = DominantUnits("gay", "positive", 12, 0.34)
    assert describe_dominant_units([]) is None
    told = describe_dominant_units([replace(one, subgroup=None), one])
    assert told.endswith(
        ": of the toxic comments, one cluster has 34% (12 rows); of the toxic comments about gay, "
        "one cluster has 34% (12 rows)."
    )
    assert describe_dominant_units([one] * 8).endswith("; and 3 more.")


def test_scores_upside_down_name_their_column_and_what_to_do():
    found = bias(-GOOD)
    [warning] = list_cautions(found, ALL, FILE, {})
    assert warning.startswith(
        f"the scores look upside down: the overall AUC is {found.overall.auc.value:.3f}, "
        f"its upper bound {found.overall.auc.high:.3f}."
    )
    assert "(column 'non_toxic' of candidate 'mine')" in warning
    assert "name the column of the toxic class with `score:`, or write 1 - score" in warning


def explained(tmp_path, score, threshold=None):
    columns = {"id": np.arange(600).astype(str), "label": LABEL, "identity/gay": GAY}
    evidence = evidence_of(tmp_path, columns | {"score/candidate": score})
    calibration, _ = measure_calibration(evidence)
    return replace(explain_numbers(evidence, bias(score), threshold), calibration=calibration)


def test_scores_of_the_predicted_label_are_noticed_without_a_column_of_labels(tmp_path):
    share = 1 / (1 + np.exp(-3 * (GOOD - 0.5)))
    predicted = np.maximum(share, 1 - share)
    found = list_cautions(bias(predicted), ALL, FILE, {}, explained=explained(tmp_path, predicted))
    [warning] = [one for one in found if one.startswith("even the lowest scores")]
    assert "read the file with `label` and `positive_label`" in warning
    assert list_cautions(bias(share), ALL, FILE, {}, explained=explained(tmp_path, share)) == []


@pytest.mark.parametrize(
    ("threshold", "begins"), [(0.5, ["at the threshold 0.5, "]), (50, []), (None, [])]
)
def test_a_threshold_on_another_scale_than_the_scores_is_noticed(tmp_path, threshold, begins):
    percent = 100 / (1 + np.exp(-3 * (GOOD - 0.5)))
    known = explained(tmp_path, percent, threshold)
    found = list_cautions(bias(percent), ALL, FILE, {}, explained=known)
    assert [one[: len("at the threshold 0.5, ")] for one in found] == begins
    flagged = known.thresholds.get("given")
    rate = 0 if flagged is None else flagged.overall.false_positive_rate.value
    assert (rate > 0.9) is bool(begins)


def test_reversed_scores_are_not_called_a_wrong_threshold(tmp_path):
    reverse = 1 / (1 + np.exp(GOOD - 2))
    known = explained(tmp_path, reverse, 0.5)
    assert known.thresholds["given"].overall.false_positive_rate.value > 0.5
    [warning] = list_cautions(bias(reverse), ALL, FILE, {}, explained=known)
    assert "If the labels are reversed, correct the label column" in warning


def test_a_model_upside_down_is_named_without_a_column():
    bert = {"name": "bert", "kind": "mlflow", "model": "models:/bert/1"}
    warning = warn_of_inversion(bias(-GOOD), CANDIDATES.validate_python(bert))
    assert "(candidate 'bert')" in warning
    assert "let the model return the score of the toxic class" in warning


def few(score):
    at = np.arange(12)
    return evaluate_bias(at % 2 == 0, score, {"gay": at < 6})


def test_scores_below_one_half_by_chance_are_not_called_upside_down():
    found = few([0.1, 0.2, 0.6, 0.5, 0.3, 0.4, 0.5, 0.45, 0.2, 0.3, 0.1, 0.3])
    overall = found.overall.auc
    assert overall.value < 0.5 < overall.high
    assert found.subgroups["gay"].subgroup_auc.value < 0.5
    warning = warn_of_inversion(found, FILE)
    assert warning.startswith(
        "the scores do not significantly separate toxic from harmless comments: the overall AUC "
        f"is {overall.value:.3f} [{overall.low:.3f}, {overall.high:.3f}]. "
        "If higher means harmless (column 'non_toxic' of candidate 'mine'), "
    )
    assert "upside down" not in warning


def test_of_scores_above_one_half_it_is_said_that_chance_is_not_excluded():
    found = few([0.3, 0.2, 0.6, 0.5, 0.3, 0.4, 0.5, 0.45, 0.2, 0.3, 0.4, 0.3])
    assert found.overall.auc.low < 0.5 < found.overall.auc.value
    assert warn_of_inversion(found, FILE) == (
        "the scores do not significantly separate toxic from harmless comments: the overall AUC "
        f"is {found.overall.auc}."
    )
    assert warn_of_inversion(bias(GOOD), FILE) is None


def test_one_identity_below_one_half_is_no_inversion():
    score = np.where(GAY, -GOOD, GOOD)
    found = bias(score)
    assert found.subgroups["gay"].subgroup_auc.value < 0.5 < found.overall.auc.value
    assert warn_of_inversion(found, FILE) is None


MANY = {"n_rows": 1_804_874, "n_clusters": None, "confidence": 0.95, "split": "all"}
HALVES = {"label_threshold": 0.5, "identity_threshold": 0.5, "background": "no_identity"}


def chosen(measured, source="table", **options):
    known = MANY | HALVES | {"identity_rows": "rated", "n_rows_rated": measured}
    known |= {"n_rows_measured": measured, "source": {"source": source}}
    return ReportedChoices(**known | options)


@pytest.mark.parametrize(
    ("measured", "source", "said"),
    [
        (397_283, "civil_comments", "397,283 of 1,804,874 rows: 78 % were not shown to identity "),
        (1_500_000, "table", "1,500,000 of 1,804,874 rows: 17 % lack a value of some identity"),
        (1_804_870, "table", "1,804,870 of 1,804,874 rows: less than 1 % lack a value"),
    ],
)
def test_rows_that_are_not_measured_are_counted(measured, source, said):
    choices = chosen(measured, source)
    assert choices.left_out.startswith(said)
    told = describe_unmeasured_rows(choices)
    assert told.startswith(f"Measured on {said}")
    assert "`identity_rows: all`" in told


def test_rows_without_weight_are_not_called_unrated():
    choices = chosen(1_500_000, n_rows_rated=1_804_874, weights="probability")
    assert choices.left_out == "1,500,000 of 1,804,874 rows: 17 % have weight 0"
    assert chosen(1_804_874, weights="probability").left_out is None
    told = describe_unmeasured_rows(choices)
    assert told == "Measured on 1,500,000 of 1,804,874 rows: 17 % have weight 0."


def test_identities_without_rows_and_terms_without_a_match_are_named():
    found = bias(GOOD, gay=GAY, martian=np.zeros(600, dtype=bool))
    warnings = list_cautions(
        found, ALL, FILE, {"deaf": ["def", "hard of herring"], "mars": ["mars"]}
    )
    assert warnings == [
        "not found in any comment: def (deaf), hard of herring (deaf), mars. Check the spelling.",
        "no measured row mentions martian.",
    ]


@pytest.mark.parametrize("matching", ["longest", "overlap"])
def test_a_frozen_table_records_the_terms_that_no_text_holds(tmp_path, matching):
    table = pd.DataFrame({"id": [1, 2], "text": ["a gay man", "a Deaf woman"], "label": [0, 1]})
    table.to_csv(tmp_path / "rows.csv", index=False)
    settings = {"name": "rows", "source": "table", "path": tmp_path / "rows.csv", "text": "text"}
    terms = {"gay": ["gay", "gays"], "deaf": ["deaf"], "blind": ["blind"]}
    source = SOURCES.validate_python(settings | {"terms": terms, "matching": matching})
    frozen = freeze_source(source, tmp_path / "store")
    assert frozen.record["unmatched_terms"] == {"gay": ["gays"], "blind": ["blind"]}


def test_templates_match_their_own_terms(tmp_path):
    source = SOURCES.validate_python({"name": "t", "source": "templates", "rows_per_term": 24})
    assert freeze_source(source, tmp_path).record["unmatched_terms"] == {}

"""Errors at a threshold on real data: the scores of a public model, nine identities."""

import numpy as np
import pandas as pd
import pytest

from bias_metrics import (
    error_rates,
    fned,
    fped,
    pinned_auc,
    pinned_auc_equality_difference,
    threshold_table,
)
from biasgate.tasks.data.civil_comments import JIGSAW_NINE


@pytest.fixture(scope="module")
def rows(real_data):
    """Labels, scores and memberships of the Civil Comments rows with identity labels."""
    labels = pd.read_parquet(real_data / "civil_comments_test_identities.parquet")
    scores = pd.read_csv(real_data / "toxic_bert_submission.csv")
    table = labels.merge(scores, on="id", validate="one_to_one")
    groups = {name: (table[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}
    return (table["toxicity"] >= 0.5).to_numpy(), table["prediction"].to_numpy(), groups


@pytest.fixture(scope="module")
def expected(reference):
    return pd.read_csv(reference / "toxic_bert_expected.csv", index_col="subgroup")


def test_the_error_rates_at_one_half_are_the_reference_figures(rows, expected):
    y_true, y_score, groups = rows
    table = threshold_table(*rows, thresholds=[0.5])
    positives, negatives = (metric(*rows, threshold=0.5) for metric in (fped, fned))
    for name in expected.index:
        fpr, fnr = expected.loc[name, ["fpr_at_0_5", "fnr_at_0_5"]]
        errors = table.subgroups[name].get_rates(0)
        assert errors.false_positive_rate.value == pytest.approx(fpr, abs=1e-12)
        assert errors.false_negative_rate.value == pytest.approx(fnr, abs=1e-12)
        assert positives.subgroups[name].value == pytest.approx(fpr, abs=1e-12)
        assert negatives.subgroups[name].value == pytest.approx(fnr, abs=1e-12)
        mask = groups[name]
        assert error_rates(y_true[mask], y_score[mask], threshold=0.5) == errors
    for metric, column in ((positives, "fpr_at_0_5"), (negatives, "fnr_at_0_5")):
        distances = (expected[column] - metric.overall.value).abs()
        assert metric.value.value == pytest.approx(distances.sum(), abs=1e-12)


def test_pinned_aucs_equal_scikit_learn_and_their_samples(rows):
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, groups = rows
    found = pinned_auc_equality_difference(*rows)
    rng = np.random.default_rng(0)
    for name, mask in groups.items():
        weight = mask / mask.sum() + 1 / mask.size
        expected = metrics.roc_auc_score(y_true, y_score, sample_weight=weight)
        assert found.subgroups[name].value == pytest.approx(expected, abs=1e-12)
        sampled = pinned_auc(y_true, y_score, mask, method="sampled", rng=rng).value
        assert sampled == pytest.approx(expected, abs=0.05)
    assert found.overall.value == pytest.approx(0.901940, abs=1e-6)

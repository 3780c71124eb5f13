"""Worst identities, intersections and categories on real data."""

import pandas as pd
import pytest

from bias_metrics import IDENTITY_HIERARCHY, evaluate_bias, intersections, roll_up
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE


@pytest.fixture(scope="module")
def rated(real_data):
    """Return Civil Comments rows with identity labels and the scores of a public model."""
    rows = pd.read_parquet(real_data / "civil_comments_test_identities.parquet")
    scores = pd.read_csv(real_data / "toxic_bert_submission.csv")
    return rows.merge(scores, on="id", validate="one_to_one")


@pytest.fixture(scope="module")
def identities(rated):
    return {name: (rated[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}


@pytest.fixture(scope="module")
def expected(reference):
    return pd.read_csv(reference / "toxic_bert_expected.csv", index_col="subgroup")


def test_the_hierarchy_names_the_identity_columns_of_civil_comments():
    names = [name for names in IDENTITY_HIERARCHY.values() for name in names]
    assert set(names) == set(IDENTITIES)


def test_the_worst_subgroups_of_toxic_bert_are_those_of_the_reference(rated, identities, expected):
    table = evaluate_bias(rated.toxicity >= 0.5, rated.prediction, identities)
    for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        assert table.worst(metric).subgroup == expected[metric].idxmin()
    for metric in ("positive_aeg", "negative_aeg"):
        assert table.worst(metric).subgroup == expected[metric].abs().idxmax()


def test_an_intersection_of_real_identities_fares_worse_than_any_of_them(rated, identities):
    toxic = rated.toxicity >= 0.5
    crossed = intersections(identities, max_order=3, min_support=20, y_true=toxic)
    for name, support in crossed.kept.items():
        both = rated[list(support.members)].ge(0.5).all(axis=1)
        assert (support.n, support.n_positive) == (both.sum(), (both & toxic).sum()), name
    single = evaluate_bias(toxic, rated.prediction, identities)
    joint = evaluate_bias(toxic, rated.prediction, crossed.masks)
    worst_single, worst_joint = single.worst("bpsn_auc"), joint.worst("bpsn_auc")
    assert worst_single.subgroup == "homosexual_gay_or_lesbian"
    assert worst_joint.subgroup == "homosexual_gay_or_lesbian & white"
    assert worst_joint.value.value < worst_single.value.value
    assert worst_joint.n_positive == 22  # few: the reason to show counts


def test_real_categories_hold_their_identities(identities):
    rolled = roll_up(identities)
    assert rolled.unassigned == ()
    assert "hindu" in rolled.missing["religion"]
    sizes = [identities[name].sum() for name in rolled.members["religion"]]
    assert max(sizes) < rolled.masks["religion"].sum() < sum(sizes)

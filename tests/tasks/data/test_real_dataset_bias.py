"""Dataset bias and intersections on real data."""

import math

import pandas as pd
import pytest

from bias_metrics import (
    IDENTITY_HIERARCHY,
    evaluate_bias,
    identity_counts,
    intersections,
    roll_up,
    term_frequencies,
    toxicity_by_length,
    worst_subgroup,
)
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE
from biasgate.tasks.data.terms import TermMatcher

TERMS = ("gay", "homosexual", "black", "white", "muslim", "jewish", "daughter", "news")
LENGTHS = (20, 60, 180, 540, 1620, 4860)


@pytest.fixture(scope="module")
def rated(real_data):
    """Civil Comments rows with identity labels and the scores of a public model."""
    rows = pd.read_parquet(real_data / "civil_comments_test_identities.parquet")
    scores = pd.read_csv(real_data / "toxic_bert_submission.csv")
    return rows.merge(scores, on="id", validate="one_to_one")


@pytest.fixture(scope="module")
def identities(rated):
    return {name: (rated[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}


@pytest.fixture(scope="module")
def expected(reference):
    return pd.read_csv(reference / "toxic_bert_expected.csv", index_col="subgroup")


@pytest.fixture(scope="module")
def wikipedia(real_data):
    return pd.read_csv(real_data / "wikipedia_toxic_5000.csv.gz")


def mentions_in(texts):
    return dict(
        zip(TERMS, TermMatcher({t: [t] for t in TERMS}).mentions(list(texts)).T, strict=True)
    )


def test_the_hierarchy_names_the_identity_columns_of_civil_comments():
    names = [name for names in IDENTITY_HIERARCHY.values() for name in names]
    assert set(names) == set(IDENTITIES)


def test_identity_counts_of_the_jigsaw_test_set_are_the_published_ones(rated, identities, expected):
    counts = identity_counts(rated.toxicity >= 0.5, identities)
    assert counts.overall.n == len(rated)
    found = {name: (rows.n, rows.n_positive) for name, rows in counts.identities.items()}
    assert found == dict(
        zip(expected.index, zip(expected.n, expected.n_pos, strict=True), strict=True)
    )


def test_the_worst_subgroups_of_toxic_bert_are_those_of_the_reference(rated, identities, expected):
    report = evaluate_bias(rated.toxicity >= 0.5, rated.prediction, identities).to_dict()
    for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        assert worst_subgroup(report, metric).subgroup == expected[metric].idxmin()
    for metric in ("positive_aeg", "negative_aeg"):
        assert worst_subgroup(report, metric).subgroup == expected[metric].abs().idxmax()


def test_an_intersection_of_real_identities_fares_worse_than_any_of_them(rated, identities):
    toxic = rated.toxicity >= 0.5
    crossed = intersections(identities, max_order=3, min_support=20, y_true=toxic)
    for name, support in crossed.kept.items():
        both = rated[list(support.members)].ge(0.5).all(axis=1)
        assert (support.n, support.n_positive) == (both.sum(), (both & toxic).sum()), name
    alone = evaluate_bias(toxic, rated.prediction, identities).to_dict()
    joint = evaluate_bias(toxic, rated.prediction, crossed.masks).to_dict()
    one, two = worst_subgroup(alone, "bpsn_auc"), worst_subgroup(joint, "bpsn_auc")
    assert one.subgroup == "homosexual_gay_or_lesbian"
    assert two.subgroup == "homosexual_gay_or_lesbian & white"
    assert two.value.value < one.value.value
    assert two.n_positive == 22  # few: the reason to show counts


def test_real_categories_hold_their_identities(identities):
    rolled = roll_up(identities)
    assert rolled.unassigned == ()
    assert "hindu" in rolled.missing["religion"]
    sizes = [identities[name].sum() for name in rolled.members["religion"]]
    assert max(sizes) < rolled.masks["religion"].sum() < sum(sizes)


def test_wikipedia_comments_are_toxic_by_length_as_in_figure_1(wikipedia):
    toxic = wikipedia.toxic == 1
    buckets = toxicity_by_length(
        toxic, wikipedia.comment_text.str.len(), mentions_in(wikipedia.comment_text), edges=LENGTHS
    ).buckets
    assert sum(bucket.overall.n for bucket in buckets) == len(wikipedia)
    # Dixon et al. (2018), Figure 1, row ALL: other comments of the same source.
    for bucket, percent in zip(buckets[1:-1], (17, 12, 7, 5, 5), strict=True):
        error = math.sqrt(percent * (100 - percent) / bucket.overall.n)
        assert bucket.overall.percent_toxic.value == pytest.approx(percent, abs=3 * error + 0.5)


def test_toxic_wikipedia_comments_use_some_identity_terms_more_than_comments_do(wikipedia):
    found = term_frequencies(wikipedia.toxic == 1, mentions_in(wikipedia.comment_text)).terms
    # Dixon et al. (2018), Table 1: gay 6, homosexual 4. Few rows here: only the direction.
    assert found["gay"].n == 20
    assert found["gay"].ratio.value > 2
    assert found["homosexual"].ratio.value > 2
    assert found["news"].ratio.value < 1


def test_terms_are_not_over_represented_where_toxic_comments_were_selected(real_data):
    rows = pd.read_parquet(real_data / "civil_comments_text.parquet")
    toxic = (rows.toxicity >= 0.5).to_numpy()
    mentions = mentions_in(rows.comment_text)
    found = term_frequencies(toxic, mentions)
    assert found.overall.percent_toxic.value == pytest.approx(70, abs=1)
    for name, mask in mentions.items():
        assert (found.terms[name].n, found.terms[name].n_positive) == (
            mask.sum(),
            (mask & toxic).sum(),
        )
        # 70 % toxic by selection: the frequencies of such a set say nothing about its source.
        assert found.terms[name].ratio.value < 1.05

"""The replacement of the notebooks' function has their columns, order and exact numbers."""

import numpy as np
import pytest

from bias_metrics import compute_bias_metrics_for_model

pandas = pytest.importorskip("pandas")
COLUMNS = ["subgroup", "subgroup_size", "subgroup_auc", "bpsn_auc", "bnsp_auc"]


@pytest.fixture
def make_comments():
    rng = np.random.default_rng(7)
    label = rng.random(400) < 0.3
    frame = pandas.DataFrame({"target": label, "score": (label + rng.random(400)).round(1)})
    for share in (0.5, 0.2, 0.1):
        frame[f"group {share}"] = rng.random(400) < share
    return frame.assign(nobody=False)


def count_won_pairs(frame, negative, positive):
    """Compute the share of pairs in the right order (ties one half), by comparing all pairs."""
    low, high = frame.loc[negative, "score"], frame.loc[positive, "score"]
    won = [(y > x) + (y == x) / 2 for x in low for y in high]
    return np.mean(won) if won else np.nan


def test_its_columns_and_numbers_are_those_of_the_definition(make_comments):
    groups = [name for name in make_comments if name.startswith("group")]
    frame = compute_bias_metrics_for_model(make_comments, groups, "score", "target")
    assert list(frame.columns) == COLUMNS
    toxic = make_comments["target"]
    for row in frame.itertuples():
        inside = make_comments[row.subgroup]
        assert row.subgroup_size == inside.sum()
        expected = [
            count_won_pairs(make_comments, inside & ~toxic, inside & toxic),
            count_won_pairs(make_comments, inside & ~toxic, ~inside & toxic),
            count_won_pairs(make_comments, ~inside & ~toxic, inside & toxic),
        ]
        assert [row.subgroup_auc, row.bpsn_auc, row.bnsp_auc] == pytest.approx(expected, abs=1e-12)


def test_the_lowest_subgroup_auc_is_first_and_an_undefined_one_last(make_comments):
    names = ["nobody", "group 0.5", "group 0.2", "group 0.1"]
    frame = compute_bias_metrics_for_model(make_comments, iter(names), "score", "target")
    assert frame["subgroup_auc"].head(3).is_monotonic_increasing
    assert frame["subgroup"].iloc[-1] == "nobody"
    assert frame.iloc[-1, 2:].isna().all()
    assert sorted(frame.index) == [0, 1, 2, 3]  # the place of each subgroup as given


def test_without_subgroups_it_has_its_columns_and_no_rows(make_comments):
    assert (
        list(compute_bias_metrics_for_model(make_comments, [], "score", "target").columns)
        == COLUMNS
    )


def test_fractions_are_refused_and_a_missing_column_is_named(make_comments):
    with pytest.raises(ValueError, match=r"`y_true` must be boolean .*`fraction >= 0.5`"):
        compute_bias_metrics_for_model(make_comments, ["nobody"], "score", "score")
    with pytest.raises(KeyError, match="sikh"):
        compute_bias_metrics_for_model(make_comments, ["sikh"], "score", "target")

"""Significant losses against a rival, and their attribution to identities."""

import numpy as np
import pytest

import bias_metrics
from bias_metrics import compare_bias
from bias_metrics._core.masks import PackedMasks
from bias_metrics.gate.rules import LEAST_COMPARED
from bias_metrics.report.joint_level import compute_joint_level
from biasgate.tasks.evidence.measure import RowMeasurer
from biasgate.tasks.evidence.rows import EvidenceRows

N = 6_000


def build_measurer(labels, members, candidate, champion, **more):
    of_rows = {"weights", "clusters"}
    known = {"clusters": None, "weights": None} | {x: more.pop(x) for x in of_rows & more.keys()}
    rows = EvidenceRows(
        labels=labels,
        members=PackedMasks.from_masks(members.items(), labels.size),
        scores={"candidate": candidate, "champion": champion},
        **known,
    )
    options = {
        "power_mean_groups": None,
        "background": "outside_subgroup",
        "is_sample": True,
        "thresholds": {},
        "span": lambda *_: None,
    }
    return RowMeasurer(rows=rows, **(options | more))


def simulate_rows(shifts, seed=1, **more):
    """Simulate rows in which y often occurs with x, and z never occurs with x or y.

    `shifts` are the increases of the candidate's scores for harmless mentions, by identity.
    """
    rng = np.random.default_rng(seed)
    labels = rng.random(N) < 0.3
    x, at = rng.random(N) < 0.15, rng.random(N)
    y = np.where(x, at < 0.4, at < 0.07)
    members = {"x": x, "y": y, "z": ~x & ~y & (rng.random(N) < 0.2)}
    champion = 1.5 * labels + rng.standard_normal(N)
    candidate = champion + 0.1 * rng.standard_normal(N)
    for name, shift in shifts.items():
        candidate += shift * (members[name] & ~labels)
    return build_measurer(labels, members, candidate, champion, **more)


def list_causes(losses):
    return {(one.group, one.metric): list(one.without) for one in losses.cells}


def test_the_cells_are_those_of_the_library_at_the_joint_confidence():
    rows = simulate_rows({"x": 0.5}).rows
    losses = simulate_rows({"x": 0.5}).find_losses("champion", 0.05)
    scores = rows.scores["candidate"], rows.scores["champion"]
    level = compute_joint_level(
        bias_metrics.Rows(rows.labels, rows.members), scores, ["x", "y", "z"], alpha=0.05
    )
    assert (losses.n_bounds, losses.confidence) == (15, level)
    expected = compare_bias(rows.labels, *scores, rows.members, confidence=level)
    [bpsn] = [x for x in losses.cells if (x.group, x.metric) == ("x", "bpsn_auc")]
    cell = expected.subgroups["x"].bpsn_auc
    assert (bpsn.low, bpsn.high) == (cell.low, cell.high)
    assert (bpsn.worse_by, bpsn.worse_by_at_least) == (-cell.value, -cell.high)
    bounds = [one.worse_by_at_least for one in losses.cells]
    assert bounds == sorted(bounds, reverse=True)


def test_a_loss_only_through_comments_that_mention_another_names_the_other():
    losses = list_causes(simulate_rows({"x": 0.6}).find_losses("champion", 0.05))
    assert losses["x", "bpsn_auc"] == []
    assert losses["y", "bpsn_auc"] == ["x"]
    # So is z, which is compared with the comments that mention x.
    assert losses["z", "bnsp_auc"] == ["x"]
    assert {tuple(causes) for (group, _), causes in losses.items() if group != "x"} == {("x",)}


def test_two_harms_apart_are_both_their_own():
    losses = list_causes(simulate_rows({"x": 0.6, "z": 0.6}).find_losses("champion", 0.05))
    assert losses["x", "bpsn_auc"] == losses["z", "bpsn_auc"] == []
    assert all("x" in causes for (group, _), causes in losses.items() if group == "y")
    assert losses["y", "bpsn_auc"]


def test_a_harm_of_both_that_mention_each_other_stays_that_of_both():
    losses = list_causes(simulate_rows({"x": 0.6, "y": 0.6}).find_losses("champion", 0.05))
    assert losses["x", "bpsn_auc"] == losses["y", "bpsn_auc"] == []


def test_with_weights_clusters_or_a_rival_that_lacks_scores_the_cause_is_found_too():
    lacking = simulate_rows({"x": 0.6})
    lacking.rows.scores["champion"][::50] = np.nan
    weighted = simulate_rows({"x": 0.6}, weights=np.full(N, 2.0))
    clustered = simulate_rows({"x": 0.6}, clusters=np.arange(N) // 3)
    no_identity = simulate_rows({"x": 0.6}, background="no_identity")
    for one in (lacking, weighted, clustered, no_identity):
        losses = list_causes(one.find_losses("champion", 0.05))
        assert (losses["x", "bpsn_auc"], losses["y", "bpsn_auc"]) == ([], ["x"])


def simulate_few(n_toxic, **more):
    """Simulate an identity with few toxic comments, whose harmless comments score far higher."""
    labels = np.arange(400) < 100
    gay = (np.arange(400) < n_toxic) | (np.arange(400) >= 350)
    champion = labels + np.random.default_rng(3).random(400)
    candidate = np.where(gay, 2 - champion, champion)
    return build_measurer(labels, {"gay": gay}, candidate, champion, **more)


@pytest.mark.parametrize(
    ("n_toxic", "more", "n_bounds"),
    [
        (LEAST_COMPARED - 1, {}, 2),
        (LEAST_COMPARED, {}, 5),
        (1, {"is_sample": False}, 5),
        (0, {"is_sample": False}, 2),
    ],
)
def test_a_cell_is_looked_at_with_enough_rows_of_each_class_of_its_identity(
    n_toxic, more, n_bounds
):
    losses = simulate_few(n_toxic, **more).find_losses("champion", 0.05)
    assert losses.n_bounds == n_bounds
    metrics = {one.metric for one in losses.cells}
    assert ("subgroup_auc" in metrics) == (n_bounds == 5)
    assert "bpsn_auc" in metrics


def test_of_a_list_of_phrases_every_loss_is_shown_with_its_value_as_its_own():
    losses = simulate_rows({"x": 0.6}, is_sample=False).find_losses("champion", 0.05)
    assert all(one.worse_by == one.worse_by_at_least > 0 for one in losses.cells)
    assert {("x", "bpsn_auc"), ("y", "bpsn_auc")} <= list_causes(losses).keys()
    assert set(map(tuple, list_causes(losses).values())) == {()}


def test_where_a_class_is_left_by_nobody_every_loss_stays_its_own():
    labels = np.arange(600) < 200
    x = (np.arange(600) < 200) | (np.arange(600) >= 500)  # every toxic comment
    y = np.arange(600) % 2 == 0
    champion = labels + 0.3 * np.random.default_rng(5).standard_normal(600)
    candidate = champion + 0.8 * (x & ~labels)
    members = {"x": x, "y": y}
    losses = list_causes(
        build_measurer(labels, members, candidate, champion).find_losses("champion", 0.05)
    )
    assert {group for group, _ in losses} == {"x", "y"}
    assert set(map(tuple, losses.values())) == {()}

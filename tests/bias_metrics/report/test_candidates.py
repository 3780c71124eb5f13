"""Several candidates against one champion: each comparison, and the errors of all together."""

import numpy as np
import pytest

from bias_metrics import compare_bias, compare_candidates
from bias_metrics.families import adjust_holm

CELLS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


def draw(rng, k=5, n=600):
    """One champion, and candidates that are exactly as good."""
    y_true = rng.random(n) < 0.4
    shared = rng.normal(size=n) + y_true
    champion, *others = (shared + rng.normal(size=n) for _ in range(k + 1))
    names = [f"candidate {i}" for i in range(k)]
    return y_true, dict(zip(names, others, strict=True)), champion, {"gay": rng.random(n) < 0.4}


def test_each_comparison_is_that_of_two_models_at_a_corrected_confidence():
    y_true, candidates, champion, groups = draw(np.random.default_rng(0))
    found = compare_candidates(y_true, candidates, champion, groups, confidence=0.9)
    assert list(found) == list(candidates)
    for name, scores in candidates.items():
        alone = compare_bias(y_true, scores, champion, groups, confidence=1 - 0.1 / 5)
        assert found[name].confidence == alone.confidence
        assert found[name].joint_confidence == 0.9
        assert found[name].overall == alone.overall
        assert found[name].overall.final_score == alone.overall.final_score
        for metric in CELLS:
            one, other = (it.subgroups["gay"][metric] for it in (found[name], alone))
            assert (one.value, one.low, one.high) == (other.value, other.low, other.high)


def test_p_values_are_adjusted_for_all_cells_of_all_candidates():
    rows = draw(np.random.default_rng(0))
    found = compare_candidates(*rows)
    cells = [one.subgroups["gay"][metric] for one in found.values() for metric in CELLS]
    assert [one.p_holm for one in cells] == adjust_holm([one.p_value for one in cells])


def test_one_candidate_is_compared_as_by_compare_bias():
    y_true, candidates, champion, groups = draw(np.random.default_rng(1), k=1)
    (found,) = compare_candidates(y_true, candidates, champion, groups).values()
    alone = compare_bias(y_true, *candidates.values(), champion, groups)
    assert found.subgroups == alone.subgroups
    assert found.confidence == pytest.approx(0.95)


def test_weights_clusters_and_backgrounds_are_passed_on():
    y_true, candidates, champion, groups = draw(np.random.default_rng(1), k=1)
    options = {"clusters": np.arange(600) // 4, "background": "no_identity"}
    options |= {"sample_weight": 1.0 + np.arange(600) % 3}
    (found,) = compare_candidates(y_true, candidates, champion, groups, **options).values()
    alone = compare_bias(y_true, *candidates.values(), champion, groups, **options)
    assert found.subgroups == alone.subgroups
    assert found.background == "no_identity"


def test_they_are_records_by_candidate_and_ready_for_json():
    found = compare_candidates(*draw(np.random.default_rng(2), k=2))
    rows = found.rows()
    assert [row["candidate"] for row in rows[:: len(rows) // 2]] == list(found)
    assert found.to_dict()["candidate 1"]["joint_confidence"] == 0.95
    assert "joint_confidence" not in compare_bias(*draw_two()).to_dict()
    assert "shown at 95% confidence" in str(found["candidate 0"])


def draw_two():
    y_true, candidates, champion, groups = draw(np.random.default_rng(2), k=1)
    return y_true, *candidates.values(), champion, groups


def share_with_a_finding(k, draws, *, together):
    """Return how often any of the candidates is shown to differ in the overall AUC."""
    rng, found = np.random.default_rng(20190513), 0
    for _ in range(draws):
        y_true, candidates, champion, _ = draw(rng, k, 300)
        if together:
            each = compare_candidates(y_true, candidates, champion, {}).values()
        else:
            each = [compare_bias(y_true, one, champion, {}) for one in candidates.values()]
        found += any(not one.overall.auc.low <= 0 <= one.overall.auc.high for one in each)
    return found / draws


@pytest.mark.evaluates
def test_several_candidates_are_seldom_found_to_differ_by_chance():
    assert share_with_a_finding(5, 25, together=False) >= 0.12
    assert share_with_a_finding(5, 25, together=True) <= 0.08


@pytest.mark.slow
def test_the_chance_of_any_wrong_finding_is_that_of_one_comparison():
    assert share_with_a_finding(5, 1500, together=True) <= 0.05 + 2 * (0.05 * 0.95 / 1500) ** 0.5


def test_no_candidates_and_wrong_scores_are_refused():
    y_true, _, champion, groups = draw(np.random.default_rng(0), 1, 20)
    with pytest.raises(ValueError, match="`candidates` must hold at least one candidate"):
        compare_candidates(y_true, {}, champion, groups)
    with pytest.raises(ValueError, match=r"`candidates\['new'\]` must have 20 rows"):
        compare_candidates(y_true, {"new": champion[1:]}, champion, groups)
    with pytest.raises(TypeError, match="`candidates` must map a name"):
        compare_candidates(y_true, champion, champion, groups)

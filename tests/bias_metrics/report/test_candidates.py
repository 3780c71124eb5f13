"""Comparisons of several candidates with a champion, and their family-wise error rate."""

import numpy as np
import pytest

from bias_metrics import compare_bias, compare_candidates
from bias_metrics.families import adjust_holm

CELLS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")


def draw_candidates(rng, k=5, n=600):
    """Draw a champion, and candidates that are exactly as good."""
    y_true = rng.random(n) < 0.4
    shared = rng.normal(size=n) + y_true
    champion, *others = (shared + rng.normal(size=n) for _ in range(k + 1))
    names = [f"candidate {i}" for i in range(k)]
    return y_true, dict(zip(names, others, strict=True)), champion, {"gay": rng.random(n) < 0.4}


def test_each_comparison_is_that_of_two_models_at_a_corrected_confidence():
    y_true, candidates, champion, groups = draw_candidates(np.random.default_rng(0))
    comparisons = compare_candidates(y_true, candidates, champion, groups, confidence=0.9)
    assert list(comparisons) == list(candidates)
    for name, scores in candidates.items():
        alone = compare_bias(y_true, scores, champion, groups, confidence=1 - 0.1 / 5)
        assert comparisons[name].confidence == alone.confidence
        assert comparisons[name].joint_confidence == 0.9
        assert comparisons[name].overall == alone.overall
        assert comparisons[name].overall.final_score == alone.overall.final_score
        for metric in CELLS:
            one, other = (it.subgroups["gay"][metric] for it in (comparisons[name], alone))
            assert (one.value, one.low, one.high) == (other.value, other.low, other.high)


def test_p_values_are_adjusted_for_all_cells_of_all_candidates():
    rows = draw_candidates(np.random.default_rng(0))
    comparisons = compare_candidates(*rows)
    cells = [number.subgroups["gay"][metric] for number in comparisons.values() for metric in CELLS]
    assert [cell.p_holm for cell in cells] == adjust_holm([cell.p_value for cell in cells])


def test_one_candidate_is_compared_as_by_compare_bias():
    y_true, candidates, champion, groups = draw_candidates(np.random.default_rng(1), k=1)
    (found,) = compare_candidates(y_true, candidates, champion, groups).values()
    alone = compare_bias(y_true, *candidates.values(), champion, groups)
    assert found.subgroups == alone.subgroups
    assert found.confidence == pytest.approx(0.95)


def test_weights_clusters_and_backgrounds_are_passed_on():
    y_true, candidates, champion, groups = draw_candidates(np.random.default_rng(1), k=1)
    options = {"clusters": np.arange(600) // 4, "background": "no_identity"}
    options |= {"sample_weight": 1.0 + np.arange(600) % 3}
    (found,) = compare_candidates(y_true, candidates, champion, groups, **options).values()
    alone = compare_bias(y_true, *candidates.values(), champion, groups, **options)
    assert found.subgroups == alone.subgroups
    assert found.background == "no_identity"


def test_they_are_records_by_candidate_and_ready_for_json():
    comparisons = compare_candidates(*draw_candidates(np.random.default_rng(2), k=2))
    rows = comparisons.rows()
    assert [row["candidate"] for row in rows[:: len(rows) // 2]] == list(comparisons)
    assert comparisons.to_dict()["candidate 1"]["joint_confidence"] == 0.95
    assert "joint_confidence" not in compare_bias(*draw_two_models()).to_dict()
    assert "shown at 95% confidence" in str(comparisons["candidate 0"])


def draw_two_models():
    y_true, candidates, champion, groups = draw_candidates(np.random.default_rng(2), k=1)
    return y_true, *candidates.values(), champion, groups


def simulate_finding_rate(k, draws, *, together):
    """Simulate the rate at which any candidate differs significantly in the overall AUC."""
    rng, found = np.random.default_rng(20190513), 0
    for _ in range(draws):
        y_true, candidates, champion, _ = draw_candidates(rng, k, 300)
        if together:
            each = compare_candidates(y_true, candidates, champion, {}).values()
        else:
            each = [compare_bias(y_true, number, champion, {}) for number in candidates.values()]
        found += any(not item.overall.auc.low <= 0 <= item.overall.auc.high for item in each)
    return found / draws


@pytest.mark.evaluates
def test_several_candidates_are_seldom_found_to_differ_by_chance():
    assert simulate_finding_rate(5, 25, together=False) >= 0.12
    assert simulate_finding_rate(5, 25, together=True) <= 0.08


@pytest.mark.slow
def test_the_chance_of_any_wrong_finding_is_that_of_one_comparison():
    assert simulate_finding_rate(5, 1500, together=True) <= 0.05 + 2 * (0.05 * 0.95 / 1500) ** 0.5


def test_no_candidates_and_wrong_scores_are_refused():
    y_true, _, champion, groups = draw_candidates(np.random.default_rng(0), 1, 20)
    with pytest.raises(ValueError, match="`candidates` must hold at least one candidate"):
        compare_candidates(y_true, {}, champion, groups)
    with pytest.raises(ValueError, match=r"`candidates\['new'\]` must have 20 rows"):
        compare_candidates(y_true, {"new": champion[1:]}, champion, groups)
    with pytest.raises(TypeError, match="`candidates` must map a name"):
        compare_candidates(y_true, champion, champion, groups)

"""Confidences that `correction: bonferroni` of a policy changes, and those that it keeps."""

import pytest

from biasgate.tasks.gating.policy import Policy

RULE = {"metric": "auc", "scope": "overall", "floor": 0.8}


def policy(*rules, **options):
    content = {"version": 1, "name": "p", "rules": list(rules) or [RULE]}
    return Policy.model_validate(content | options)


@pytest.mark.parametrize(("correction", "n_sharing"), [("bonferroni", 5), ("none", 1)])
def test_candidates_share_alpha_if_the_policy_says_so(correction, n_sharing):
    assert policy(correction=correction).count_sharing_candidates(5) == n_sharing


def test_each_rule_has_its_own_confidence_corrected():
    rules = policy(RULE, RULE | {"confidence": 0.9, "id": "other"}).decision_rules(10)
    assert [rule.confidence for rule in rules] == pytest.approx([0.995, 0.99])


@pytest.mark.parametrize(("promote", "confidence"), [("better", 0.995), ("newer", 0.95)])
def test_only_a_proof_that_promotes_shares_alpha(promote, confidence):
    """With `promote: newer` a significant loss keeps the champion; a smaller alpha is lenient."""
    assert policy(promote=promote).get_objective_confidence(10) == pytest.approx(confidence)

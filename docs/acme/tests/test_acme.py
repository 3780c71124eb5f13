from pathlib import Path

import numpy as np

from bias_metrics import evaluate_bias
from biasgate.extend import Evidence, judge_rules, read_policy

RULES = read_policy("acme.yaml", Path(__file__).parents[1]).decision_rules()


def outcome(score_of_harmless_gay_comments):
    toxic = np.arange(400) % 2 == 0
    gay = np.arange(400) % 4 < 2
    scores = np.where(toxic, 0.9, 0.1) + np.linspace(0, 0.05, 400)
    scores[~toxic & gay] = score_of_harmless_gay_comments
    evidence = {}
    for level in {rule.level for rule in RULES}:
        table = evaluate_bias(toxic, scores, {"gay": gay}, threshold=0.5, confidence=level)
        evidence[None, level] = Evidence(table)
    return judge_rules(evidence, RULES).outcome


def test_a_model_that_flags_harmless_comments_of_one_identity_is_blocked():
    assert outcome(0.2) == "pass"
    assert outcome(0.6) == "fail"

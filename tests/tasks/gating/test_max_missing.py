"""The key `max_missing` of policies: what it accepts, and what it says."""

import pytest
from pydantic import ValidationError

from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_explained import explain_policy

RULE = {"metric": "auc", "scope": "overall", "floor": 0.8}


def policy(**options):
    return Policy.model_validate({"version": 1, "name": "p", "rules": [RULE]} | options)


def test_a_number_is_the_limit_of_all_and_of_each():
    limits = policy(max_missing=0.02).share_limits()["max_missing"]
    assert (limits.overall, limits.each, limits.gap, limits.mode) == (0.02, 0.02, None, "proven")
    assert limits.confidence == 0.95


def test_several_candidates_share_the_rate_of_false_passes_if_the_policy_says_so():
    shared = policy(max_missing=0.02, correction="bonferroni")
    assert shared.share_limits(shared.n_sharing_alpha(5))[
        "max_missing"
    ].confidence == pytest.approx(0.99)


@pytest.mark.parametrize(
    "value", [0, 1, -0.1, 2, True, "much", {}, {"each": 0}, {"eech": 0.1}, float("nan")]
)
def test_a_limit_that_decides_nothing_is_refused(value):
    with pytest.raises(ValidationError, match="max_missing"):
        policy(max_missing=value)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (None, "Every comment must have a score (no `max_missing`)."),
        (
            0.02,
            (
                "The share of comments without a score must be proven at most 0.02 of all "
                "comments; at most 0.02 of the comments that mention an identity. [max_missing]"
            ),
        ),
        (
            {"gap": 0.1, "action": "warn", "mode": "estimate"},
            (
                "The share of comments without a score should (a warning only) be at most 0.1 "
                "more for an identity than for other comments. [max_missing]"
            ),
        ),
    ],
)
def test_the_policy_in_words_says_how_many_may_have_none(limits, sentence):
    assert sentence in explain_policy(policy(max_missing=limits))

"""Accepted values and descriptions of the keys `max_missing` and `max_truncated` of policies."""

import pytest
from pydantic import ValidationError

from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_explained import explain_policy

RULE = {"metric": "auc", "scope": "overall", "floor": 0.8}
EACH_KEY = pytest.mark.parametrize("key", ["max_missing", "max_truncated"])


def policy(**options):
    return Policy.model_validate({"version": 1, "name": "p", "rules": [RULE]} | options)


@EACH_KEY
def test_a_number_is_the_limit_of_all_and_of_each(key):
    [(rule, limits)] = policy(**{key: 0.02}).list_share_limits().items()
    assert rule == key
    assert (limits.overall, limits.each, limits.gap, limits.mode) == (0.02, 0.02, None, "proven")
    assert limits.confidence == 0.95


@EACH_KEY
def test_several_candidates_share_the_rate_of_false_passes_if_the_policy_says_so(key):
    shared = policy(**{key: 0.02}, correction="bonferroni")
    limits = shared.list_share_limits(shared.count_sharing_candidates(5))[key]
    assert limits.confidence == pytest.approx(0.99)


@EACH_KEY
@pytest.mark.parametrize(
    "value", [0, 1, -0.1, 2, True, "much", {}, {"each": 0}, {"eech": 0.1}, float("nan")]
)
def test_a_limit_that_decides_nothing_is_refused(key, value):
    with pytest.raises(ValidationError, match=key):
        policy(**{key: value})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Every comment must have a score (no `max_missing`)."),
        ({"max_truncated": 0.1}, "Every comment must have a score (no `max_missing`)."),
        (
            {"max_missing": 0.02},
            (
                "The share of comments without a score must be proven at most 0.02 of all "
                "comments; at most 0.02 of the comments that mention an identity. [max_missing]"
            ),
        ),
        (
            {"max_missing": {"gap": 0.1, "action": "warn", "mode": "estimate"}},
            (
                "The share of comments without a score should (a warning only) be at most 0.1 "
                "more for an identity than for other comments. [max_missing]"
            ),
        ),
        (
            {"max_truncated": {"gap": 0.1}},
            (
                "The share of truncated comments must be proven at most 0.1 more for an identity "
                "than for other comments. A model for which it is unknown is insufficient. "
                "[max_truncated]"
            ),
        ),
    ],
)
def test_the_policy_in_words_says_how_many_there_may_be(options, sentence):
    assert sentence in explain_policy(policy(**options))

"""`correction: online` in a policy: what it says, what it changes, what is refused."""

from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from support.made import verdict_of
from support.partial import partial

from bias_metrics import lord_share
from bias_metrics.gate.rules import Rule, correct_for_candidates
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_explained import explain_policy, warn_of_policy
from biasgate.tasks.reporting.verdict_story import VerdictStory
from biasgate.tasks.scoring.registered_candidates import refuse_uncounted

RULE = {"metric": "auc", "scope": "overall", "floor": 0.8}


def policy(*rules, **options):
    content = {"version": 1, "name": "p", "rules": list(rules) or [RULE]}
    return Policy.model_validate(content | {"correction": "online"} | options)


def last_line(**options):
    return explain_policy(policy(**options))[-1]


def test_it_is_explained_with_what_is_bounded_and_the_confidence_of_one_decision():
    text = last_line(online={"decisions": 90})
    assert "the chance that any promotion of a calendar year is wrong is at most 5 %" in text
    assert "each of the 90 planned ones has 1 % of it" in text
    assert "with 99.95 % confidence instead of 95 %" in text
    assert "each of the 10 planned ones has 9 % of it" in last_line(online={"decisions": 10})
    assert "each of the 365 planned ones has 0.25 % of it" in last_line()
    text = last_line(online={"bounds": "share_wrong"}, confidence=0.9)
    assert "on average at most 10 % of the promotions of a calendar year are wrong" in text
    assert "the first has 2.7 % of it" in text


def test_a_rule_without_a_bound_is_warned_of():
    [warning] = [
        one for one in warn_of_policy(policy(RULE | {"mode": "estimate"}), None) if "online" in one
    ]
    assert warning == "`correction: online` bounds nothing that rule auc/overall alone blocks."


def test_policies_without_it_have_the_digest_that_they_had():
    plain = {"version": 1, "name": "p", "rules": [RULE]}
    known = Policy.model_validate(plain)
    assert known.digest == Policy.model_validate(plain | {"online": None}).digest
    assert known.spending is None
    assert policy().digest != policy(online={"decisions": 10}).digest


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"correction": "none", "online": {}}, "`online` needs `correction: online`"),
        ({"report_only": True}, "`report_only: true` decides nothing"),
        ({"online": {"decisions": 0}}, "greater than or equal to 1"),
        ({"online": {"bounds": "wrong"}}, "'any_wrong' or 'share_wrong'"),
        ({"online": {"alpha": 0.1}}, "alpha"),
    ],
)
def test_what_means_nothing_is_refused(options, text):
    with pytest.raises(ValidationError, match=text):
        policy(**options)


def test_a_share_of_alpha_is_that_of_each_rule():
    found = policy(RULE, RULE | {"confidence": 0.9, "id": "other"}).decision_rules(0.1)
    assert [one.confidence for one in found] == pytest.approx([0.995, 0.99])


@pytest.mark.parametrize(("promote", "confidence"), [("better", 0.975), ("newer", 0.95)])
def test_a_share_of_alpha_proves_a_better_one_but_keeps_no_worse_one_from_being_seen(
    promote, confidence
):
    assert policy(promote=promote).objective_confidence(0.5) == pytest.approx(confidence)


def test_a_plan_is_for_the_first_decision_of_a_year():
    assert policy(online={"decisions": 9}).first_share == pytest.approx(0.1)
    assert Policy.model_validate({"version": 1, "name": "p", "rules": [RULE]}).first_share == 1


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_a_share_is_above_zero_and_at_most_one(share):
    with pytest.raises(ValueError, match="`share` must be above 0 and at most 1"):
        correct_for_candidates([Rule("auc", "overall", floor=0.8)], 1, share)


def test_candidates_share_alpha_where_the_policy_says_so():
    assert policy(correction="bonferroni", online=None).share_of_alpha(5) == pytest.approx(0.2)
    assert policy(correction="none", online=None).share_of_alpha(5) == 1
    assert policy().share_of_alpha(5, 0.1) == 0.1


def test_only_a_proof_that_promotes_has_a_share_of_alpha():
    """With `promote: newer` a shown loss keeps the champion: a smaller alpha would be lenient."""
    assert policy(promote="better").objective_confidence(0.1) == pytest.approx(0.995)
    assert policy(promote="newer").objective_confidence(0.1) == 0.95


def test_many_promotions_earn_one_decision_no_more_than_all_of_alpha():
    """Each of 40 just promoted earns a first weight, 0.0548; the first, half of it."""
    shares, promotions = [0.002] * 50, [50] * 40
    assert lord_share(51, promotions) == pytest.approx(0.0548 * 39.5, rel=0.01)
    assert policy(online={"bounds": "share_wrong"}).spending.share(shares, promotions) == 1


def test_comments_without_a_score_have_a_share_of_alpha_too():
    limits = policy(max_missing=0.1).missing_limits(0.1)
    assert limits.confidence == pytest.approx(0.995)


def candidate(uri=None, *, trained=False, registers=None):
    training = object() if trained else None
    return SimpleNamespace(name="c", uri=uri, training=lambda: training, registered_model=registers)


@pytest.mark.parametrize(
    "one",
    [
        candidate("models:/toxicity/3"),
        candidate("models:/toxicity@next"),
        candidate(trained=True),
        candidate(registers="toxicity"),
    ],
)
def test_versions_are_counted(one):
    refuse_uncounted([one], "toxicity", "p")


@pytest.mark.parametrize("uri", [None, "models:/other/3", "models:/toxicity-2/3"])
def test_a_candidate_that_is_no_version_is_refused(uri):
    with pytest.raises(InputError, match="must be versions of toxicity; candidate c is none"):
        refuse_uncounted([candidate(uri)], "toxicity", "p")


def test_an_evaluation_without_a_registered_model_is_refused():
    with pytest.raises(InputError, match="which needs `registered_model` in the evaluation file"):
        refuse_uncounted([], None, "p")


def online_record(**changes):
    known = {"bounds": "any_wrong", "year": 2026, "number": 17, "planned": 365}
    return partial(known | {"share": 0.0025, "level": 0.000125} | changes)


def test_a_verdict_says_which_decision_of_the_year_it_is():
    assert VerdictStory.of_verdict(verdict_of()).basis == ()
    [text] = VerdictStory.of_verdict(verdict_of(online=online_record())).basis
    assert text == (
        "Decision 17 of 2026 (365 are planned): a candidate that is not good enough passes it with "
        "a chance of at most 0.013 %, so that the chance that any promotion of the year is wrong "
        "is at most 5 %."
    )
    online = online_record(bounds="share_wrong", planned=None)
    [text] = VerdictStory.of_verdict(verdict_of(online=online)).basis
    assert text.startswith("Decision 17 of 2026: ")
    assert text.endswith("so that on average at most 5 % of the promotions of the year are wrong.")

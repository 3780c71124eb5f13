"""The outcome of a candidate in a few words, as Prefect and a morning's message show it."""

import pytest
from support.made import decision_of, result, verdict_of

from biasgate.tasks.reporting.story import in_short


def check(sentence, outcome, **parts):
    return result(outcome, sentence=sentence, **parts)


def verdict(candidate, *checks, required=True):
    return verdict_of(*checks, name=candidate, required=required)


FAILED = check("bpsn_auc of gay 0.5 is below 0.8.", "fail")
VERDICTS = [
    verdict("a", check("On a set that decides nothing.", "fail"), required=False),
    verdict("a", check("Few rows.", "insufficient"), FAILED, FAILED, check("Fine.", "pass")),
    verdict("b", check("Warned.", "fail", action="warn"), check("Fine.", "pass")),
    verdict("c", check("Few rows.", "insufficient")),
]


@pytest.mark.parametrize(
    ("candidate", "outcome", "said"),
    [
        ("a", "fail", "Blocked. bpsn_auc of gay 0.5 is below 0.8. It is one of 2 such checks. X."),
        ("b", "pass", "Passed. X."),
        ("c", "insufficient", "Not enough evidence. Few rows. X."),
        ("d", "error", "Error. X."),
    ],
)
def test_the_outcome_is_told_with_the_first_check_behind_it(candidate, outcome, said):
    assert in_short(decision_of(candidate, outcome, "X."), VERDICTS) == said

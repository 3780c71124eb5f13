"""The outcome of a candidate in a few words, as Prefect and a morning's message show it."""

import pytest

from biasgate.tasks.reporting.headline import told


def check(sentence, outcome, *, action="block", waived_by=None):
    return {"sentence": sentence, "outcome": outcome, "action": action, "waived_by": waived_by}


def verdict(candidate, *checks, required=True):
    of_set = {"name": "s", "required": required}
    return {"candidate": {"name": candidate}, "evaluation_set": of_set, "results": list(checks)}


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
    decision = {"candidate": candidate, "outcome": outcome, "sentence": "X."}
    assert told(decision, VERDICTS) == said

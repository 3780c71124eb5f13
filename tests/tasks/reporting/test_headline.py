"""The outcome of a candidate in a few words, as Prefect and a morning's message show it."""

from dataclasses import replace

import pytest
from support.made import decision_of, loss, result, rival_of, verdict_of

from bias_metrics.gate.exceptions import PassException
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.records import HoldsFor
from biasgate.tasks.reporting.candidates import CandidateStory, _lacking
from biasgate.tasks.reporting.story import VerdictStory, _headline
from biasgate.tasks.wording import in_short


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


def passed_on(of_set, *names, required=True, outcome="pass", **parts):
    """Return a pass on a set that is proven for the first of these identities alone."""
    known = {"why": "no_rule", "n_checks": 1}
    exceptions = [PassException(name, sentence=f"{name} is open.", **known) for name in names[1:]]
    extent = HoldsFor(identities=list(names[:1]), of=len(names))
    parts |= {"outcome": outcome, "holds_for": extent, "exceptions": exceptions}
    return verdict_of(of_set=of_set, required=required, **parts)


def told_of(*verdicts, outcome="pass"):
    """Return what is said of a candidate with these verdicts."""
    stories = tuple(map(VerdictStory.of_verdict, verdicts))
    return CandidateStory("c", WORDS[outcome], "X.", stories)


def test_with_several_sets_each_exception_names_its_set():
    assert told_of(passed_on("news", "gay", "deaf")).exceptions == (
        "Proven for gay.",
        "Except deaf is open.",
    )
    both = told_of(passed_on("news", "gay", "deaf"), passed_on("forum", "deaf", "gay"))
    assert both.exceptions == (
        "Proven on news for gay.",
        "Except on news, deaf is open.",
        "Proven on forum for deaf.",
        "Except on forum, gay is open.",
    )


def test_exceptions_are_those_of_the_sets_that_decide():
    failed = passed_on("extra", "gay", "deaf", required=False, outcome="fail")
    assert told_of(passed_on("news", "gay", "deaf"), failed).exceptions == (
        "Proven on news for gay.",
        "Except on news, deaf is open.",
    )
    blocked = passed_on("forum", "gay", "deaf", outcome="fail")
    assert told_of(passed_on("news", "gay", "deaf"), blocked, outcome="fail").exceptions == ()


def lacking(**parts):
    """Return a check without enough evidence; `parts` are of its result."""
    return check("It is open.", "insufficient", **parts)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (
            [lacking(group="deaf", rows_needed={"positive": 134})],
            "1 check has too few comments, 134 toxic more that mention deaf",
        ),
        ([lacking(low=0.78, high=0.83)] * 2, "2 checks are too close to the limit to tell"),
        (
            [lacking(kind="champion", low=-0.02, high=0.01)],
            "1 check is too close to the margin to tell",
        ),
        ([lacking()], "1 check lacks evidence"),
    ],
)
def test_what_a_pass_takes_is_no_more_than_is_known(results, said):
    assert "; ".join(_lacking(results)) == said


def test_a_pass_with_a_shown_loss_is_told_and_coloured_as_one_with_exceptions():
    lost = passed_on("news", "gay", champion=rival_of(), worsened=[loss("gay")])
    story = VerdictStory.of_verdict(lost)
    assert _headline(story, None, []) == (
        "Passed with exceptions: gay is treated worse than by the champion; the policy lets that "
        "pass."
    )
    assert (told_of(lost).badge, told_of(passed_on("news", "gay")).badge) == ("except", "pass")
    blocked = replace(lost, outcome="fail")
    assert _headline(VerdictStory.of_verdict(blocked), None, []).startswith("gay is treated worse")
    assert told_of(blocked, outcome="fail").badge == "fail"

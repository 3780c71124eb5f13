"""Final states of flows for every outcome."""

import pickle

import pytest
from support.made import decision_of, summary_of

from biasgate.flows.states import NotPassedError, conclude


@pytest.mark.parametrize(
    ("outcome", "report_only", "name", "word"),
    [
        ("pass", False, "Passed", "Passed"),
        ("fail", False, "Blocked", "Blocked"),
        ("insufficient", False, "Undecided", "Undecided"),
        ("error", False, "Error", "Error"),
        ("pass", True, "Reported", "Reported only"),
    ],
)
def test_every_outcome_completes_the_flow_under_its_name(outcome, report_only, name, word):
    known = {"outcome": outcome, "report_only": report_only}
    sentences = {"a": "One.", "b": "Two."}
    decisions = [
        decision_of(candidate, sentence=text, **known) for candidate, text in sentences.items()
    ]
    summary = summary_of(decisions=decisions, **known)
    state = conclude(summary)
    assert (state.name, state.type.value) == (name, "COMPLETED")
    assert (state.message, state.data) == (f"a: {word}. One. b: {word}. Two.", summary)


def test_a_failed_state_raises_the_outcome_in_words_and_carries_the_summary():
    summary = summary_of(decisions=[decision_of("a", sentence="Not promoted.")])
    state = conclude(summary, fail_when_blocked=True)
    with pytest.raises(NotPassedError, match=r"^Blocked\. a: Blocked\. Not promoted\.$") as raised:
        state.result()
    assert pickle.loads(pickle.dumps(raised.value)).summary == summary  # noqa: S301 - as Prefect does


def test_the_state_of_a_night_names_who_moved():
    moved = "gay got worse with a on news: BPSN AUC 0.910 -> 0.840 in 2 nights."
    decisions = [decision_of("a", sentence="Not promoted.")]
    state = conclude(summary_of(decisions=decisions, moved=[moved]))
    assert state.message == f"a: Blocked. Not promoted. {moved}"

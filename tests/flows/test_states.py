"""How a flow ends: every outcome has a state."""

import pickle

import pytest
from support.partial import partial

from biasgate.flows.states import NotPassedError, conclude


@pytest.mark.parametrize(
    ("outcome", "report_only", "name"),
    [
        ("pass", False, "Passed"),
        ("fail", False, "Blocked"),
        ("insufficient", False, "Insufficient"),
        ("error", False, "Error"),
        ("pass", True, "Reported"),
    ],
)
def test_every_outcome_completes_the_flow_under_its_name(outcome, report_only, name):
    known = {"outcome": outcome, "report_only": report_only}
    summary = partial(known | {"sentences": ["a: One.", "b: Two."]})
    state = conclude(summary)
    assert (state.name, state.type.value) == (name, "COMPLETED")
    assert (state.message, state.data) == ("a: One. b: Two.", summary)


def test_a_failed_state_raises_the_outcome_in_words_and_carries_the_summary():
    known = {"outcome": "fail", "report_only": False}
    summary = partial(known | {"sentences": ["a: Not promoted."]})
    state = conclude(summary, fail_when_blocked=True)
    with pytest.raises(NotPassedError, match=r"^Blocked\. a: Not promoted\.$") as told:
        state.result()
    assert pickle.loads(pickle.dumps(told.value)).summary == summary  # noqa: S301 - as Prefect does

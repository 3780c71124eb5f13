"""How a flow ends: every outcome has a state."""

import pytest

from biasgate.flows.states import conclude


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
    summary = {"outcome": outcome, "report_only": report_only, "sentences": ["a: One.", "b: Two."]}
    state = conclude(summary)
    assert (state.name, state.type.value) == (name, "COMPLETED")
    assert (state.message, state.data) == ("a: One. b: Two.", summary)

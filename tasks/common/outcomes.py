"""The words for outcomes, in one place: checks pass or fail, a candidate is passed or blocked.

Files keep the short values (`pass`, `fail`, `insufficient`, `error`); people read these words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from biasgate.tasks.records import Decision, Summary

Occasion = Literal["pass", "block", "insufficient", "error"]


@dataclass(frozen=True)
class Word:
    """The words for one outcome of a candidate.

    Attributes
    ----------
    text : str
        Shown to people.
    state : str
        Name of the flow's state in Prefect.
    occasion : str
        In `notifications` and in messages that programs read.
    exit_code : int
        Of the command.
    """

    text: str
    state: str
    occasion: Occasion
    exit_code: int


WORDS = {
    "pass": Word("Passed", "Passed", "pass", 0),
    "fail": Word("Blocked", "Blocked", "block", 3),
    "insufficient": Word("Not enough evidence", "Insufficient", "insufficient", 4),
    "error": Word("Error", "Error", "error", 1),
}
REPORTED = Word("Reported only", "Reported", "pass", 0)


def word_of(decision: Decision | Summary) -> Word:
    """Return the words for the outcome of a candidate, or of a whole evaluation.

    Where the policy only reports, a candidate that could not be scored is still an error.
    """
    reported = decision.get("report_only") and decision["outcome"] != "error"
    return REPORTED if reported else WORDS[decision["outcome"]]

"""The words for outcomes: checks pass or fail, candidates are passed or blocked.

Files contain the short values (`pass`, `fail`, `insufficient`, `error`); people read these words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from biasgate.tasks.records import Decision, Summary

Occasion = Literal["pass", "block", "insufficient", "error"]


@dataclass(frozen=True)
class Word:
    """The words for one outcome of a candidate."""

    status: str
    """The short value, for colours; `reported` if the policy only reports."""
    text: str
    """The words for people."""
    state: str
    """Name of the flow's state in Prefect."""
    occasion: Occasion
    """The value in `notifications`, and in messages for programs."""
    exit_code: int
    """Exit code of the command."""


WORDS = {
    "pass": Word("pass", "Passed", "Passed", "pass", 0),
    "fail": Word("fail", "Blocked", "Blocked", "block", 3),
    "insufficient": Word("insufficient", "Undecided", "Undecided", "insufficient", 4),
    "error": Word("error", "Error", "Error", "error", 1),
}
EXCEPT = "Passed with exceptions"
COPY = "Passed as a copy of the champion: not promoted"
NOT_REGISTERED = "Not a registered version: nothing to promote."
"""The decision on a candidate that cannot become champion."""
REPORTED = Word("reported", "Reported only", "Reported", "pass", 0)


def get_outcome_words(decision: Decision | Summary) -> Word:
    """Return the words for the outcome of a candidate, or of a whole evaluation.

    A candidate that could not be scored is an error, even if the policy only reports.
    """
    is_reported = decision.report_only and decision.outcome != "error"
    if is_reported:
        return REPORTED
    word = WORDS[decision.outcome]
    decisions: Sequence[Decision] = getattr(decision, "decisions", None) or ()
    decisive = [entry for entry in decisions if entry.outcome == decision.outcome]
    texts = list(dict.fromkeys(get_outcome_words(entry).text for entry in decisive))
    if len(texts) > 1 and decision.outcome == "pass":
        texts = [EXCEPT]
    text = getattr(decision, "word", None) or next(iter(texts), word.text)
    return replace(word, text=text)

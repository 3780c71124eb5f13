"""The words for outcomes, in one place: checks pass or fail, a candidate is passed or blocked.

Files keep the short values (`pass`, `fail`, `insufficient`, `error`); people read these words.
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
    """Shown to people."""
    state: str
    """Name of the flow's state in Prefect."""
    occasion: Occasion
    """In `notifications` and in messages that programs read."""
    exit_code: int
    """Of the command."""


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


def word_of(decision: Decision | Summary) -> Word:
    """Return the words for the outcome of a candidate, or of a whole evaluation.

    Where the policy only reports, a candidate that could not be scored is still an error.
    """
    reported = decision.report_only and decision.outcome != "error"
    if reported:
        return REPORTED
    word = WORDS[decision.outcome]
    decisions: Sequence[Decision] = getattr(decision, "decisions", None) or ()
    same = [entry for entry in decisions if entry.outcome == decision.outcome]
    texts = list(dict.fromkeys(word_of(entry).text for entry in same))
    if len(texts) > 1 and decision.outcome == "pass":
        texts = [EXCEPT]
    text = getattr(decision, "word", None) or next(iter(texts), word.text)
    return replace(word, text=text)

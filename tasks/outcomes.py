"""The words for outcomes, in one place: checks pass or fail, a candidate is passed or blocked.

Files keep the short values (`pass`, `fail`, `insufficient`, `error`); people read these words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from biasgate.tasks.common.printable import printable

if TYPE_CHECKING:
    from biasgate.tasks.records import Decision, HoldsFor, Summary, Verdict

Occasion = Literal["pass", "block", "insufficient", "error"]


@dataclass(frozen=True)
class Word:
    """The words for one outcome of a candidate."""

    text: str
    """Shown to people."""
    state: str
    """Name of the flow's state in Prefect."""
    occasion: Occasion
    """In `notifications` and in messages that programs read."""
    exit_code: int
    """Of the command."""


WORDS = {
    "pass": Word("Passed", "Passed", "pass", 0),
    "fail": Word("Blocked", "Blocked", "block", 3),
    "insufficient": Word("Not enough evidence", "Insufficient", "insufficient", 4),
    "error": Word("Error", "Error", "error", 1),
}
EXCEPT = "Passed with exceptions"
MOST_EXCEPTIONS = 12
SHOWN_HARM = "shown_harm"
_NAMED = 2
REPORTED = Word("Reported only", "Reported", "pass", 0)


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


def word_of_verdict(*verdicts: Verdict) -> Word:
    """Return the words for the verdicts on a candidate on one set, or on several.

    A pass says for how many identities it is proven, and whether it has exceptions; a block by
    harm that is shown, for whom. Names of identities are in it: escape it where it is shown.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    outcome = next(name for name in ("error", "fail", "insufficient", "pass") if name in outcomes)
    if any(verdict.policy.report_only for verdict in verdicts):
        return REPORTED
    if outcome == "fail":
        return replace(WORDS[outcome], text=_blocked(verdicts))
    if outcome != "pass":
        return WORDS[outcome]
    fewest = min((verdict.holds_for for verdict in verdicts), key=_share)
    n, of = len(fewest.identities), fewest.of
    text = WORDS[outcome].text
    if n < of:
        text = f"Passed for {n:,} of {of:,} identities"
    elif any(verdict.exceptions for verdict in verdicts):
        text = EXCEPT
    return replace(WORDS[outcome], text=text)


def _blocked(verdicts: Sequence[Verdict]) -> str:
    """Return the words for a block, with those who are shown to be worse off, the worst first."""
    shown = (
        str(result.group)
        for verdict in verdicts
        for result in verdict.results
        if result.rule == SHOWN_HARM and result.outcome == "fail"
        if result.action == "block"
    )
    # An identity is left out if its loss is not shown without the comments of a worse one.
    own = {cell.group for verdict in verdicts for cell in verdict.worsened if not cell.without}
    every = list(dict.fromkeys(shown))
    text, names = WORDS["fail"].text, [name for name in every if name in own] or every
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{text}, worse for {', '.join(names[:_NAMED])}{more}" if names else text


def _share(holds_for: HoldsFor) -> float:
    return len(holds_for.identities) / holds_for.of if holds_for.of else 1.0


def exceptions_in_words(verdicts: Sequence[Verdict], most: int = MOST_EXCEPTIONS) -> list[str]:
    """Return for whom a pass of a candidate is proven, and what it does not say, line by line.

    Nothing if it did not pass, or if nothing is to be said. Identities that are not measured for
    one reason share a line.

    Parameters
    ----------
    verdicts : sequence of Verdict
        Its verdicts; with several, each line names the set.
    most : int
        Lines; a last one says how many more there are.
    """
    if any(verdict.outcome != "pass" or verdict.policy.report_only for verdict in verdicts):
        return []
    lines = [
        printable(line)
        for verdict in verdicts
        for line in _exceptions(verdict, alone=len(verdicts) == 1)
    ]
    more = len(lines) - most
    return [*lines[:most], f"And {more:,} more in verdict.json."] if more > 0 else lines


def _exceptions(verdict: Verdict, *, alone: bool) -> Iterator[str]:
    on_set = "" if alone else f" on {verdict.evaluation_set.name}"
    names, of = verdict.holds_for.identities, verdict.holds_for.of
    if len(names) < of:
        yield f"Proven{on_set} for {', '.join(names) or 'no identity'}."
    start = f"Except{on_set}{'' if alone else ','}"
    unmeasured: dict[str, list[str]] = {}
    for entry in verdict.exceptions:
        if entry.reason is None:
            colon = "" if entry.group else ":"
            yield f"{start}{colon} {entry.sentence}"
        else:
            unmeasured.setdefault(entry.reason, []).append(str(entry.group))
    for reason, unnamed in unmeasured.items():
        yield f"{start} not measured ({reason}): {', '.join(unnamed)}."

"""What a run says in few words: the metrics and tags that lists of runs are sorted by."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.gate import Loss
from biasgate.tasks.common.printable import printable
from biasgate.tasks.outcomes import exceptions_in_words, word_of_verdict
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.losses import in_words

WORST_TAG = "biasgate.worst"
VERDICT = "biasgate.verdict"
EXCEPTIONS = "biasgate.exceptions"
WORSENED = "biasgate.worse_than_champion"
FAILED, INSUFFICIENT = "checks/failed", "checks/insufficient"
# Most numbers in a tag: its column in a list of runs is narrow.
_TOLD = 2
_LONGEST = 4_000  # characters of a tag


def headline_metrics(report: Report, verdict: Verdict) -> dict[str, float]:
    """Return the worst value of each metric, and how many checks did not pass.

    `worst/bpsn_auc` is the lowest value of all identities, and `worst_low/bpsn_auc` the lower end
    of its interval. An AEG is worst where it is farthest from 0, on either side; its `worst_low`
    is the smallest distance that the intervals allow. Undefined numbers are left out.
    """
    outcomes = [one.outcome for one in verdict.results]
    found: dict[str, float] = {
        FAILED: outcomes.count("fail"),
        INSUFFICIENT: outcomes.count("insufficient"),
    }
    for metric, worst in report.bias.worst.items():
        low = worst.value.low if worst.size_low is None else worst.size_low
        if worst.value.value is not None:
            found[f"worst/{metric}"] = worst.value.value
        if low is not None:
            found[f"worst_low/{metric}"] = low
    return found


def headline_tags(report: Report, verdict: Verdict) -> dict[str, str]:
    """Return the verdict, the worst identity by each metric, and what is worse than before."""
    worst = {
        f"{WORST_TAG}.{metric}": printable(one.subgroup)
        for metric, one in report.bias.worst.items()
        if one.subgroup is not None
    }
    known = {VERDICT: verdict.outcome, WORSENED: _worsened(verdict)}
    if verdict.outcome == "pass":
        excepted = [word_of_verdict(verdict).text, *exceptions_in_words([verdict])]
        known[EXCEPTIONS] = printable(" ".join(f"{line.removesuffix('.')}." for line in excepted))[
            :_LONGEST
        ]
    return known | worst


def _worsened(verdict: Verdict) -> str:
    if verdict.champion is None:
        return "no champion"
    return _in_words(verdict.worsened)


def _in_words(worsened: Sequence[Loss]) -> str:
    """Return what is shown to be worse, an identity's own losses first."""
    if not worsened:
        return "nothing shown"
    own_first = sorted(worsened, key=lambda cell: bool(cell.without))
    told = [in_words(cell) for cell in own_first[:_TOLD]]
    more = len(worsened) - len(told)
    return "; ".join([*told, *([f"{more} more"] if more else [])])

"""What no rule can pass: scores that separate nothing, and numbers that a few heavy rows decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bias_metrics.gate.verdict import Reason, RuleResult
from bias_metrics.groups.dominance import DominantUnits
from bias_metrics.metrics import GIVEN, METRICS, SUBGROUP_METRICS, threshold_metrics
from bias_metrics.table import BiasTable, Key

USEFUL, FLAGGED = "useful", "flag_rate"
CHANCE, LEAST_FLAGGED = 0.5, 0.001
"""The AUC of scores that separate nothing; the share of a class that a useful threshold flags."""
_CLASSES = ("negative", "positive")


class Flagged(NamedTuple):
    """The share of each class that a threshold flags; None for a class without rows."""

    threshold: float
    negative: float | None
    positive: float | None


def judge_usefulness(
    table: BiasTable,
    at: Flagged | None = None,
    *,
    confidence: float = 0.975,
    is_sample: bool = True,
) -> tuple[RuleResult, ...]:
    """Return what is lacking of a useful model; nothing if it is one.

    A model that flags everything has gaps of 0, and one that guesses is as good as another that
    does. So rules about gaps and margins alone would pass both.

    Parameters
    ----------
    table : BiasTable
        With the overall AUC and its interval.
    at : Flagged, optional
        What the threshold in use flags.
    confidence : float, default=0.975
        One-sided confidence of the bounds of the AUC.
    is_sample : bool, default=True
        Whether rows are a sample; if not, the AUC itself decides.

    Returns
    -------
    tuple of RuleResult
        An `insufficient` result where the overall AUC is not shown to be above .5, or where the
        threshold flags less than .1 %, or more than 99.9 %, of both classes.
    """
    auc, rows = table[Key("auc")], table.counts[None]
    bound = auc.low if is_sample else auc.value
    known: dict[str, Any] = {
        "rule": USEFUL,
        "scope": "overall",
        "group": None,
        "slice": None,
        "confidence": confidence,
        "mode": "proven" if is_sample else "estimate",
        "n_positive": rows.n_positive,
        "n_negative": rows.n_negative,
        "outcome": "insufficient",
        "action": "block",
    }
    found = []
    if auc.value is not None and (bound is None or bound <= CHANCE):
        found.append(
            RuleResult(
                kind="floor",
                metric="auc",
                limit=CHANCE,
                value=auc.value,
                low=auc.low,
                high=auc.high,
                bound=bound,
                reason="no_better_than_chance",
                why=auc.reason if bound is None else None,
                **known,
            )
        )
    if at is not None and (reason := _of_threshold(at)) is not None:
        flags: dict[str, Any] = {"metric": FLAGGED, "value": at.negative, "at": at.threshold}
        flags |= {"threshold": GIVEN, "positives_flagged": at.positive, "reason": reason}
        found.append(RuleResult(kind="floor", limit=LEAST_FLAGGED, **flags, **known))
    return tuple(found)


def _of_threshold(at: Flagged) -> Reason | None:
    """Return whether a threshold flags hardly any comment, or nearly every one."""
    if at.negative is None or at.positive is None:
        return None
    if max(at.negative, at.positive) < LEAST_FLAGGED:
        return "flags_nothing"
    return "flags_everything" if min(at.negative, at.positive) > 1 - LEAST_FLAGGED else None


def unjudged(judged: Collection[str], *, at_threshold: bool) -> tuple[str, ...]:
    """Return the metrics that no blocking rule is about: the overall AUC, and those of subgroups.

    Parameters
    ----------
    judged : collection of str
        The metrics of the blocking rules. The final score has the overall AUC among its parts.
    at_threshold : bool
        Whether there is a threshold in use, so that error rates count too.

    Examples
    --------
    >>> unjudged({"final_score", "subgroup_auc", "bpsn_auc", "positive_aeg"}, at_threshold=False)
    ('bnsp_auc', 'negative_aeg')
    """
    every = ["auc", *SUBGROUP_METRICS, *(threshold_metrics() if at_threshold else ())]
    known = {*judged, *(["auc"] if "final_score" in judged else [])}
    return tuple(metric for metric in every if metric not in known)


def without_proof(
    results: Sequence[RuleResult], dominant: Iterable[DominantUnits]
) -> list[RuleResult]:
    """Return the results; a pass that few rows of large weight decide is `insufficient`.

    Parameters
    ----------
    results : sequence of RuleResult
        Of rules on all rows.
    dominant : iterable of DominantUnits
        What numbers depend on heavily, of all rows and by subgroup.
    """
    heavy = {(one.subgroup, one.label): one for one in dominant if one.weight is not None}
    return [_doubted(result, heavy) for result in results] if heavy else list(results)


def _doubted(
    result: RuleResult, heavy: Mapping[tuple[str | None, str], DominantUnits]
) -> RuleResult:
    if result.outcome != "pass" or result.mode != "proven" or result.metric not in METRICS:
        return result
    own, background = METRICS[result.metric].classes if result.group else (_CLASSES, ())
    compared = [(result.group, label) for label in own] + [(None, label) for label in background]
    if result.group is None:  # of all rows, or of several subgroups
        compared = list(heavy)
    units = next((heavy[one] for one in compared if one in heavy), None)
    if units is None:
        return result
    return replace(result, outcome="insufficient", dominated_by=units)

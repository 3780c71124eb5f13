"""Doubts that no rule covers: useless scores, and numbers dominated by a few heavy rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bias_metrics.gate.verdict import Reason, RuleResult
from bias_metrics.groups.dominance import DominantUnits
from bias_metrics.metrics import GIVEN, METRICS, SUBGROUP_METRICS, list_threshold_metrics
from bias_metrics.table import BiasTable, Key

USEFULNESS_RULE, FLAG_RATE = "useful", "flag_rate"
CHANCE, LEAST_FLAGGED = 0.5, 0.001
"""AUC of random scores; smallest share of a class that a useful threshold flags."""


class FlagRates(NamedTuple):
    """The shares of both classes that a threshold flags; None for a class without rows."""

    threshold: float
    negative: float | None
    positive: float | None


def judge_usefulness(
    table: BiasTable,
    flag_rates: FlagRates | None = None,
    *,
    confidence: float = 0.975,
    is_sample: bool = True,
) -> tuple[RuleResult, ...]:
    """Check that a model is better than chance, and that its threshold separates rows.

    A model that flags everything has gaps of 0, and two models that guess do not differ. Rules
    about gaps and margins would therefore pass both.

    An `insufficient` result reports an overall AUC that is not significantly above .5, or a
    threshold that flags less than .1 %, or more than 99.9 %, of both classes. `flag_rates` are the
    shares flagged by the threshold in use. `confidence` is the one-sided confidence of the bounds
    of the AUC. If rows are not a sample, the AUC itself decides instead of its bound.
    """
    auc, rows = table[Key("auc")], table.counts[None]
    bound = auc.low if is_sample else auc.value
    common: dict[str, Any] = {
        "rule": USEFULNESS_RULE,
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
    results = []
    if auc.value is not None and (bound is None or bound <= CHANCE):
        results.append(
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
                **common,
            )
        )
    reason: Reason | None = None
    shares = () if flag_rates is None else (flag_rates.negative, flag_rates.positive)
    known = [share for share in shares if share is not None]
    if len(known) == 2 and max(known) < LEAST_FLAGGED:
        reason = "flags_nothing"
    elif len(known) == 2 and min(known) > 1 - LEAST_FLAGGED:
        reason = "flags_everything"
    if flag_rates is not None and reason is not None:
        results.append(
            RuleResult(
                kind="floor",
                metric=FLAG_RATE,
                limit=LEAST_FLAGGED,
                value=flag_rates.negative,
                threshold=GIVEN,
                at=flag_rates.threshold,
                positives_flagged=flag_rates.positive,
                reason=reason,
                **common,
            )
        )
    return tuple(results)


def list_unjudged_metrics(judged: Collection[str], *, has_threshold: bool) -> tuple[str, ...]:
    """Return the metrics without a blocking rule: overall AUC, subgroup metrics, error rates.

    `judged` has the metrics of the blocking rules; `final_score` includes the overall AUC. Error
    rates are expected if a threshold is in use.

    Examples
    --------
    >>> judged = {"final_score", "subgroup_auc", "bpsn_auc", "positive_aeg"}
    >>> list_unjudged_metrics(judged, has_threshold=False)
    ('bnsp_auc', 'negative_aeg')
    """
    every = ["auc", *SUBGROUP_METRICS, *(list_threshold_metrics() if has_threshold else ())]
    covered = {*judged, *(["auc"] if "final_score" in judged else [])}
    return tuple(metric for metric in every if metric not in covered)


def withdraw_dominated_passes(
    results: Sequence[RuleResult], dominant: Iterable[DominantUnits]
) -> list[RuleResult]:
    """Return the results, with `insufficient` for a pass that depends on a few heavy rows.

    `results` are those of rules on all rows; `dominant` are the rows, or clusters, that dominate
    numbers, overall or by subgroup.
    """
    heavy = {(units.subgroup, units.label): units for units in dominant if units.weight is not None}
    kept = []
    for result in results:
        units = None
        if result.outcome == "pass" and result.mode == "proven" and result.metric in METRICS:
            compared = list(heavy)  # the number covers all rows, or several subgroups
            if result.group is not None:
                own, background = METRICS[result.metric].classes
                compared = [(result.group, label) for label in own]
                compared += [(None, label) for label in background]
            units = next((heavy[key] for key in compared if key in heavy), None)
        kept.append(
            result if units is None else replace(result, outcome="insufficient", dominated_by=units)
        )
    return kept

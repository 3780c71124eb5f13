"""Suggested limits for a model and a set: floors from the model's numbers, margins by power.

If the model was evaluated at a threshold, its gaps in error rates there get ceilings too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from bias_metrics import MetricValue
from bias_metrics.gate import chance_of_all, chance_of_proof, difference_error
from bias_metrics.metrics import AUCS, GIVEN, METRICS, metrics_of
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.answers import given_threshold
from biasgate.tasks.evidence.file import evidence_at
from biasgate.tasks.gating.policy_losses import (
    CORRELATION,
    Asked,
    IdentityLoss,
    losses_in_words,
    losses_of_evidence,
    reach_of,
)
from biasgate.tasks.records import MeasuredNumbers, metric_cells
from biasgate.tasks.records.record import Record

CONFIDENCE = 0.95
CHANCE = 0.9
MARGINS = (0.01, 0.02, 0.03, 0.05, 0.1)
_Z_BOUND = NormalDist().inv_cdf(CONFIDENCE)
_STEP = 0.01
_SUPPORT = 25


@dataclass(frozen=True)
class Power:
    """The chance that an equal model passes rules with a margin: the hardest one, and all."""

    margin: float
    worst_rule: float
    all_rules: float


@dataclass(frozen=True, kw_only=True)
class Advice(Record):
    """What a set can prove about a model."""

    limits: dict[str, float]
    """By metric: the floor, or ceiling, that an equal model meets with `CHANCE` per group."""
    margin: float | None
    """The smallest margin at which an equal model passes all rules with `CHANCE`, or None."""
    power: list[Power]
    """For each margin."""
    weak: list[str]
    """Groups with too few rows to judge."""
    n_rules: int
    """Relative rules behind `power`: groups x metrics."""
    losses: list[IdentityLoss]
    """What a pass leaves open, with the suggested margin of AUCs."""


def advise(path: Path, correlation: float = CORRELATION) -> Advice:
    """Return the limits and margins that a set can support.

    Parameters
    ----------
    path : Path
        An `evidence.parquet`, or the folder of results that holds it.
    correlation : float, default=0.8
        Assumed correlation of the candidate's and the champion's estimates.

    Returns
    -------
    Advice
        By the normal approximation. Rules are treated as independent, so if groups overlap,
        the joint chance is too small rather than too large.

    Raises
    ------
    InputError
        If there is no such file, or no identity with enough comments.
    """
    evidence = evidence_at(path)
    key = (None, 2 * CONFIDENCE - 1)
    found = evidence.measure([key], given_threshold(evidence.path))[key]
    numbers = MeasuredNumbers.from_dict(found.report)
    gaps = numbers.thresholds[GIVEN].subgroups if GIVEN in numbers.thresholds else {}
    strong = {}
    for name, one in numbers.subgroups.items():
        cells = {**metric_cells(one), **gaps.get(name, {})}
        has_ends = all(reach_of(cell) is not None for cell in cells.values())
        if has_ends and min(one.n_positive, one.n_negative) >= _SUPPORT:
            strong[name] = cells
    if not strong:
        msg = (
            f"{evidence.path} must have an identity with {_SUPPORT} comments of each class to "
            "suggest a rule; it has none. `biasgate policy plan` says how many to label."
        )
        raise InputError(msg)
    errors = [
        difference_error(_error(metric, cells[metric]), correlation)
        for cells in strong.values()
        for metric in AUCS
    ]
    power = []
    for margin in MARGINS:
        chances = [chance_of_proof(margin, error, CONFIDENCE) for error in errors]
        power.append(Power(margin, min(chances), chance_of_all(chances)))
    enough = next((one.margin for one in power if one.all_rules >= CHANCE), None)

    def asked(_: str, metric: str) -> Asked:
        return Asked(CONFIDENCE, enough if metric in AUCS else None)

    losses = losses_of_evidence(path, asked, correlation)
    return Advice(
        limits=dict(_limits(list(strong.values()))),
        margin=enough,
        power=power,
        weak=[name for name in numbers.subgroups if name not in strong],
        n_rules=len(errors),
        losses=losses,
    )


def suggested_policy(advice: Advice, name: str) -> str:
    """Return a policy as YAML, with the power in its comments."""
    margin = advice.margin
    lines = [
        "# Suggested from one model's numbers; floors and ceilings are what an equally good model",
        f"# proves with a chance of {CHANCE:g} per group. Read it before you use it.",
        "#",
        f"# The chance that an equally good model passes {advice.n_rules} comparisons of AUCs with",
        f"# the champion (their estimates correlated by {CORRELATION:g}; rules treated as",
        "# independent):",
        "#   margin  worst rule  all rules",
        *(
            f"#   {power.margin:<6g}  {power.worst_rule:10.3f}  {power.all_rules:9.3f}"
            for power in advice.power
        ),
    ]
    if margin is None:
        lines.append("# No margin gives a good chance: the set is too small to compare on.")
    if advice.weak:
        lines.append(f"# Too few rows to judge: {', '.join(advice.weak)}. They block as")
        lines.append("# insufficient; find more rows, or waive them by name and for a time.")
    lines += ["#", *(f"# {line}".rstrip() for line in losses_in_words(advice.losses))]
    lines += ["version: 1", f"name: {name}", "allow_first: true", "rules:"]
    for metric, limit in advice.limits.items():
        kind = "ceiling" if METRICS[metric].is_gap else "floor"
        compared = f", margin: {margin:g}" if margin and kind == "floor" else ""
        at = f", threshold: {GIVEN}" if METRICS[metric].has_threshold else ""
        support = f"min_positives: {_SUPPORT}, min_negatives: {_SUPPORT}"
        lines.append(
            f"  - {{metric: {metric}, scope: each{at}, {kind}: {limit:.2f}{compared}, {support}}}"
        )
    return "\n".join(lines) + "\n"


def _limits(groups: Sequence[Mapping[str, MetricValue]]) -> Iterator[tuple[str, float]]:
    """Yield by metric the limit that the worst group meets with the required chance."""
    z = _Z_BOUND + NormalDist().inv_cdf(CHANCE)
    for metric in metrics_of("subgroup"):
        cells = [group[metric] for group in groups if metric in group]
        if not cells:  # error rates, without a threshold
            continue
        if METRICS[metric].is_gap:
            largest = max(abs(float(cell)) + z * _error(metric, cell) for cell in cells)
            yield metric, min(METRICS[metric].largest, math.ceil(largest / _STEP) * _STEP)
        else:
            least = min(float(cell) - z * _error(metric, cell) for cell in cells)
            yield metric, max(_STEP, math.floor(least / _STEP) * _STEP)


def _error(metric: str, cell: MetricValue) -> float:
    """Return the standard error; of a rate, and of an AUC of 1, the one that its interval implies.

    Its own is 0 if no row errs.
    """
    if cell.std_error and not METRICS[metric].has_threshold:
        return cell.std_error
    return max(reach_of(cell) or (0.0, 0.0)) / _Z_BOUND

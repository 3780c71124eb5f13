"""Suggested limits for a model and a set: floors from the model's numbers, margins by power.

If the model was evaluated at a threshold, its gaps in error rates there get ceilings too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from bias_metrics.gate import chance_of_all, chance_of_proof, difference_error
from bias_metrics.metrics import AUCS, GIVEN, METRICS, metrics_of
from biasgate.tasks.evidence.file import evidence_at, given_threshold
from biasgate.tasks.gating.policy_losses import (
    CORRELATION,
    Asked,
    IdentityLoss,
    losses_in_words,
    losses_of_evidence,
)

CONFIDENCE = 0.95
CHANCE = 0.9
MARGINS = (0.01, 0.02, 0.03, 0.05, 0.1)
_STEP = 0.01
_SUPPORT = 25


@dataclass(frozen=True)
class Advice:
    """What a set can prove about a model."""

    limits: dict[str, float]
    """By metric: the floor, or ceiling, that an equal model meets with `CHANCE` per group."""
    power: dict[float, tuple[float, float]]
    """By margin: the chance that an equal model passes the hardest rule, and the chance that it
    passes all rules."""
    weak: list[str]
    """Groups with too few rows to judge."""
    n_rules: int
    """Relative rules behind `power`: groups x metrics."""
    losses: list[IdentityLoss]
    """What a pass leaves open, with the suggested margin of AUCs."""

    @property
    def margin(self) -> float | None:
        """The smallest margin at which an equal model passes all rules with `CHANCE`, or None."""
        return _enough(self.power)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; lists, where numbers would be keys."""
        power = [
            {"margin": margin, "worst_rule": least, "all_rules": both}
            for margin, (least, both) in self.power.items()
        ]
        losses = [one.to_dict() for one in self.losses]
        return {"limits": self.limits, "margin": self.margin, "power": power} | {
            "weak": self.weak,
            "n_rules": self.n_rules,
            "losses": losses,
        }


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
        If there is no such file.
    """
    evidence = evidence_at(path)
    key = (None, 2 * CONFIDENCE - 1)
    report = evidence.measure([key], given_threshold(evidence.path))[key].report
    gaps = report.get("thresholds", {}).get(GIVEN, {}).get("subgroups", {})
    subgroups = {
        name: {**cells, **gaps.get(name, {})} for name, cells in report["subgroups"].items()
    }
    weak = [name for name, cells in subgroups.items() if not _is_supported(cells)]
    strong = {name: cells for name, cells in subgroups.items() if name not in weak}
    aucs = [cells[metric] for cells in strong.values() for metric in AUCS]
    errors = [difference_error(cell["std_error"], correlation) for cell in aucs]
    power = {}
    for margin in MARGINS:
        chances = [chance_of_proof(margin, error, CONFIDENCE) for error in errors]
        power[margin] = (min(chances, default=0.0), chance_of_all(chances) if chances else 0.0)
    enough = _enough(power)

    def asked(_: str, metric: str) -> Asked:
        return Asked(CONFIDENCE, enough if metric in AUCS else None)

    losses = losses_of_evidence(path, asked, correlation)
    return Advice(dict(_limits(strong)), power, weak, len(errors), losses)


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
            f"#   {one:<6g}  {least:10.3f}  {both:9.3f}"
            for one, (least, both) in advice.power.items()
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


def _enough(power: Mapping[float, tuple[float, float]]) -> float | None:
    return next((margin for margin, (_, both) in power.items() if both >= CHANCE), None)


def _is_supported(cells: Mapping[str, Any]) -> bool:
    known = all(cells[name]["low"] is not None for name in metrics_of("subgroup") if name in cells)
    return known and min(cells["n_positive"], cells["n_negative"]) >= _SUPPORT


def _rate_error(cell: Mapping[str, Any], z: float) -> float:
    """Return the standard error that the interval implies: if no row errs, its own is 0."""
    return float(max(cell["high"] - cell["value"], cell["value"] - cell["low"])) / z


def _limits(subgroups: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield by metric the limit that the worst group meets with the required chance."""
    z_bound = NormalDist().inv_cdf(CONFIDENCE)
    z = z_bound + NormalDist().inv_cdf(CHANCE)
    for metric in metrics_of("subgroup"):
        cells = [one[metric] for one in subgroups.values() if metric in one]
        if not cells:
            continue
        if METRICS[metric].is_gap:
            known = METRICS[metric]
            errors = [
                _rate_error(one, z_bound) if known.has_threshold else one["std_error"]
                for one in cells
            ]
            sizes = (abs(one["value"]) + z * e for one, e in zip(cells, errors, strict=True))
            yield metric, min(known.largest, math.ceil(max(sizes) / _STEP) * _STEP)
        else:
            least = min(cell["value"] - z * cell["std_error"] for cell in cells)
            yield metric, max(_STEP, math.floor(least / _STEP) * _STEP)

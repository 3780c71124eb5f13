"""The values of the thresholds that rules name; each model has its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics import equal_error_rate
from bias_metrics.gate import Rule, thresholds_needed
from bias_metrics.metrics import EQUAL_ERRORS, GIVEN
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import EvidenceFile

if TYPE_CHECKING:
    from biasgate.tasks.scoring.candidate import CandidateSettings

Thresholds = Mapping[str, Mapping[str, float]]
"""By the threshold's name and by role: `candidate`, `champion`, `reference`."""


def find_thresholds(
    rules: Sequence[Rule], evidence: EvidenceFile, given: Mapping[str, float | None]
) -> Thresholds:
    """Return the thresholds that rules need, for every model with scores.

    Parameters
    ----------
    evidence : EvidenceFile
        All rows; the thresholds of equal errors are computed on them, even for slices.
    given : mapping of str to float or None
        By role, the threshold that each model is used with.

    Returns
    -------
    mapping
        By name and role; empty if no rule has a threshold.

    Raises
    ------
    InputError
        If a model has no `threshold` of its own, and a rule needs it.
    """
    found: dict[str, dict[str, float]] = {}
    for name, roles in thresholds_needed(rules).items():
        found[name] = {}
        for role in sorted(roles & set(evidence.roles)):
            number = given.get(role) if name == GIVEN else equal_errors(evidence, role)
            if number is None:
                raise InputError(missing_threshold(role))
            found[name][role] = number
    return found


def equal_errors(evidence: EvidenceFile, role: str) -> float | None:
    """Return the threshold at which a model's two error rates are closest, over all rows."""
    scores = evidence.scores(role)
    known = ~np.isnan(scores)
    return equal_error_rate(evidence.column("label")[known], scores[known]).threshold


def missing_threshold(role: str, name: str | None = None) -> str:
    """Return an error text: a model has no threshold of its own, and what to do."""
    who = f"the {role}" if name is None else f"the {role} {name}"
    return (
        f"rules at `threshold: {GIVEN}` need the `threshold` that {who} is used with; it has none. "
        f"Set it for the {role} in the evaluation file, or set "
        f"`threshold: {EQUAL_ERRORS}` in the rule."
    )


def refuse_missing_thresholds(
    rules: Sequence[Rule], settings: Iterator[tuple[str, CandidateSettings]]
) -> None:
    """Refuse candidates and rivals without a threshold that rules need.

    Raises
    ------
    InputError
        If one has none; with its name and what to do.
    """
    roles = thresholds_needed(rules).get(GIVEN, set())
    for role, one in settings:
        if role in roles and one.threshold is None:
            raise InputError(missing_threshold(role, one.name))

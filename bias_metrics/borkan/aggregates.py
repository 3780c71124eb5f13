"""Numbers over several subgroups: the generalised power mean and the Jigsaw final score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import FINAL_SCORE_PARTS


def check_power(power: float) -> float:
    """Return `power` as a float."""
    power = float(power)
    if power == 0 or not math.isfinite(power):
        msg = (
            f"`power` must be a finite number other than 0 (the Jigsaw score uses -5); got {power}."
        )
        raise ValueError(msg)
    return power


def power_mean(values: Iterable[float], power: float = -5.0) -> float:
    """Generalised mean of subgroup metrics: `(mean(m ** p)) ** (1 / p)`.

    A negative power pulls the mean towards the worst subgroup; -5 is the Jigsaw value.
    Not to be confused with the arithmetic mean (`power=1`), in which one badly treated
    subgroup is averaged away.

    Parameters
    ----------
    values : iterable of float
        One metric per subgroup, each at least 0; at least one.
    power : float, default=-5.0
        Exponent, finite and not 0.

    Returns
    -------
    float
        Between the smallest and the largest value; ideal value 1 for AUCs. With a negative
        power, 0 if any value is 0.

    Raises
    ------
    ValueError
        If there are no values, a value is negative or not finite, or `power` is 0.

    References
    ----------
    Jigsaw Unintended Bias in Toxicity Classification (2019), evaluation page.

    Examples
    --------
    >>> round(power_mean([0.9, 0.5]), 4)
    0.5685
    >>> power_mean([0.9, 0.0])
    0.0
    """
    power = check_power(power)
    numbers = [float(value) for value in values]
    if not numbers:
        msg = "`values` must hold at least one number; got none."
        raise ValueError(msg)
    for position, number in enumerate(numbers):
        if not (math.isfinite(number) and number >= 0):
            msg = f"`values` must be finite and at least 0; got {number} (position {position})."
            raise ValueError(msg)
    smallest, largest = min(numbers), max(numbers)
    if smallest == 0 and power < 0:
        return 0.0
    if largest == 0:
        return 0.0
    # Scaled by the dominant value, so that no power over- or underflows.
    scale = smallest if power < 0 else largest
    mean = math.fsum((number / scale) ** power for number in numbers) / len(numbers)
    return min(max(scale * float(mean ** (1 / power)), smallest), largest)


def power_mean_of(values: Mapping[str, MetricValue], power: float) -> MetricValue:
    """Power mean over named subgroups; undefined if any of them is."""
    if not values:
        return undefined("no subgroups")
    missing = [name for name, value in values.items() if value.value is None]
    if missing:
        return undefined(f"undefined for {', '.join(missing)}")
    return MetricValue(power_mean([v.value for v in values.values() if v.value is not None], power))


def final_score(overall_auc: MetricValue, power_means: Mapping[str, MetricValue]) -> MetricValue:
    """Jigsaw final score: a quarter each of overall AUC and the three power means.

    Parameters
    ----------
    overall_auc : MetricValue
        ROC AUC over all measured rows.
    power_means : mapping of str to MetricValue
        The power means of `subgroup_auc`, `bpsn_auc` and `bnsp_auc`.

    Returns
    -------
    MetricValue
        In [0, 1], ideal 1; undefined, with the reason, if one of the four parts is.

    References
    ----------
    Jigsaw Unintended Bias in Toxicity Classification (2019), evaluation page.

    Examples
    --------
    >>> means = {name: MetricValue(0.5) for name in ("subgroup_auc", "bpsn_auc", "bnsp_auc")}
    >>> final_score(MetricValue(0.9), means).value
    0.6
    """
    parts = {"overall auc": overall_auc}
    parts |= {f"power mean of {name}": power_means[name] for name in FINAL_SCORE_PARTS}
    missing = [f"{name} ({part.reason})" for name, part in parts.items() if part.value is None]
    if missing:
        return undefined(f"undefined: {'; '.join(missing)}")
    return MetricValue(
        0.25 * math.fsum(part.value for part in parts.values() if part.value is not None)
    )

"""What a pass leaves open: the loss that it does not exclude, and the one that would be seen.

Both follow from how far the one-sided bound of the paired difference reaches. They are for
planning; a verdict never uses them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from bias_metrics._core.differences import SURE
from bias_metrics._core.intervals import quantile
from bias_metrics.gate.power import rows_needed, visible_loss
from bias_metrics.gate.rules import LEAST_FOR_A_BOUND
from bias_metrics.metrics import METRICS, Class


@dataclass(frozen=True)
class OpenLoss:
    """What a pass leaves open about one metric of one identity."""

    metric: str
    """Its name."""
    value: float | None
    """The value, measured or assumed."""
    not_excluded: float | None
    """The loss that a pass typically does not exclude for a model as good as its champion: how far
    its one-sided bound reaches. Of a gap: by how much it may have become wider."""
    visible: float | None
    """The loss that would be shown with the wanted power."""
    margin: float | None
    """The margin of the rule; None if no rule compares this metric with the champion's."""
    scarcer: Class
    """The scarcer of the identity's classes that the metric compares."""
    more: int | None
    """Further rows of that class until `not_excluded` is within the margin; None without a margin
    or a bound."""
    reason: str | None = None
    """Why there is no bound."""

    @property
    def order(self) -> tuple[bool, bool, float]:
        """The larger, the worse: no bound at all, else beyond the margin by the largest factor."""
        has_margin = self.margin is not None
        if self.not_excluded is None:
            return True, has_margin, 0.0
        return False, has_margin, self.not_excluded / (self.margin or 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the reason only if there is one."""
        return {key: one for key, one in asdict(self).items() if key != "reason" or one}


def open_loss(
    metric: str,
    value: float | None,
    reaches: tuple[float, float] | None,
    counts: tuple[int, int],
    confidence: float,
    margin: float | None = None,
    *,
    power: float = 0.8,
    reason: str | None = None,
) -> OpenLoss:
    """Return what a pass leaves open about one metric of one identity.

    Parameters
    ----------
    metric : str
        An AUC or AEG of a subgroup.
    value : float or None
        Its value.
    reaches : (float, float) or None
        How far the one-sided bounds reach of the difference of the two models, and of the value
        itself: each the quantile times its standard error.
    counts : (int, int)
        Positive and negative rows of the identity.
    confidence : float
        One-sided, of the bounds.
    margin : float, optional
        Of the rule that compares the two models.
    power : float, default=0.8
        The chance with which a loss is to be shown.
    reason : str, optional
        Why there is no value or no bound.

    Returns
    -------
    OpenLoss
        Without numbers if a compared class has fewer than 10 rows.

    Notes
    -----
    A gap is wider only if its size is: both the difference and the sum of the two gaps must be
    shown to be on one side of 0. Near 0 it is the sum that decides, whose error is far larger
    than that of the difference. Unless a gap is more than 3 standard errors from 0, its sign may
    have been estimated wrongly, and each sign gets half of the error that the confidence allows.

    Examples
    --------
    >>> loss = open_loss("bnsp_auc", 0.88, (0.10, 0.15), (20, 400), 0.95, margin=0.05)
    >>> loss.not_excluded, round(loss.visible, 3), loss.more, loss.scarcer
    (0.1, 0.151, 60, 'positive')
    """
    own, _ = METRICS[metric].classes
    have: dict[Class, int] = dict(zip(("positive", "negative"), counts, strict=True))
    scarcer = min(own, key=lambda name: have[name])
    n = have[scarcer]
    if reaches is None or value is None or n < LEAST_FOR_A_BOUND:
        lack = "no interval" if n >= LEAST_FOR_A_BOUND else f"fewer than {LEAST_FOR_A_BOUND} rows"
        return OpenLoss(metric, value, None, None, margin, scarcer, None, reason or lack)
    reach, of_value = reaches
    visible = visible_loss(reach, confidence, power=power)
    if METRICS[metric].is_gap:
        of_sum = math.sqrt(max(4 * of_value**2 - reach**2, 0.0))
        visible = max(visible, visible_loss(of_sum, confidence, power=power) - 2 * abs(value))
        reach *= _sign_factor(abs(value), reach, of_value, of_sum, 2 * confidence - 1)
    more = None if margin is None else rows_needed(n, reach, margin)
    return OpenLoss(metric, value, reach, visible, margin, scarcer, more)


def _sign_factor(size: float, reach: float, of_value: float, of_sum: float, level: float) -> float:
    """Return how many times farther the bound of a gap reaches, as its sign may be wrong.

    Near 0 either sign could be the rival's, and the bound is that of the worse one: on average
    by the mean size of the difference's deviation, sqrt(2 / pi) standard errors, farther.
    """
    z, wider = quantile(level), quantile((1 + level) / 2)
    if size * z > SURE * of_value:
        return 1.0
    either = 2 * size * z < wider * (of_sum - reach)
    return (wider + (math.sqrt(2 / math.pi) if either else 0.0)) / z

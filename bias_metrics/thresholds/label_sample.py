"""Which comments to label to decide between two models: those on which they disagree."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_mask, check_share
from bias_metrics._core.intervals import check_confidence, quantile
from bias_metrics._core.tables import Row, Tabular

STRATA = ("only_after", "only_before", "both", "neither")


@dataclass(frozen=True)
class Stratum:
    """Rows on which the models decide alike."""

    name: str
    """Which model flags them: `only_after`, `only_before`, `both` or `neither`."""
    n: int
    """Rows."""
    n_sampled: int
    """Rows to label."""
    weight: float | None
    """How many rows each labelled one stands for; None if none is labelled."""


@dataclass(frozen=True)
class LabelSample(Tabular):
    """A stratified random sample of rows to label."""

    strata: tuple[Stratum, ...]
    """The four strata."""
    sampled: npt.NDArray[np.intp]
    """(number of rows to label,): The rows, in ascending order."""
    weights: npt.NDArray[np.float64]
    """What each stands for."""
    margin: float
    """The difference in accuracy of the models is then known to this, at `confidence`."""
    confidence: float
    """Two-sided."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the rows."""
        strata = [asdict(stratum) for stratum in self.strata]
        return {"strata": strata, "margin": self.margin, "confidence": self.confidence}

    def rows(self) -> list[Row]:
        """Return one record per stratum."""
        return [asdict(stratum) for stratum in self.strata]


def sample_to_label(
    flagged_before: npt.ArrayLike,
    flagged_after: npt.ArrayLike,
    *,
    margin: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_alike: int = 50,
) -> LabelSample:
    """Draw the rows to label that decide which of two models is right more often.

    Where two models decide alike, they are right or wrong together, so only rows on which they
    disagree tell them apart. Enough of those are drawn that the difference in accuracy over all
    rows is known to the margin, whatever the labels turn out to be. Some rows of the other
    strata are drawn too, so that weighted metrics of all rows can be computed.

    Parameters
    ----------
    flagged_before, flagged_after : bool array of shape (n,)
        Rows that the first model flags, and its successor.
    margin : float
        Half the width of the interval of the difference in accuracy, in (0, 1).
    rng : numpy.random.Generator
        Which rows are drawn.
    confidence : float, default=0.95
        Of that interval.
    n_alike : int, default=50
        Rows to draw where both models flag, and where neither does.

    Returns
    -------
    LabelSample
        The rows and their weights, n / n_sampled of their stratum.

    Raises
    ------
    ValueError, TypeError
        If there are no rows, lengths differ, or an option is out of its range.

    Notes
    -----
    The difference in accuracy is the sum over both strata of disagreement of share times
    (2 p - 1), for the share p of rows on which the successor is right. With rows drawn in
    proportion, its standard error is at most the share of disagreements divided by the root of
    the number of drawn rows, since p (1 - p) is at most 1/4.

    References
    ----------
    Cochran (1977), Sampling Techniques, chapter 5 (stratified random sampling).

    Examples
    --------
    >>> before, after = [1] * 50 + [0] * 950, [0] * 25 + [1] * 25 + [0] * 950
    >>> found = sample_to_label(before, after, margin=0.01, rng=np.random.default_rng(0), n_alike=5)
    >>> [(one.name, one.n, one.n_sampled, one.weight) for one in found.strata][1:3]
    [('only_before', 25, 25, 1.0), ('both', 25, 5, 5.0)]
    """
    before = check_mask("flagged_before", flagged_before)
    after = check_mask("flagged_after", flagged_after, before.size)
    level = check_confidence(confidence)
    if not 0 < check_share("margin", margin) < 1:
        msg = f"`margin` must be between 0 and 1, as in 0.01; got {margin}."
        raise ValueError(msg)
    if n_alike < 1:
        msg = f"`n_alike` must be at least 1; got {n_alike}."
        raise ValueError(msg)
    masks = (after & ~before, before & ~after, before & after, ~before & ~after)
    share = float((before != after).mean())
    wanted = math.ceil((quantile(level) * share / margin) ** 2)
    n_apart = int(masks[0].sum() + masks[1].sum())
    strata, chosen, weights = [], [], []
    for name, mask in zip(STRATA, masks, strict=True):
        members = np.flatnonzero(mask)
        n = members.size
        apart = name.startswith("only")
        n_sampled = min(n, math.ceil(wanted * n / n_apart) if apart and n else n_alike)
        weight = n / n_sampled if n_sampled else None
        strata.append(Stratum(name, n, n_sampled, weight))
        chosen.append(rng.choice(members, n_sampled, replace=False))
        weights.append(np.full(n_sampled, weight or 0.0))
    rows, each = np.concatenate(chosen), np.concatenate(weights)
    order = np.argsort(rows)
    return LabelSample(tuple(strata), rows[order], each[order], float(margin), level)

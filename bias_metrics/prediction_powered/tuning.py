"""How much of a cheap estimate's error to remove from a dear one: the weight, and its price.

A cell is measured from the human labels on the labelled rows. Measured from matched terms, it is
wrong, but by nearly the same amount on the labelled rows as on all rows. So the difference between
these two, the `shift`, tells how unusual the labelled rows happen to be, and `weight` times the
shift is subtracted:

    value = human on labelled - weight * (terms on labelled - terms on all)

Whatever the weight, the expectation is that of the human labels, so poor terms cost no validity,
only precision. The weight with the smallest variance is the slope of a regression of the influences
on the first number on those of the shift. It is estimated from the same rows, so

- a row's (or cluster's) own residual is divided by 1 - its leverage on the slope, as if the row had
  been left out of it (the jackknife);
- how far the row moves the slope, times the shift, is part of its influence;
- the expected product of the errors of slope and shift is the bias, which is removed.

References
----------
Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), Science 382 (prediction-powered inference).
Angelopoulos, Duchi and Zrnic (2023), arXiv:2311.01453 (the weight). MacKinnon and White (1985),
Journal of Econometrics 29 (residuals and leverage). Sarndal, Swensson and Wretman (1989),
Biometrika 76 (influence through the slope).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bias_metrics._core.placements import Floats, inner

# A row that decides the slope alone: its residual without it cannot be computed.
_ALL = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class Tuning:
    """A weight, and how it varies."""

    weight: float  # Above 0, at most 1
    kept: Floats  # By row or cluster: 1 - its leverage on the weight
    # Its influence on the weight; 0 where the weight is 1, as the largest that is allowed.
    moves: Floats

    def value(self, human: float, shift: float, on_shift: Floats) -> float:
        """Return a cell's value without the bias of the weight.

        `shift` is the cell from matched terms on the labelled rows, minus that on all rows.
        """
        return human - self.weight * shift + inner(on_shift, self.moves)

    def influences(self, on_human: Floats, shift: float, on_shift: Floats) -> Floats:
        """Return the influences on a cell's value; `on_human` are those on `human`."""
        return (on_human - self.weight * on_shift) / self.kept - shift * self.moves


def tune(on_human: Floats, on_shift: Floats) -> Tuning | None:
    """Return the weight with the smallest variance; None if it is 0 or cannot be estimated.

    Influences are by row or by cluster.
    """
    squares = inner(on_shift, on_shift)
    if squares == 0:
        return None
    slope = inner(on_human, on_shift) / squares
    leverage = on_shift**2 / squares
    if slope <= 0 or leverage.max() >= _ALL:
        return None
    kept = 1 - leverage
    if slope >= 1:
        return Tuning(1.0, kept, 0.0 * kept)
    return Tuning(slope, kept, on_shift * (on_human - slope * on_shift) / (squares * kept))


def error_of(influences: Floats) -> float:
    """Return the standard error that influences make."""
    return math.sqrt(inner(influences, influences))

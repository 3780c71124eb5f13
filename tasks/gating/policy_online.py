"""The key `online` of a policy: how the decisions of a year share the rate of false passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from bias_metrics import lord_share, spending_share
from biasgate.tasks.common.settings import Settings

Bounds = Literal["any_wrong", "share_wrong"]
# A level below this is not told from 0 when a bound is computed.
LEAST_LEVEL = 1e-12


class OnlineSettings(Settings):
    """What `correction: online` bounds over the decisions of a calendar year (UTC)."""

    bounds: Bounds = "any_wrong"
    """`any_wrong`: the chance that any promotion of the year is wrong (alpha-spending).
    `share_wrong`: the share of wrong ones among the promotions of the year (LORD++)."""
    decisions: Annotated[int, Field(ge=1, le=1_000_000)] = 365
    """For `any_wrong`: about how many decisions a year has. More are possible, at lower levels."""

    def share(self, shares: Sequence[float], promotions: Sequence[int]) -> float:
        """Return the share of alpha of the next decision.

        Never more than what is left: decisions of the year may have been made by other settings.

        Parameters
        ----------
        promotions : sequence of int
            For each promotion of the year, how many decisions had been made by then.
        """
        number = len(shares) + 1
        if self.bounds == "any_wrong":
            share, budget = spending_share(number, planned=self.decisions), 1
        else:
            share, budget = lord_share(number, promotions), max(1, len(promotions))
        return max(0.0, min(share, 1.0, budget - sum(shares)))

"""The section `drift` of an evaluation file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from biasgate.tasks.common.settings import Settings


class DriftSettings(Settings):
    """What tonight is compared with.

    Attributes
    ----------
    nights : int
        So many nights before tonight, at most.
    alpha : float
        The chance of any wrong alarm in a night, if nothing changed.
    """

    nights: Annotated[int, Field(ge=1, le=365)] = 7
    alpha: Annotated[float, Field(ge=0.0001, le=0.5)] = 0.01

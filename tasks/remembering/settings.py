"""The section `drift` of an evaluation file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from biasgate.tasks.common.settings import Settings


class DriftSettings(Settings):
    """What tonight is compared with."""

    nights: Annotated[int, Field(ge=1, le=365)] = 7
    """So many nights before tonight, at most."""
    alpha: Annotated[float, Field(ge=0.0001, le=0.5)] = 0.01
    """The chance of any wrong alarm in a night, if nothing changed."""

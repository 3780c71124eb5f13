"""The rule `max_missing` of policy files: how many comments may have no score."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from bias_metrics.gate import Action, MissingLimits, Mode
from biasgate.tasks.common.settings import Settings

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class MissingSettings(Settings):
    """How many comments may have no score; a number is the limit `overall` and of `each`."""

    overall: Share | None = None
    """Largest share of all comments."""
    each: Share | None = None
    """Largest share of the comments of each identity."""
    gap: Share | None = None
    """By how much the share of an identity may exceed that of other comments."""
    mode: Mode = "proven"
    """`proven` compares the upper bound with a limit, `estimate` the share itself."""
    action: Action = "block"
    """Whether the results affect the verdict."""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"overall": value, "each": value} if is_number else value

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        self.limits(0.95)
        return self

    def limits(self, confidence: float) -> MissingLimits:
        """Return the limits in the gate's form."""
        return MissingLimits(**self.model_dump(), confidence=confidence)

"""How often a step is tried, and how long it may take: by stage, as an evaluation file says."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from biasgate.tasks.common.settings import Settings

_MOST_S = 30 * 24 * 3600
_MOST_DELAYS = 50  # Prefect takes no more


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, int | float) else value


Delay = Annotated[float, Field(ge=0, le=_MOST_S)]
Delays = Annotated[
    tuple[Delay, ...], Field(min_length=1, max_length=_MOST_DELAYS), BeforeValidator(_listed)
]


class StageSettings(Settings):
    """How the steps of one stage are tried; what is not given is as in `every`."""

    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    """How many times a step is tried again after it failed."""
    retry_delay_s: Delays | None = None
    """Seconds to wait before each retry; the last number is for all further ones."""
    time_limit_s: Annotated[float, Field(ge=1, le=_MOST_S)] | None = None
    """Seconds that one try of a step may take. A longer one ends the run."""


DEFAULT = StageSettings(retries=2, retry_delay_s=(1.0, 5.0))


class StepSettings(Settings):
    """How the steps of a run are tried; `step_limits.ROOMS` says which stage has which."""

    every: StageSettings = StageSettings()
    """For all steps; the others are for the steps of one stage."""
    data: StageSettings = StageSettings()
    """Freezing of sets."""
    scoring: StageSettings = StageSettings()
    """Training, opening and scoring candidates."""
    measuring: StageSettings = StageSettings()
    """Bias metrics."""
    analysing: StageSettings = StageSettings()
    """Further analyses."""
    reporting: StageSettings = StageSettings()
    """Reports, figures, pages, notifications."""
    gating: StageSettings = StageSettings()
    """Verdicts by the policy."""
    tracking: StageSettings = StageSettings()
    """Runs in MLflow."""
    promoting: StageSettings = StageSettings()
    """The ledger and `champion`."""
    remembering: StageSettings = StageSettings()
    """Comparison with earlier nights."""
    mitigating: StageSettings = StageSettings()
    """Methods, trials and their reports."""

    def of(self, stage: str | None) -> StageSettings:
        """Return the settings of a stage; without one, those of every step."""
        named = [self.every] if stage is None else [self.every, getattr(self, stage)]
        given = (one.model_dump(exclude_none=True) for one in named)
        return DEFAULT.model_copy(update={key: v for one in given for key, v in one.items()})

    @property
    def limited_by(self) -> str | None:
        """The first key that sets a time limit, as in `scoring`; None if there is no limit."""
        return next(
            (key for key in type(self).model_fields if getattr(self, key).time_limit_s is not None),
            None,
        )

    def key_of_limit(self, stage: str | None) -> str:
        """Return where the time limit of a stage is set, as in `steps.scoring.time_limit_s`."""
        named = stage is not None and getattr(self, stage).time_limit_s is not None
        return f"steps.{stage if named else 'every'}.time_limit_s"

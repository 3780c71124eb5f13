"""The analyses that an evaluation file can name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter

from biasgate.tasks.analysing.agreement import AgreementAnalysis
from biasgate.tasks.analysing.counterfactual import CounterfactualAnalysis
from biasgate.tasks.analysing.intersections import IntersectionsAnalysis
from biasgate.tasks.analysing.label_sensitivity import LabelSensitivityAnalysis
from biasgate.tasks.analysing.threshold_advice import ThresholdAdviceAnalysis


def _by_name(value: Any) -> Any:
    """Return a plain name as the section of that kind with default options."""
    return {"kind": value} if isinstance(value, str) else value


AnyAnalysis = Annotated[
    IntersectionsAnalysis
    | LabelSensitivityAnalysis
    | ThresholdAdviceAnalysis
    | CounterfactualAnalysis
    | AgreementAnalysis,
    Field(discriminator="kind"),
    BeforeValidator(_by_name),
]
ANALYSES: TypeAdapter[Any] = TypeAdapter(AnyAnalysis)

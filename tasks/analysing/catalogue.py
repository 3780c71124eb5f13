"""The analyses that an evaluation file can name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, TypeAdapter, ValidationInfo

from biasgate.tasks.analysing.analysis import Analysis
from biasgate.tasks.common.catalogue import Catalogue

_HERE = "biasgate.tasks.analysing"
KINDS = Catalogue(
    key="kind",
    group="biasgate.analyses",
    base=Analysis,
    own={
        "intersections": f"{_HERE}.intersections:IntersectionsAnalysis",
        "slices": f"{_HERE}.slices:SlicesAnalysis",
        "topic": f"{_HERE}.slices:TopicAnalysis",
        "threshold_transfer": f"{_HERE}.thresholds:ThresholdTransferAnalysis",
    },
)


def _read_analysis(value: Any, info: ValidationInfo) -> Analysis:
    """Create an analysis from a section, or from a plain name with default options."""
    return KINDS.read({"kind": value} if isinstance(value, str) else value, info)


AnyAnalysis = Annotated[SerializeAsAny[Analysis], BeforeValidator(_read_analysis)]
ANALYSES: TypeAdapter[Analysis] = TypeAdapter(AnyAnalysis)

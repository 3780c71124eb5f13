"""A metric of Hugging Face's evaluate: Subgroup, BPSN and BNSP AUC by identity, with intervals.

    bias = evaluate.load("docs/reproduce/identity_bias.py")
    found = bias.compute(references=toxic, predictions=scores, subgroups={"gay": mentions_gay})
    found["subgroups"]["gay"]["bpsn_auc"]  # {"value": ..., "low": ..., "high": ...}

The numbers are those of `evaluate_bias`: undefined numbers are None with a reason.
"""

from collections.abc import Mapping
from typing import Any

import evaluate
from datasets import Features, Value

from bias_metrics import MetricValue, evaluate_bias


class IdentityBias(evaluate.Metric):
    """Bias metrics of scores, by the identities that comments mention."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Subgroup, BPSN and BNSP AUC by identity, with intervals.",
            citation="Borkan et al. (2019), Nuanced Metrics for Measuring Unintended Bias",
            inputs_description="`subgroups` maps each identity to the rows that mention it.",
            features=Features({"predictions": Value("float64"), "references": Value("float64")}),
            reference_urls=["https://arxiv.org/abs/1903.04561"],
        )

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        """Measure; options are those of `evaluate_bias`: `subgroups`, `clusters`, `confidence`."""
        table = evaluate_bias(references, predictions, **options)
        return {"overall": _to_plain(table.overall)} | {
            "subgroups": {name: _to_plain(numbers) for name, numbers in table.subgroups.items()}
        }


def _to_plain(numbers: Mapping[str, MetricValue]) -> dict[str, Any]:
    return {metric: number.to_dict(interval=True) for metric, number in numbers.items()}

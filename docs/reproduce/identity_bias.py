"""A metric of Hugging Face's evaluate: Subgroup, BPSN and BNSP AUC by identity, with intervals.

    bias = evaluate.load("docs/reproduce/identity_bias.py")
    found = bias.compute(references=toxic, predictions=scores, subgroups={"gay": mentions_gay})
    found["subgroups"]["gay"]["bpsn_auc"]  # {"value": ..., "low": ..., "high": ...}

The results are those of `evaluate_bias(...).to_dict()`: a number that is undefined is None with a
reason.
"""

from typing import Any

import evaluate
from datasets import Features, Value

from bias_metrics import evaluate_bias


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
        return evaluate_bias(references, predictions, **options).to_dict()

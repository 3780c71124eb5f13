"""Where bias in training data comes from, what would balance it, and what trainings show."""

from bias_metrics.mitigation.imbalance import Imbalance, label_imbalance, rows_to_balance
from bias_metrics.mitigation.pool import balance_with_pool
from bias_metrics.mitigation.relabelling import relabel_to_prior
from bias_metrics.mitigation.thresholds import ALL, RATES, even_threshold, rate_changes
from bias_metrics.mitigation.weights import balancing_weights

__all__ = [
    "ALL",
    "RATES",
    "Imbalance",
    "balance_with_pool",
    "balancing_weights",
    "even_threshold",
    "label_imbalance",
    "rate_changes",
    "relabel_to_prior",
    "rows_to_balance",
]

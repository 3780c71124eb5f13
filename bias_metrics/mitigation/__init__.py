"""Balancing of training labels across terms: by rows from a pool, or by weights."""

from bias_metrics.mitigation.pool import PoolChoice, balance_with_pool
from bias_metrics.mitigation.weights import BalancingWeights, balancing_weights

__all__ = ["BalancingWeights", "PoolChoice", "balance_with_pool", "balancing_weights"]

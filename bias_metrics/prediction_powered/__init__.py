"""Human identity labels on a random part of the rows, helped by term matching on all of them."""

from bias_metrics.prediction_powered.evaluation import PoweredMeasurement, PoweredPairing
from bias_metrics.prediction_powered.rows import PoweredRows

__all__ = [
    "PoweredMeasurement",
    "PoweredPairing",
    "PoweredRows",
]

"""The bootstrap: few rows, AUCs near 1, few clusters, one model and two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.coverage.held import Case, Sample, both
from benchmarks.coverage.populations import Floats, shift_of
from bias_metrics import bootstrap_bias, bootstrap_comparison, roc_auc
from bias_metrics.report.resampled import BootstrapValue

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]
LABELS = True, False, True, False
MEMBERS = True, False, False, True


@dataclass(frozen=True)
class Resampled(Case):
    """A population whose BNSP AUC is known, or two equal models.

    Attributes
    ----------
    auc : float
        Of the subgroup's positives among the background's negatives.
    n_positive, n_negative : int
        Their numbers; the other classes have 200 rows.
    models : int
        With 2, the number is the difference of two models that agree about half of what is hard.
    beta : bool
        Whether scores are those of beta distributions, otherwise normal.
    few : int
        The subgroup's positives come from so many of 200 clusters; 0 if rows are independent.
    replicates : int
        Replicates of a bootstrap.
    """

    auc: float
    n_positive: int
    n_negative: int
    models: int = 1
    beta: bool = False
    few: int = 0
    replicates: int = 200

    def truths(self) -> Mapping[str, float]:
        """Return the BNSP AUC, or its difference."""
        return {"BNSP AUC": self.auc if self.models == 1 else 0.0}

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw the rows, and replicates of them: the same ones for both levels."""
        sizes = self.n_positive, self.n_negative, 200, 200
        y_true, members = (np.repeat(one, sizes) for one in (LABELS, MEMBERS))
        scores, codes = self._scores(rng, y_true)
        second = None
        if self.models == 2:
            scores, second = (scores + 0.5 * rng.normal(size=y_true.size) for _ in range(2))
        one, wide = (
            self._resample(y_true, scores, second, members, codes, seed, level)
            for seed in [int(rng.integers(2**32))]
            for level in (0.95, 0.9)
        )
        compared = slice(self.n_positive + self.n_negative)
        value, *of_second = (
            float(roc_auc(y_true[compared], each[compared]))
            for each in (scores, second)
            if each is not None
        )
        return {"BNSP AUC": both((value - sum(of_second), one.low, one.high), wide.low)}

    def _resample(
        self,
        y_true: Bools,
        scores: Floats,
        second: Floats | None,
        members: Bools,
        codes: Codes | None,
        seed: int,
        level: float,
    ) -> BootstrapValue:
        options: dict[str, Any] = {
            "rng": np.random.default_rng(seed),
            "n_replicates": self.replicates,
            "clusters": codes,
            "confidence": level,
        }
        if second is None:
            found = bootstrap_bias(y_true, scores, {"g": members}, **options)
        else:
            found = bootstrap_comparison(y_true, scores, second, {"g": members}, **options)
        return found.subgroups["g"].bnsp_auc

    def described(self) -> list[str]:
        """Return AUC, sizes, kind and number of models."""
        kind = "beta" if self.beta else "normal"
        kind += f", positives in {self.few} clusters" if self.few else ""
        sizes = [f"{self.n_positive:,}", f"{self.n_negative:,}"]
        return [f"{self.auc:g}", *sizes, kind, f"{self.models}"]

    def _scores(self, rng: np.random.Generator, y_true: Bools) -> tuple[Floats, Codes | None]:
        """Draw the scores of one model, and the cluster of each row."""
        if self.beta:  # P(x > y) = a / (a + 1) for x of Beta(a, 1) and a uniform y
            power = self.auc / (1 - self.auc)
            return rng.random(y_true.size) ** np.where(y_true, 1 / power, 1.0), None
        own, shift = rng.normal(size=y_true.size), shift_of(self.auc) * y_true
        if not self.few:
            return own + shift, None
        codes = rng.integers(0, 200, y_true.size)
        codes[: self.n_positive] %= self.few
        effect = rng.normal(size=200)[codes]
        return math.sqrt(0.3) * effect + math.sqrt(0.7) * own + shift, codes


HEAD = ["AUC", "positives", "negatives", "scores", "models"]
RESAMPLED = [
    Resampled(auc, n_positive, n_negative, models, beta, few)
    for (auc, n_positive, n_negative, beta, few), models in product(
        (
            (0.9, 20, 80, True, 0),
            (0.99, 50, 200, False, 0),
            (0.9, 200, 500, False, 0),
            (0.9, 200, 500, False, 25),
            (0.9, 200, 500, False, 100),
            (0.9, 100, 300, False, 5),
        ),
        (1, 2),
    )
]

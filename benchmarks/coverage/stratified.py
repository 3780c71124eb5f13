"""Rows, or clusters, drawn by strata; and the same samples with intervals that ignore these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from benchmarks.coverage.aggregates import CONFIDENCES, samples_of
from benchmarks.coverage.held import Case, Sample
from benchmarks.coverage.populations import Floats, shift_of
from bias_metrics import Rows, decision_indicators
from bias_metrics.report.measurement import Measurement

LISTED = 0.1  # the share of the population in the stratum that is drawn more often
TOXIC = (0.03, 0.6)  # of the other stratum, and of this one
APART = 1.5  # how much higher all scores of this one are
THRESHOLD = 1.0
_CDF = NormalDist().cdf
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Stratified(Case):
    """Two strata: the comments of which more are drawn, and the others.

    Attributes
    ----------
    stratum : str
        The first: `listed` comments, with words of a list, `toxic` or `flagged` ones.
    oversampled : int
        How many times as often rows of this stratum are drawn.
    auc : float
        Among listed comments, and among others.
    n : int
        Rows of the sample.
    n_clusters : int
        Clusters of the sample, each in one stratum; 0 if rows are independent.
    ignored : bool
        Whether intervals ignore strata.
    """

    stratum: str
    oversampled: int
    auc: float
    n: int
    n_clusters: int = 0
    ignored: bool = False

    def truths(self) -> Mapping[str, float]:
        """Return the overall AUC, that of a subgroup, and rates at a threshold."""
        shift, shares = shift_of(self.auc), (1 - LISTED, LISTED)
        toxic = [share * of for share, of in zip(shares, TOXIC, strict=True)]
        harmless = [share - of for share, of in zip(shares, toxic, strict=True)]
        wins = sum(
            toxic[a] * harmless[b] * _CDF((shift + APART * (a - b)) / math.sqrt(2))
            for a, b in product((0, 1), (0, 1))
        )
        auc = wins / sum(toxic) / sum(harmless)
        below = [_CDF(THRESHOLD - APART * one) for one in (0, 1)]
        missed = [_CDF(THRESHOLD - APART * one - shift) for one in (0, 1)]
        false = sum(n * (1 - p) for n, p in zip(harmless, below, strict=True))
        unseen = sum(n * p for n, p in zip(toxic, missed, strict=True))
        rates = false / sum(harmless), unseen / sum(toxic), 1 - false - unseen
        return dict(zip(NUMBERS, (auc, auc, *rates), strict=True))

    def sample(self, rng: np.random.Generator) -> Mapping[str, Sample | None]:
        """Draw a fixed number of each stratum."""
        y_true, scores, stratum, codes = self._drawn(rng)
        n, share = np.count_nonzero(stratum), self._share
        weight = np.where(stratum, share / n, (1 - share) / (self.n - n))
        rows = Rows(
            y_true,
            {"a": rng.random(self.n) < 0.4},
            sample_weight=weight,
            clusters=codes,
            strata=None if self.ignored else stratum,
        )
        measured, found = Measurement(rows, scores), []
        for level in CONFIDENCES:
            shares = decision_indicators(
                rows, scores, threshold=THRESHOLD, confidence=level
            ).overall.shares
            rates = [shares[name] for name in NUMBERS[2:]]
            subgroup = measured.subgroup("a").at(level).subgroup_auc
            found.append([measured.overall.at(level), subgroup, *rates])
        return samples_of(dict(zip(NUMBERS, one, strict=True)) for one in found)

    @property
    def errors(self) -> float:
        """Toxic rows on the wrong side, of as many as the weights leave."""
        return 0.0 if self.n_clusters else self.n * (1 - self.auc) / self.oversampled

    def described(self) -> list[str]:
        """Return the design, rows, clusters, AUC, and whether strata are used."""
        design = f"{self.stratum} x {self.oversampled}"
        used = "ignored" if self.ignored else "used"
        return [design, f"{self.n:,}", f"{self.n_clusters or 'none'}", f"{self.auc:g}", used]

    @property
    def _share(self) -> float:
        """The share of the population in the stratum that is drawn more often."""
        truths = self.truths()
        toxic = (1 - LISTED) * TOXIC[0] + LISTED * TOXIC[1]
        false, missed = (truths[name] for name in NUMBERS[2:4])
        flagged = (1 - toxic) * false + toxic * (1 - missed)
        return {"listed": LISTED, "toxic": toxic, "flagged": flagged}[self.stratum]

    def _drawn(self, rng: np.random.Generator) -> tuple[Bools, Floats, Bools, Codes | None]:
        """Return labels, scores, strata and clusters."""
        often = self.oversampled * self._share / (1 - self._share)
        n_often = round(self.n * often / (1 + often))
        if self.n_clusters:
            codes = np.arange(self.n) * self.n_clusters // self.n
            listed = codes < round(self.n_clusters * often / (1 + often))
            alike = rng.normal(size=self.n_clusters)[codes]
            noise = math.sqrt(0.3) * alike + math.sqrt(0.7) * rng.normal(size=self.n)
            return *self._scored(rng, listed, noise), listed, codes
        most = max(n_often / self._share, (self.n - n_often) / (1 - self._share))
        many = int(1.5 * most + 500)
        listed = rng.random(many) < LISTED
        y_true, scores = self._scored(rng, listed, rng.normal(size=many))
        of = {"listed": listed, "toxic": y_true, "flagged": scores >= THRESHOLD}
        stratum = of[self.stratum]
        first, rest = np.flatnonzero(stratum)[:n_often], np.flatnonzero(~stratum)
        taken = np.concatenate([first, rest[: self.n - n_often]])
        return y_true[taken], scores[taken], stratum[taken], None

    def _scored(
        self, rng: np.random.Generator, listed: Bools, noise: Floats
    ) -> tuple[Bools, Floats]:
        y_true = rng.random(listed.size) < np.where(listed, TOXIC[1], TOXIC[0])
        return y_true, noise + shift_of(self.auc) * y_true + APART * listed


NUMBERS = ("AUC", "Subgroup AUC", "false_positive_rate", "false_negative_rate", "accuracy")
HEAD = ["stratum and how often it is drawn", "rows", "clusters", "AUC", "strata", "number"]
DESIGNS = [
    *product(("listed", "toxic", "flagged"), (10,), (0.8,), (2_000,), (0,)),
    ("listed", 10, 0.8, 2_000, 100),
]
STRATIFIED = [Stratified(*one, ignored) for one in DESIGNS for ignored in (False, True)]

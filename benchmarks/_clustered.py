"""How often intervals cover the true value if rows come in clusters.

A score is a normal effect of its cluster plus a normal of its own, so that each AUC of the
population is known. Clusters may be of unequal size (lognormal, standard deviation 1), hold one
subgroup each, or hold the subgroup's positives in a few of them only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks._populations import shift_of
from bias_metrics import BiasReport, evaluate_bias

GROUPS = 3
NUMBERS = ("bnsp_auc", "subgroup_auc", "power mean", "final score")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClusteredCase:
    """A population of clustered rows, and the samples to draw.

    Attributes
    ----------
    n_clusters, n : int
        Clusters and rows.
    auc : float
        Of every cell.
    correlation : float
        Within a cluster.
    unequal : bool
        Whether clusters differ in size.
    nested : bool
        Whether a cluster holds rows of one subgroup only.
    few : int
        Clusters that hold the first subgroup's positives; 0 for all.
    replicates : int
        Samples to draw.
    """

    n_clusters: int
    n: int
    auc: float
    correlation: float = 0.3
    unequal: bool = True
    nested: bool = False
    few: int = 0
    replicates: int = 1_000

    def samples(self) -> Iterable[tuple[BiasReport, BiasReport]]:
        """Yield the reports of each sample at 95 and at 90 % confidence."""
        rng = np.random.default_rng(zlib.crc32(repr(self).encode()))
        for _ in range(self.replicates):
            sizes = np.exp(rng.normal(size=self.n_clusters)) if self.unequal else None
            chances = None if sizes is None else sizes / sizes.sum()
            codes = rng.choice(self.n_clusters, self.n, p=chances)
            group = rng.integers(0, GROUPS + 1, self.n_clusters if self.nested else self.n)
            group = group[codes] if self.nested else group
            y_true = rng.random(self.n) < 0.3
            if self.few:
                codes = np.where(y_true & (group == 0), codes % self.few, codes)
            effect = math.sqrt(self.correlation) * rng.normal(size=self.n_clusters)
            own = math.sqrt(1 - self.correlation) * rng.normal(size=self.n)
            scores = effect[codes] + own + shift_of(self.auc) * y_true
            masks = {str(one): group == one for one in range(GROUPS)}
            report, wide = (
                evaluate_bias(y_true, scores, masks, clusters=codes, confidence=level)
                for level in (0.95, 0.9)
            )
            yield report, wide


@dataclass(frozen=True)
class ClusteredCoverage:
    """How the intervals of one number did; shares leave out samples without an interval.

    Attributes
    ----------
    covered, passed : float
        Share of 95 % intervals that hold the truth, and of lower bounds of 90 % intervals above it:
        a floor at the truth passes.
    width : float
        Mean width.
    missing : float
        Share of samples without an interval.
    """

    covered: float
    passed: float
    width: float
    missing: float


def cover_clustered(case: ClusteredCase) -> dict[str, ClusteredCoverage]:
    """Return the coverage of a cell of the first subgroup, a power mean and the final score."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in NUMBERS}
    for reports in case.samples():
        for name in NUMBERS:
            first, second = (_number(one, name) for one in reports)
            if first is not None and second is not None:
                found[name].append((*first, second[0]))
    summary = {}
    for name, ends in found.items():
        low, high, floor = np.array(ends or [(0.0, 1.0, 0.0)]).T
        summary[name] = ClusteredCoverage(
            float(np.mean((low <= case.auc) & (case.auc <= high))),
            float(np.mean(floor > case.auc)),
            float(np.mean(high - low)),
            1 - len(ends) / case.replicates,
        )
    return summary


def _number(report: BiasReport, name: str) -> tuple[float, float] | None:
    cells = report.subgroups["0"]
    one = {
        "bnsp_auc": cells.bnsp_auc,
        "subgroup_auc": cells.subgroup_auc,
        "power mean": report.power_mean.bnsp_auc,
        "final score": report.final_score,
    }[name]
    return None if one.low is None or one.high is None else (one.low, one.high)


CASES = (
    ClusteredCase(25, 1_000, 0.9, unequal=False),
    ClusteredCase(50, 1_500, 0.9),
    ClusteredCase(50, 1_500, 0.99),
    ClusteredCase(50, 1_500, 0.9, 0.7),
    ClusteredCase(200, 4_000, 0.7),
    ClusteredCase(200, 4_000, 0.99),
    ClusteredCase(200, 4_000, 0.9, nested=True),
    ClusteredCase(200, 4_000, 0.9, few=10, unequal=False),
    ClusteredCase(200, 4_000, 0.9, few=20, unequal=False),
)


def clustered_rows(
    found: Iterable[tuple[ClusteredCase, dict[str, ClusteredCoverage]]],
) -> list[list[str]]:
    """Return the lines of the page's table."""
    rows = []
    for case, summary in found:
        kind = "unequal" if case.unequal else "equal"
        kind += ", nested" if case.nested else ""
        kind += f", positives in {case.few}" if case.few else ""
        for name, one in summary.items():
            told = [f"{one.covered:.1%}", f"{one.passed:.1%}", f"{one.width:.4f}"]
            rows.append(
                [
                    *(f"{number:,}" for number in (case.n_clusters, case.n)),
                    kind,
                    *(f"{number:g}" for number in (case.correlation, case.auc)),
                    name,
                    *(told if one.missing < 1 else ["none"] * len(told)),
                    f"{one.missing:.0%}",
                ]
            )
    return rows

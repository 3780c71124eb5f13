"""Whether prediction-powered intervals hold, and what terms are worth, on known populations.

Scores are normal within each class, and the same for everybody: every AUC of the population is the
same, and every gap is 0. Two subgroups are drawn apart from each other. Terms match a mention with
one probability and anything else with another; with `dependence`, the log-odds of both grow with
the score, so that terms are wrong more often on some scores than on others.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.coverage.populations import shift_of
from bias_metrics import (
    BiasReport,
    Difference,
    MetricValue,
    Rows,
    evaluate_bias,
)
from bias_metrics.prediction_powered import PoweredMeasurement, PoweredPairing, PoweredRows
from bias_metrics.report import Options

POSITIVES = 0.3
SUBGROUPS = ("a", "b")
CELLS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")
NUMBERS = (*CELLS, "power mean", "final score")
ALPHA, LEAST = 0.05, 0.93
LEVELS = (0.95, 0.90)  # of intervals, and of bounds for floors and claims
STATED = 200  # samples of which the stated gains are averaged
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PoweredCase:
    """A population, and the samples to draw.

    Attributes
    ----------
    auc : float
        Every AUC; in a comparison, of the second model.
    positives : int
        Expected labelled positives of each subgroup.
    sensitivity, false_positives : float
        How often terms match a mention, and another row (at the mean score).
    dependence : float, default=0
        How much the log-odds of a match grow with one standard deviation of the score.
    labelled : float, default=0.1
        Share of labelled rows.
    prevalence : float, default=0.1
        Share of each subgroup.
    n_clusters : int, default=0
        Clusters that rows fall into at random, with a correlation of .3 within; 0 for none.
    drop : float, default=0
        How much lower the first model's AUC is.
    replicates : int, default=2000
        Samples to draw.
    """

    auc: float
    positives: int
    sensitivity: float
    false_positives: float
    dependence: float = 0.0
    labelled: float = 0.1
    prevalence: float = 0.1
    n_clusters: int = 0
    drop: float = 0.0
    replicates: int = 2_000

    def generator(self) -> np.random.Generator:
        """Return the case's own generator."""
        return np.random.default_rng(zlib.crc32(repr(self).encode()))

    @property
    def n(self) -> int:
        """Number of rows."""
        return math.ceil(self.positives / (POSITIVES * self.prevalence * self.labelled))

    def __str__(self) -> str:
        terms = f"{self.sensitivity:g}/{self.false_positives:g}"
        more = f", dependent {self.dependence:g}" if self.dependence else ""
        more += f", {self.n_clusters} clusters" if self.n_clusters else ""
        more += f", {self.prevalence:.0%} of rows" if self.prevalence != 0.1 else ""
        return f"AUC {self.auc:g}, {self.positives} positives, terms {terms}{more}"


@dataclass(frozen=True)
class Sample:
    """One sample of rows."""

    labels: Bools
    noise: Floats
    human: dict[str, Bools]
    matched: dict[str, Bools]
    labelled: Bools
    clusters: npt.NDArray[np.intp] | None

    def checked(self) -> PoweredRows:
        """Return the rows as the library takes them."""
        rows = Rows(self.labels, self.human, clusters=self.clusters)
        return PoweredRows.of(rows, self.matched, self.labelled)

    def part(self, scores: Floats) -> tuple[Any, ...]:
        """Return the arguments of `evaluate_bias` for the labelled rows."""
        human = {name: one[self.labelled] for name, one in self.human.items()}
        return self.labels[self.labelled], scores[self.labelled], human


def draw(case: PoweredCase, rng: np.random.Generator) -> Sample:
    """Draw one sample."""
    n = case.n
    noise, clusters = rng.standard_normal(n), None
    if case.n_clusters:
        clusters = rng.integers(0, case.n_clusters, n)
        shared = rng.standard_normal(case.n_clusters)[clusters]
        noise = math.sqrt(0.3) * shared + math.sqrt(0.7) * noise
    human = {name: rng.random(n) < case.prevalence for name in SUBGROUPS}
    matched = {name: _matched(case, one, noise, rng) for name, one in human.items()}
    labelled = rng.random(n) < case.labelled
    return Sample(rng.random(n) < POSITIVES, noise, human, matched, labelled, clusters)


def _matched(case: PoweredCase, human: Bools, noise: Floats, rng: np.random.Generator) -> Bools:
    chance = np.where(human, case.sensitivity, case.false_positives)
    odds = chance / (1 - chance) * np.exp(case.dependence * noise)
    return np.asarray(rng.random(human.size) < odds / (1 + odds))


@dataclass(frozen=True)
class Held:
    """How one number did over all samples that had an interval.

    Attributes
    ----------
    covered : float
        Share of intervals of 95 % that contain the truth.
    passed : float
        Share of samples in which a floor exactly at the truth passes with bounds of 90 %.
    gain, claimed : float
        Variance without terms over the variance with them; and the mean gain that reports of the
        first `STATED` samples state.
    width : float
        Mean width over that without terms.
    n : int
        Samples with an interval.
    """

    covered: float
    passed: float
    gain: float
    claimed: float
    width: float
    n: int

    @property
    def holds(self) -> bool:
        """Whether both shares are as they should be."""
        return self.within(LEAST, ALPHA)

    def within(self, least: float, most: float) -> bool:
        """Say whether both shares are within limits, allowing for two Monte Carlo errors."""
        covered = self.covered >= least - 2 * _error(least, self.n)
        return covered and self.passed <= most + 2 * _error(most, self.n)


def hold(case: PoweredCase) -> dict[str, Held]:
    """Return how every number did, by name."""
    rng, mean = case.generator(), shift_of(case.auc)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in NUMBERS}
    for at in range(case.replicates):
        rows = draw(case, rng)
        scores = rows.noise + mean * rows.labels
        checked = rows.checked()
        measured = PoweredMeasurement(checked, checked.scores("y_score", scores))
        whole, bounds = (
            measured.report(Options.of(checked.human, confidence=one)) for one in LEVELS
        )
        clusters = None if rows.clusters is None else rows.clusters[rows.labelled]
        alone = _numbers(evaluate_bias(*rows.part(scores), clusters=clusters))
        gains = {name: one.gain for name, one in (whole.subgroups["a"].assisted or {}).items()}
        lower = _numbers(bounds)
        for name, value in _numbers(whole).items():
            truth = 0.0 if name.endswith("aeg") else case.auc
            without = alone[name]
            if value.low is None or value.high is None or lower[name].low is None:
                continue
            if without.low is None or without.high is None:
                continue
            found[name].append(
                (
                    value.low <= truth <= value.high,
                    float(lower[name].low or 0.0) > truth,
                    float(value),
                    float(without),
                    gains.get(name, math.nan) if at < STATED else math.nan,
                    value.high - value.low,
                    without.high - without.low,
                )
            )
    return {name: _held(np.array(rows, dtype=float)) for name, rows in found.items() if rows}


def _held(rows: Floats) -> Held:
    covered, passed, _, _, _, width, without = rows.mean(axis=0)
    stated = rows[~np.isnan(rows[:, 4]), 4]
    claimed = float(stated.mean()) if stated.size else math.nan
    with_terms, alone = rows[:, 2].var(), rows[:, 3].var()
    gain = alone / with_terms if with_terms else math.nan
    return Held(covered, passed, float(gain), claimed, float(width / without), len(rows))


def _numbers(report: BiasReport) -> Mapping[str, MetricValue]:
    cells = {name: getattr(report.subgroups["a"], name) for name in CELLS}
    return cells | {
        "power mean": report.power_mean.bnsp_auc,
        "final score": report.final_score,
    }


def claim(case: PoweredCase, margin: float) -> dict[str, Held]:
    """Return how often the first model is shown not to be worse by a margin, by number.

    `covered` is the coverage of the difference, `passed` the share of claims.
    """
    rng, means = case.generator(), (shift_of(case.auc - case.drop), shift_of(case.auc))
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in NUMBERS}
    for _ in range(case.replicates):
        rows = draw(case, rng)
        scores = list(_two_models(rows, means, rng))
        for name, (one, bounds) in _differences(rows, scores):
            truth = 0.0 if name.endswith("aeg") else -case.drop
            if one.low is None or one.high is None or bounds.low is None:
                continue
            claimed = bounds.low > -margin
            if name.endswith("aeg"):  # the gaps are alike: it is not wider by the margin
                claimed = bounds.high is not None and bounds.high < 0
            value, width = float(one.value or 0.0), one.high - one.low
            found[name].append((one.low <= truth <= one.high, claimed, value, 0.0, 1.0, width, 1.0))
    return {name: _held(np.array(rows, dtype=float)) for name, rows in found.items() if rows}


def _two_models(
    rows: Sample, means: tuple[float, float], rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield scores that are correlated by .9 within a class."""
    for mean in means:
        own = rng.standard_normal(rows.noise.size)
        yield math.sqrt(0.9) * rows.noise + math.sqrt(0.1) * own + mean * rows.labels


def _differences(
    rows: Sample, scores: list[Floats]
) -> Iterator[tuple[str, tuple[Difference, Difference]]]:
    checked = rows.checked()
    pairing = PoweredPairing(checked, [checked.scores("y_score", one) for one in scores])
    both = [pairing.comparison(Options.of(checked.human, confidence=one)) for one in LEVELS]
    for name in CELLS:
        yield name, (both[0].subgroups["a"][name], both[1].subgroups["a"][name])
    yield "power mean", (both[0].power_mean["bnsp_auc"], both[1].power_mean["bnsp_auc"])
    yield "final score", (both[0].final_score, both[1].final_score)


def _error(share: float, n: int) -> float:
    return math.sqrt(share * (1 - share) / n)

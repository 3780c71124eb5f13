"""How much of every number depends on the raters who happened to be asked: `label_noise`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, aligned, check_scores, check_subgroups
from bias_metrics._core.counted import counted
from bias_metrics._core.intervals import quantile
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.ranks import Floats
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.metrics import METRICS
from bias_metrics.raters.expected import (
    FINAL,
    OVERALL,
    Key,
    SortedRows,
    expected_report,
    pairs_of,
    rater_variances,
)
from bias_metrics.raters.results import LabelNoise, RatedValue, Reading, numbers_of
from bias_metrics.raters.votes import Grid, VoteCells, VoteModel
from bias_metrics.report.bootstrap import check_draws
from bias_metrics.report.evaluation import report_of
from bias_metrics.report.labels import checked_fractions
from bias_metrics.report.steps import Options
from bias_metrics.rows import Background, Rows

LEAST_RATED_TWICE = 20
"""Comments with two raters or more that a model of disagreement needs."""


@aligned
def label_noise(
    label_fraction: npt.ArrayLike,
    n_raters: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    rng: np.random.Generator,
    threshold: float = 0.5,
    n_draws: int = 20,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    background: Background = "outside_subgroup",
) -> LabelNoise:
    """Measure how much every bias metric depends on the raters who happened to be asked.

    A label from three raters is a sample: three others may call the same comment harmless. This
    reads the same votes in three ways, which have different true values:

    - `panel`: the labels of panels of these sizes. The numbers and intervals are those of
      `evaluate_bias`; the intervals already include the raters, since each comment comes with a
      panel of its own. More raters change the true value: noisy labels lower an AUC.
    - `expected`: the label that one rater gives, chosen at random. Each comment is toxic with the
      probability that its votes estimate, and pairs of different comments are weighted by their
      probabilities. The true value does not depend on the number of raters, and **nothing is
      assumed** about how underlying fractions are distributed. So it is the one to compare between
      sets with different numbers of raters. AUCs are lower than for labels by majority, even of
      perfect scores, because a divided comment counts on both sides.
    - `consensus`: the label by majority if everybody rated every comment. With few raters the votes
      do not determine it: it rests on a model of underlying fractions, given score and
      subgroups. `redrawn` shows whether this model reproduces the numbers of `panel`.

    Never redraw labels from the fractions themselves: these have the raters' noise already, and a
    second time it lowers every AUC.

    Parameters
    ----------
    label_fraction : float array of shape (n,)
        Fraction of a comment's raters who called it toxic, from 0 to 1.
    n_raters : int array of shape (n,), or int
        How many raters each comment had, at least 1.
    y_score : float array of shape (n,)
        Finite scores; only their order counts.
    subgroups : mapping of str to bool array of shape (n,), or data frame
        Name and membership of each subgroup.
    rng : numpy.random.Generator
        Source of the draws; a generator in the same state gives the same result.
    threshold : float, default=0.5
        A comment is toxic if its fraction is at least this; between 0 and 1.
    n_draws : int, default=20
        Draws of the labels, at least 2.
    power, power_mean_groups, confidence, clusters, background
        As in `evaluate_bias`.

    Returns
    -------
    LabelNoise
        Each number under the three readings, with an interval and `rater_share`, the part of
        the squared standard error that comes from raters. For `panel`, the variance if panels of
        the same sizes rated the same comments again; for `expected`, if as many raters did; for
        `consensus`, what the votes leave open. Where comments have one rater, what depends on the
        disagreement of two is undefined.

    Raises
    ------
    ValueError
        As `evaluate_bias`; and if a fraction is outside [0, 1], a number of raters is not whole or
        below 1, `threshold` is not between 0 and 1 or `n_draws` is below 2.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    All readings take the raters of different comments as independent, given the comments: if few
    raters rated everything, shares of raters are too small . `consensus`
    also takes votes and score as independent given the underlying fraction. Its draws are
    combined by Rubin's rules, but with an interval for each part instead of his (or Barnard's and
    Rubin's) joint degrees of freedom. The expected AUC is a ratio of U-statistics of the votes:
    a comment's vote is an unbiased estimate of its probability, and pairs of a comment with itself
    are left out.

    References
    ----------
    Rubin (1987), Multiple Imputation for Nonresponse in Surveys, chapter 3. Meng (1994),
    Statistical Science 9. Efron (2016), Biometrika 103. Hoeffding (1948), Annals of Mathematical
    Statistics 19 (U-statistics).

    Examples
    --------
    >>> fraction, gay = [0, 1 / 3, 2 / 3, 1] * 20, [0, 0, 0, 0, 1, 1, 1, 1] * 10
    >>> y_score = [0.1, 0.3, 0.6, 0.8, 0.2, 0.5, 0.7, 0.9] * 10
    >>> rng = np.random.default_rng(0)
    >>> found = label_noise(fraction, 3, y_score, {"gay": gay}, rng=rng)
    >>> print(found.expected[None, "auc"].value)
    0.919 [0.874, 0.949]
    >>> print(f"{found.expected[None, 'auc'].rater_share.value:.2f}")
    0.64
    """
    check_draws(rng, n_draws, "n_draws")
    fraction = checked_fractions(label_fraction).astype(np.float64)
    raters = check_raters(n_raters, fraction.size)
    if not 0 < threshold < 1:
        msg = f"`threshold` must be between 0 and 1, as in 0.5; got {threshold}."
        raise ValueError(msg)
    like = "label_fraction"
    scores = check_scores("y_score", y_score, fraction.size, like=like)
    masks = check_subgroups(subgroups, fraction.size, like=like)
    rows = Rows(fraction >= threshold, masks, clusters=clusters, background=background)
    options = Options.of(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    ordered = SortedRows.of(scores)
    panel = numbers_of(report_of(rows, scores, options))
    redrawn: dict[str, MetricValue]
    if reason := _too_few(raters):
        consensus = every(panel, reason)
        by_panel = {key: RatedValue(one, undefined(reason)) for key, one in panel.items()}
        redrawn = {"auc": undefined(reason), "final_score": undefined(reason)}
    else:
        cells = VoteCells.of(fraction, raters, ordered, rows.subgroups)
        model = VoteModel(cells, Grid.of(threshold))
        drawn = impute(model, rows, scores, options, raters, n_draws, rng)
        hard = pairs_of(rows, ordered, rows.y_true.astype(np.float64))
        by_panel = _rated(panel, rater_variances(hard, options, drawn.unsure))
        consensus = {
            key: combined([number[key] for number in drawn.numbers], key[1], confidence)
            for key in panel
        }
        redrawn = {metric: mean_of(values) for (_, metric), values in drawn.redrawn.items()}
    return LabelNoise(
        panel=Reading(by_panel),
        expected=Reading(_expected(rows, ordered, options, fraction, raters)),
        consensus=Reading(consensus),
        redrawn=redrawn,
        agreement=_agreement(fraction, raters),
        n=fraction.size,
        n_draws=n_draws,
        raters={
            "least": float(raters.min(initial=raters.max(initial=0))),
            "median": float(np.median(raters)) if raters.size else 0.0,
            "most": float(raters.max(initial=0)),
        },
    )


def check_raters(n_raters: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    """Return numbers of raters, shape (n,): whole, at least 1; one number is for all rows."""
    given = np.asarray(n_raters)
    given = np.broadcast_to(given, n) if given.ndim == 0 else given
    known = check_scores("n_raters", given, n, like="label_fraction")
    wrong = np.flatnonzero((known < 1) | (known != np.floor(known)))
    if wrong.size:
        msg = (
            f"`n_raters` must be whole numbers of at least 1; got {known[wrong[0]]:g} "
            f"(row {wrong[0]})."
        )
        raise ValueError(msg)
    return known.astype(np.int64)


def _too_few(raters: npt.NDArray[np.int64]) -> str | None:
    n = int(np.count_nonzero(raters >= 2))
    if n >= LEAST_RATED_TWICE:
        return None
    return f"{counted(n, 'comment')} with two raters or more where {LEAST_RATED_TWICE} are needed"


def _expected(
    rows: Rows,
    ordered: SortedRows,
    options: Options,
    fraction: Floats,
    raters: npt.NDArray[np.int64],
) -> dict[Key, RatedValue]:
    pairs = pairs_of(rows, ordered, fraction)
    numbers = numbers_of(expected_report(pairs, rows, options))
    alone = int(np.count_nonzero(raters == 1))
    if alone:
        reason = f"{counted(alone, 'comment')} with one rater"
        return {key: RatedValue(one, undefined(reason)) for key, one in numbers.items()}
    each = fraction * (1 - fraction) / (raters - 1)
    return _rated(numbers, rater_variances(pairs, options, each))


def _rated(numbers: dict[Key, MetricValue], by_rater: dict[Key, float]) -> dict[Key, RatedValue]:
    """Put numbers beside the part of their variance that comes from raters."""
    found = {}
    for key, one in numbers.items():
        if one.std_error is None or key not in by_rater:
            share = undefined(one.reason or "no standard error")
        else:
            share = share_of(by_rater[key], one.std_error**2)
        found[key] = RatedValue(one, share)
    return found


def _agreement(fraction: Floats, raters: npt.NDArray[np.int64]) -> MetricValue:
    """Return how often two raters of a comment agree, on average over comments with two."""
    several = raters >= 2
    if not several.any():
        return undefined("no comment with two raters")
    share, n = fraction[several], raters[several]
    return MetricValue(float(np.mean(1 - 2 * share * (1 - share) * n / (n - 1))))


# ---- Every number under labels that are drawn repeatedly: multiple imputation


@dataclass
class Imputed:
    """What the draws give."""

    # Variance of each comment's label if a new panel rates it: half of how often two new panels
    # disagree.
    unsure: Floats
    # Of each draw, under the labels that all raters together would give.
    numbers: list[dict[Key, MetricValue]] = field(default_factory=list)
    # Of each draw, under the labels of a new panel.
    redrawn: dict[Key, list[MetricValue]] = field(default_factory=dict)


def impute(
    model: VoteModel,
    rows: Rows,
    scores: FloatArray,
    options: Options,
    n_raters: npt.NDArray[np.int64],
    n_draws: int,
    rng: np.random.Generator,
) -> Imputed:
    """Draw labels of the rows, with the model of their votes, and measure them."""
    best, threshold = model.fit(), model.grid.threshold
    spread = model.spread(best, rows.clusters)
    found = Imputed(np.zeros(n_raters.size), redrawn={OVERALL: [], FINAL: []})
    for _ in range(n_draws):
        fraction = model.draw(best, spread, rng)
        panels = [rng.binomial(n_raters, fraction) >= threshold * n_raters for _ in range(2)]
        found.unsure += (panels[0] != panels[1]) / (2 * n_draws)
        report = report_of(rows.labelled(fraction >= threshold), scores, options)
        found.numbers.append(numbers_of(report))
        again = replace(options, confidence=None)
        known = numbers_of(report_of(rows.labelled(panels[0]), scores, again))
        for key, values in found.redrawn.items():
            values.append(known[key])
    return found


def combined(draws: Sequence[MetricValue], metric: str, confidence: float) -> RatedValue:
    """Combine the draws of one number.

    The interval reaches as far as the root of the sum of two squares: the mean reach of the
    draws' own intervals, and that of Student's for the variance between the draws. So each part
    has its own degrees of freedom, and a small cell stays as cautious as in each draw.
    """
    lacking = [value.reason for value in draws if value.value is None]
    if lacking:
        told = undefined(f"undefined in {len(lacking)} of {len(draws)} draws ({lacking[0]})")
        return RatedValue(told, undefined(str(told.reason)))
    values = np.array([value.value for value in draws])
    mean = float(values.mean())
    without = [value.reason for value in draws if value.low is None]
    if without:
        reason = f"no interval in {len(without)} of {len(draws)} draws ({without[0]})"
        return RatedValue(MetricValue(mean, reason), undefined(reason))
    between = float(values.var(ddof=1)) * (1 + 1 / len(draws))
    errors = np.array([value.std_error for value in draws], dtype=np.float64)
    within = float(np.mean(errors**2))
    t = quantile(confidence, len(draws) - 1)
    down, up = (
        math.sqrt(float(np.mean((values - ends) ** 2)) + t**2 * between)
        for ends in (
            np.array([value.low for value in draws]),
            np.array([value.high for value in draws]),
        )
    )
    least = -METRICS[metric].centre
    found = MetricValue(
        mean,
        std_error=math.sqrt(within + between),
        low=max(mean - down, least),
        high=min(mean + up, least + 1.0),
        n_clusters=draws[0].n_clusters,
    )
    return RatedValue(found, share_of(between, within + between))


def share_of(variance: float, total: float) -> MetricValue:
    """Return the part of a variance, at most 1; undefined if there is none."""
    return MetricValue(min(variance / total, 1.0)) if total > 0 else undefined("no variance")


def mean_of(draws: Sequence[MetricValue]) -> MetricValue:
    """Return the mean of the draws; undefined if one of them is."""
    known = [value.value for value in draws if value.value is not None]
    if len(known) < len(draws):
        return undefined(f"undefined in {len(draws) - len(known)} of {len(draws)} draws")
    return MetricValue(math.fsum(known) / len(known))


def every(numbers: Mapping[Key, MetricValue], reason: str) -> dict[Key, RatedValue]:
    """Return undefined values for every number, with one reason."""
    return {key: RatedValue(undefined(reason), undefined(reason)) for key in numbers}

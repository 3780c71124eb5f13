"""Two models compared with human labels on part of the rows and term matching on all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, aligned
from bias_metrics._core.differences import Difference, difference_of, undefined_difference
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.values import Named
from bias_metrics.metrics import FINAL_SCORE_PARTS
from bias_metrics.prediction_powered.cells import Cell, estimate_difference
from bias_metrics.prediction_powered.evaluation import Combined
from bias_metrics.prediction_powered.model import PoweredModel
from bias_metrics.prediction_powered.rows import PoweredRows
from bias_metrics.report.comparison import compared
from bias_metrics.report.jointly import adjust_differences
from bias_metrics.report.report import Assistance, BiasComparison, BiasReport, Overall
from bias_metrics.report.uncertainty import aggregate_of
from bias_metrics.rows import Rows

_AGGREGATES = ("overall", *FINAL_SCORE_PARTS, "final_score")


@aligned
def compare_prediction_powered(
    rows: Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    matched: Subgroups,
    labelled: npt.ArrayLike,
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> BiasComparison:
    """Compare two models from human identity labels on part of the rows and terms on all.

    As `compare_bias` does from human labels of all rows. The weight of the terms is the one with
    which the *difference* of the models has the smallest variance, the same for both. So a value
    of `first` may differ a little from that of `prediction_powered_bias`, whose weight is chosen
    for one model.

    Parameters
    ----------
    rows : Rows
        As in `prediction_powered_bias`.
    y_score_a, y_score_b : float array of shape (n,)
        Scores of the first model (the candidate) and the second (the champion), of the same
        rows in the same order.
    matched, labelled
        As in `prediction_powered_bias`.
    power, power_mean_groups, confidence
        As in `compare_bias`.

    Returns
    -------
    BiasComparison
        As from `compare_bias`; `assisted` of a subgroup of `first` says what terms added to each
        difference. Where terms do not help, and if all rows are labelled, a cell's difference is
        that of `compare_bias` on the labelled rows.

    Raises
    ------
    ValueError, TypeError
        As `prediction_powered_bias`.

    References
    ----------
    Angelopoulos, Duchi and Zrnic (2023), arXiv:2311.01453 (PPI++).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> toxic, gay, labelled = (rng.random(5000) < share for share in (0.3, 0.2, 0.2))
    >>> term = rng.random(5000) < np.where(gay, 0.85, 0.01)
    >>> a = rng.normal(toxic)
    >>> b = a + rng.normal(0, 0.5, 5000)
    >>> found = compare_prediction_powered(
    ...     Rows(toxic, {"gay": gay}), a, b, {"gay": term}, labelled
    ... )
    >>> str(found.subgroups["gay"].bnsp_auc)
    '+0.011 [-0.020, +0.042]'
    """
    powered = PoweredRows.of(
        rows,
        matched,
        labelled,
        power=power,
        power_mean_groups=power_mean_groups,
        confidence=confidence,
    )
    scores = powered.scores("y_score_a", y_score_a), powered.scores("y_score_b", y_score_b)
    return comparison_of(powered, scores)


def comparison_of(rows: PoweredRows, scores: Sequence[FloatArray]) -> BiasComparison:
    """Compare two models on checked rows."""
    at = np.flatnonzero(rows.labelled)
    ordinary = compared(rows.human.within(at), [one[at] for one in scores], rows.options)
    if rows.labelled.all():
        return _of_labels_alone(ordinary, rows.n_labelled)
    models = [PoweredModel(rows, one) for one in scores]
    cells: list[dict[str, dict[str, tuple[Cell, Assistance]]]] = [{}, {}]
    differences: dict[str, dict[str, Difference]] = {}
    for name in rows.human.subgroups:
        both = [model.pieces(name) for model in models]
        differences[name] = {}
        for of_one in cells:
            of_one[name] = {}
        for metric, known in ordinary.subgroups[name].items():
            pair = both[0][metric], both[1][metric]
            change, found, assistance = estimate_difference(metric, pair, known, rows.confidence)
            differences[name][metric] = change
            for of_one, cell in zip(cells, found, strict=True):
                of_one[name][metric] = cell, assistance
    combined = [Combined(model, of_one) for model, of_one in zip(models, cells, strict=True)]
    return _put_together(combined, adjust_differences(differences), rows.confidence)


def _of_labels_alone(found: BiasComparison, n: Mapping[str, int]) -> BiasComparison:
    first, second = (
        replace(one, overall=replace(one.overall, labelled=n))
        for one in (found.first, found.second)
    )
    overall = replace(found.overall, labelled=n)
    return replace(found, first=first, second=second, overall=overall)


def _put_together(
    combined: Sequence[Combined],
    cells: Mapping[str, Mapping[str, Difference]],
    confidence: float,
) -> BiasComparison:
    first, second = (one.report() for one in combined)
    changes = {
        name: _aggregate(name, (first, second), combined, confidence) for name in _AGGREGATES
    }
    known = first.overall
    return BiasComparison(
        first=first,
        second=second,
        overall=Overall(known.n, known.n_positive, changes.pop("overall"), labelled=known.labelled),
        final_score=changes.pop("final_score"),
        power_mean=Named(changes),
        subgroups={name: Named(of_group) for name, of_group in cells.items()},
        confidence=confidence,
    )


def _aggregate(
    name: str,
    reports: tuple[BiasReport, BiasReport],
    combined: Sequence[Combined],
    confidence: float,
) -> Difference:
    a, b = (aggregate_of(one, name) for one in reports)
    of_a, of_b = (one.totals.get(name) for one in combined)
    if of_a is None or of_b is None or a.std_error is None or b.std_error is None:
        return undefined_difference(a, b)
    return difference_of(a, b, of_a, of_b, confidence)

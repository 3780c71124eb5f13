"""All bias metrics of one model, from human labels on part of the rows and terms on all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, aligned
from bias_metrics._core.clusters import ClusterSums
from bias_metrics._core.differences import Difference, difference_of, undefined_difference
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.values import MetricValue, Named
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS
from bias_metrics.prediction_powered.cells import (
    Cell,
    Found,
    estimate,
    estimate_difference,
)
from bias_metrics.prediction_powered.model import PoweredModel
from bias_metrics.prediction_powered.rows import PoweredRows
from bias_metrics.report.clustered import Moves
from bias_metrics.report.jointly import adjust_differences
from bias_metrics.report.measurement import Pairing
from bias_metrics.report.report import Assistance, BiasComparison, BiasReport, Overall, SubgroupBias
from bias_metrics.report.steps import MeasuredSubgroup, Options, summarise_bias
from bias_metrics.report.uncertainty import (
    aggregate_of,
    describe,
    replace_aggregates,
    weighted_influences,
)
from bias_metrics.rows import Rows

Cells = Mapping[str, Mapping[str, tuple[Cell, Assistance]]]


@aligned
def prediction_powered_bias(
    rows: Rows,
    y_score: npt.ArrayLike,
    matched: Subgroups,
    labelled: npt.ArrayLike,
    *,
    power: float = -5.0,
    power_mean_groups: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> BiasReport:
    """Measure bias from human identity labels on part of the rows and term matching on all.

    Every number estimates what `evaluate_bias` on human labels of all rows would give. It is
    measured on the labelled rows and corrected by how unusual these rows are as far as terms can
    tell: value = human on labelled - weight * (terms on labelled - terms on all). The weight is the
    one with the smallest variance, 0 where terms do not help. Good terms (they find 85 of 100
    mentions and 1 of 100 others) are worth 2 to 3 times as many labels where a tenth of the rows is
    labelled; useless terms change nothing.

    Within each class (positive, negative) the labelled rows must be a random sample of all rows.
    Rows that were chosen for what they mention, or for their score, give wrong numbers. This is
    refused where the rows show it clearly.

    Parameters
    ----------
    rows : Rows
        All rows, without weights, in subgroups by human labels, which are ignored on unlabelled
        rows; clusters of labelled rows count.
    y_score : float array of shape (n,)
        Higher means more toxic.
    matched : mapping of str to bool array of shape (n,), or data frame
        The rows that contain one of its terms, for the same names. Any other guess that does not
        use human labels of these rows will do, such as that of a classifier.
    labelled : bool array of shape (n,)
        Which rows have human labels, of all subgroups.
    power : float, default=-5.0
        Exponent of the power means, not 0.
    power_mean_groups : sequence of str, optional
        The subgroups that the power means cover; default all.
    confidence : float, default=0.95
        Confidence of each interval on its own.

    Returns
    -------
    BiasReport
        As from `evaluate_bias`. Subgroups count labelled rows, and say in `assisted` what terms
        added to each cell; the overall AUC needs no identities and covers all rows. If all rows are
        labelled, or with weight 0, cells are those of `evaluate_bias` on the labelled rows.

    Raises
    ------
    ValueError
        As `evaluate_bias`; if no row is labelled, `matched` has other names than `subgroups`, or
        labelled rows clearly differ from the others of their class in score or matched terms.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    The variance is that of influence functions, with the jackknife's correction for choosing the
    weight from the same rows. Power means and final score are computed from the corrected cells.
    Terms are not used for a cell that is exactly 0 or 1 on the labelled rows, which have no errors
    to learn a weight from.

    References
    ----------
    Borkan et al. (2019), for the metrics. Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023),
    Science 382 (prediction-powered inference). Angelopoulos, Duchi and Zrnic (2023),
    arXiv:2311.01453 (PPI++, the weight).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> toxic, gay, labelled = (rng.random(5000) < share for share in (0.3, 0.2, 0.2))
    >>> score, term = rng.normal(toxic), rng.random(5000) < np.where(gay, 0.85, 0.01)
    >>> rows = Rows(toxic, {"gay": gay})
    >>> found = prediction_powered_bias(rows, score, {"gay": term}, labelled)
    >>> print(found.subgroups["gay"].bnsp_auc)
    0.745 [0.692, 0.791]
    >>> round(found.subgroups["gay"].assisted["bnsp_auc"].gain, 1)
    1.8
    """
    powered = PoweredRows.of(rows, matched, labelled)
    options = Options.of(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    return PoweredMeasurement(powered, powered.scores("y_score", y_score)).report(options)


class PoweredMeasurement:
    """One model's scores, measured once: reports at any confidence.

    Of the influences, those on the parts of the aggregates are kept.
    """

    def __init__(self, rows: PoweredRows, scores: FloatArray) -> None:
        self.rows, self._model = rows, PoweredModel(rows, scores)
        self._found: dict[str, dict[str, tuple[Cell, Assistance]]] = {}

    def report(self, options: Options, names: Iterable[str] | None = None) -> BiasReport:
        """Return the report at a confidence; `names` are the subgroups, default all."""
        if self.rows.labelled.all():
            return _counted(self._model.labelled.report(options, names), self.rows.n_labelled)
        names = self.rows.human.subgroups if names is None else names
        return Combined(self._model, {name: self._of(name) for name in names}, options).report()

    def _of(self, name: str) -> dict[str, tuple[Cell, Assistance]]:
        if name not in self._found:
            found = {metric: estimate(one) for metric, one in self._model.pieces(name).items()}
            self._found[name] = {
                metric: (_kept(metric, cell), one) for metric, (cell, one) in found.items()
            }
        return self._found[name]


def _counted(report: BiasReport, n: Mapping[str, int]) -> BiasReport:
    return replace(report, overall=replace(report.overall, labelled=n))


def _kept(metric: str, cell: Cell) -> Cell:
    """Leave out the influences on a cell that is no part of an aggregate."""
    return cell if metric in FINAL_SCORE_PARTS else (cell[0], None)


class Combined:
    """A report put together from its cells.

    `totals`: the influences on the overall AUC (`overall`), the power means and the final score.
    """

    def __init__(self, model: PoweredModel, cells: Cells, options: Options) -> None:
        self._clustered, self._level = model.rows.clustered, options.level
        auc, influences = model.overall
        report = summarise_bias(
            model.everyone.everyone,
            {
                name: _with_cells(model.labelled.subgroup(name), of_group, options.level)
                for name, of_group in cells.items()
            },
            power=options.power,
            power_mean_groups=options.groups,
            background=model.rows.human.background,
            overall=auc.at(options.level),
        )
        moves = Moves(report)
        for name, of_group in cells.items():
            for metric, ((_, sums), _) in of_group.items():
                if sums is not None:
                    moves.add(name, metric, sums, getattr(report.subgroups[name], metric))
        if influences is not None:
            moves.add(None, "auc", influences, report.overall.auc)
        self._report = _counted(report, model.rows.n_labelled)
        [self._reaches] = moves.complete()
        self.totals = moves.totals

    def report(self) -> BiasReport:
        """Return the report with intervals of the aggregates."""
        known = weighted_influences(self._report, self.totals)
        return replace_aggregates(
            self._report, {name: self._described(name, influence) for name, influence in known}
        )

    def _described(self, name: str, influence: ClusterSums | str) -> MetricValue:
        sums = self.totals.get(name) if self._clustered else None
        value = aggregate_of(self._report, name)
        found = describe(value, influence, sums, self._reaches.get(name), confidence=self._level)
        # It is not known what the error of independent rows would be.
        return replace(found, row_std_error=None)


def _with_cells(
    measured: MeasuredSubgroup, cells: Mapping[str, tuple[Cell, Assistance]], level: float
) -> SubgroupBias:
    values: dict[str, Any] = {metric: auc.at(level) for metric, ((auc, _), _) in cells.items()}
    return SubgroupBias(
        n_positive=measured.n_positive,
        n_negative=measured.n_negative,
        assisted={metric: one for metric, (_, one) in cells.items()},
        **values,
    )


# ---- Two models compared with human labels on part of the rows and term matching on all


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
    powered = PoweredRows.of(rows, matched, labelled)
    options = Options.of(
        rows, power=power, power_mean_groups=power_mean_groups, confidence=confidence
    )
    scores = powered.scores("y_score_a", y_score_a), powered.scores("y_score_b", y_score_b)
    return PoweredPairing(powered, scores).comparison(options)


class PoweredPairing:
    """Two models' scores of the same rows, measured once: comparisons at any confidence."""

    def __init__(self, rows: PoweredRows, scores: Sequence[FloatArray]) -> None:
        self.rows = rows
        self._models = [PoweredModel(rows, score) for score in scores]
        self._labelled = Pairing(*(model.labelled for model in self._models))
        self._found: dict[str, dict[str, Found]] = {}

    def comparison(self, options: Options, names: Iterable[str] | None = None) -> BiasComparison:
        """Return the comparison at a confidence; `names` are the subgroups, default all."""
        names = list(self.rows.human.subgroups if names is None else names)
        if self.rows.labelled.all():
            found = self._labelled.comparison(options, names)
            return _compared_by_labels(found, self.rows.n_labelled)
        level, differences = options.level, self._labelled.differences(options, names)
        cells: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        for name in names:
            for of_one in cells:
                of_one[name] = {}
            for metric, (apart, both, assistance) in self._of(name).items():
                if apart is not None:
                    (a, _), (b, _) = both
                    differences[name][metric] = apart.difference(
                        a.at(level), b.at(level), level, is_gap=METRICS[metric].is_gap
                    )
                for of_one, cell in zip(cells, both, strict=True):
                    of_one[name][metric] = cell, assistance
        combined = [
            Combined(model, of_one, options)
            for model, of_one in zip(self._models, cells, strict=True)
        ]
        return _put_together(combined, adjust_differences(differences), level)

    def _of(self, name: str) -> dict[str, Found]:
        if name not in self._found:
            first, second = (model.pieces(name) for model in self._models)
            found = {x: estimate_difference((one, second[x])) for x, one in first.items()}
            self._found[name] = {
                metric: (apart, (_kept(metric, a), _kept(metric, b)), one)
                for metric, (apart, (a, b), one) in found.items()
            }
        return self._found[name]


def _compared_by_labels(found: BiasComparison, n: Mapping[str, int]) -> BiasComparison:
    first, second = _counted(found.first, n), _counted(found.second, n)
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
    a, b = (aggregate_of(report, name) for report in reports)
    of_a, of_b = (one.totals.get(name) for one in combined)
    if of_a is None or of_b is None or a.std_error is None or b.std_error is None:
        return undefined_difference(a, b)
    return difference_of(a, b, of_a, of_b, confidence)

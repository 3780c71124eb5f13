"""The numbers that a page shows and the report lacks: distributions, curves, differences."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bias_metrics import MetricValue, threshold_report
from bias_metrics.metrics import list_threshold_metrics
from bias_metrics.parts import reaches_cut
from bias_metrics.report import sort_worst_first
from bias_metrics.rows import Background
from bias_metrics.rows import Rows as LabelledRows
from bias_metrics.thresholds import Events
from biasgate.tasks.common.files import json_digest, whole_file
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.rows import EvidenceRows
from biasgate.tasks.records import (
    RATE_OF_GAP,
    AtThreshold,
    ClassScores,
    Curves,
    Details,
    GroupRates,
    GroupScores,
    Rates,
    Report,
    Scores,
    Verdict,
    list_error_rates,
)
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.reporting.tables import PANELS

FILE = "details.json"
SCHEMA_VERSION = 1
_BINS = 40
_QUANTILES = 20  # of the scores of each class, as thresholds to choose from
_DIGITS = 6
_NEAR = 1e-4  # bins of probabilities get smaller up to this distance from 0 and 1
_VERSIONS = ("numpy", "scikit-learn", "mlflow", "prefect")

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating]
Places = npt.NDArray[np.intp]


def measure_details(report: Report, verdict: Verdict, evidence: EvidenceFile) -> Details:
    """Measure what the page of a candidate shows beyond its report."""
    shown = sort_worst_first(report.bias.subgroups)[:PANELS]
    rows = evidence.rows
    return Details(
        schema_version=SCHEMA_VERSION,
        report_digest=json_digest(report),
        versions={"python": platform.python_version()}
        | {package: version(package) for package in _VERSIONS},
        scores=_count_scores(rows, evidence.background, shown),
        curves=_measure_curves(report, rows, evidence.background, shown)
        if report.thresholds
        else None,
        champion=evidence.measure_set(CONFIDENCE).table.select_rival("champion"),
        champion_rates=_measure_champion(verdict, rows, shown),
    )


def _measure_champion(
    verdict: Verdict, rows: EvidenceRows, shown: Sequence[str]
) -> dict[str, dict[str, float | None]] | None:
    """Return the champion's error rates by identity at its own threshold, if it has a threshold.

    Comments that it did not score are left out.
    """
    rival = verdict.champion
    if rival is None or rival.threshold is None or rows.weights is not None:
        return None
    scores = rows.scores["champion"]
    is_scored = np.isfinite(scores)
    identities = rows.select_identities(shown).members.items()
    members = {name: mask[is_scored] for name, mask in identities if mask[is_scored].any()}
    errors = threshold_report(
        rows.labels[is_scored], scores[is_scored], members, threshold=rival.threshold
    )
    return {
        name: {rate: errors.subgroups[name].rate(rate).value for rate in RATE_OF_GAP.values()}
        for name in members
    }


def write_details(details: Details, folder: Path) -> None:
    """Write `details.json`, atomically and without line breaks, since it is long."""
    with whole_file(folder / FILE) as temporary:
        text = json.dumps(convert_to_plain(details), separators=(",", ":"), allow_nan=False)
        temporary.write_text(text + "\n", "utf-8")


def read_details(folder: Path, report: Report, verdict: Verdict) -> Details:
    """Read `details.json`; measure again if it is missing, or of another report or version."""
    if (folder / FILE).exists():
        with suppress(ValueError):  # another version of biasgate wrote other fields
            details = Details.read((folder / FILE).read_bytes())
            if details.report_digest == json_digest(report):
                return details
    return measure_details(report, verdict, EvidenceFile(folder / EVIDENCE))


def _count_scores(rows: EvidenceRows, among: str, shown: list[str]) -> Scores:
    labels, scores, weights = rows.labels, rows.y_score, rows.weights
    background = rows.find_shared_background(among)
    edges, scale = choose_bins(float(scores.min()), float(scores.max()))
    bins = np.minimum(np.searchsorted(edges, scores, side="right") - 1, _BINS - 1)

    def count_bins(places: Places) -> list[float]:
        if weights is None:
            return [*np.bincount(bins[places], None, _BINS).tolist()]
        return _round_values(np.bincount(bins[places], weights[places], _BINS))

    classes = ~labels, labels
    shared = [
        None if background is None else count_bins(np.flatnonzero(background & side))
        for side in classes
    ]

    def describe_group(inside: Bools, backgrounds: Sequence[list[float] | None]) -> GroupScores:
        """Describe rows and their `backgrounds` by class; by default all other rows."""
        sides = []
        for side, others in zip(classes, backgrounds, strict=True):
            own = np.flatnonzero(side & inside)
            outside = count_bins(np.flatnonzero(side & ~inside)) if others is None else others
            sides.append(
                ClassScores(
                    n=own.size,
                    counts=count_bins(own),
                    background=outside,
                    quartiles=_compute_quartiles(
                        scores[own], None if weights is None else weights[own]
                    ),
                )
            )
        negative, positive = sides
        return GroupScores(negative=negative, positive=positive)

    return Scores(
        scale=scale,
        edges=edges.tolist(),
        overall=describe_group(np.ones_like(labels), [None, None]),
        subgroups={name: describe_group(rows.members[name], shared) for name in shown},
    )


def choose_bins(low: float, high: float) -> tuple[Floats, Literal["logit", "linear"]]:
    """Return the edges of bins and their scale; bins of probabilities are equally wide in log-odds.

    Most comments score near 0, and would all be in the first of equally wide bins.
    """
    if low == high:
        low, high = low - 0.5, high + 0.5
    inner = np.clip((low, high), _NEAR, 1 - _NEAR)
    if low < 0 or high > 1 or inner[0] == inner[1]:
        return np.linspace(low, high, _BINS + 1), "linear"
    first, last = np.log(inner / (1 - inner)).tolist()
    odds = np.linspace(first, last, _BINS + 1)
    edges = 1 / (1 + np.exp(-odds))
    edges[[0, -1]] = low, high
    return edges, "logit"


def _compute_quartiles(scores: Floats, weight: Floats | None) -> list[float] | None:
    if not scores.size or (weight is not None and not weight.sum()):
        return None
    return _round_values(
        np.quantile(scores, (0.25, 0.5, 0.75), method="inverted_cdf", weights=weight)
    )


def _measure_curves(
    report: Report, evidence: EvidenceRows, among: Background, shown: list[str]
) -> Curves:
    """Return the errors at many thresholds; at the report's thresholds, its numbers."""
    labels, scores = evidence.labels, evidence.y_score
    chosen = {kind: at.threshold for kind, at in report.thresholds.items()}
    thresholds = _choose_thresholds(labels, scores, chosen)
    # Identities that are not shown are also outside the common background.
    rows = LabelledRows(labels, evidence.members, clusters=evidence.clusters, background=among)
    flags = [reaches_cut(scores, threshold) for threshold in thresholds]
    subgroups: dict[str, dict[str, Any]] = {name: {} for name in shown}
    positions = range(len(thresholds))
    for metric, rate in RATE_OF_GAP.items():
        events = Events.from_rate(list_threshold_metrics()[metric], rows, flags)
        for name, gap in events.list_gaps(shown):
            rates = [_round_interval(gap.own.measure(CONFIDENCE, at)) for at in positions]
            subgroups[name][rate] = [value for value, _, _ in rates]
            subgroups[name][f"{rate}_ends"] = [[low, high] for _, low, high in rates]
            subgroups[name][metric] = [
                _round_interval(gap.measure(CONFIDENCE, at)) for at in positions
            ]
    flagged_toxic = _compute_shares(flags, labels)
    overall = Rates(
        false_positive_rate=_compute_shares(flags, ~labels),
        false_negative_rate=[
            None if share is None else round(1 - share, _DIGITS) for share in flagged_toxic
        ],
    )
    groups = {name: GroupRates(**rates) for name, rates in subgroups.items()}
    named = {kind: thresholds.index(threshold) for kind, threshold in chosen.items()}
    for kind, position in named.items():
        gaps = report.bias.select_threshold(kind)
        _insert_reported(report.thresholds[kind], gaps, position, overall, groups)
    return Curves(thresholds=thresholds, named=named, overall=overall, subgroups=groups)


def _choose_thresholds(labels: Bools, scores: Floats, chosen: Mapping[str, float]) -> list[float]:
    """Return rounded quantiles of both classes, and the chosen thresholds."""
    places = np.linspace(0, 1, _QUANTILES + 2)[1:-1]
    quantiles = [np.quantile(scores[mask], places) for mask in (labels, ~labels)]
    rounded = {f"{value:.4g}" for value in np.concatenate(quantiles)}
    kept = rounded - {f"{value:.4g}" for value in chosen.values()}
    return sorted({*map(float, kept), *chosen.values()})


def _round_interval(cell: MetricValue) -> list[float | None]:
    ends = cell.value, cell.low, cell.high
    return [None if end is None else round(end, _DIGITS) for end in ends]


def _compute_shares(flags: list[Bools], rows: Bools) -> list[float | None]:
    n = int(rows.sum())
    counts = [int(np.count_nonzero(mask & rows)) for mask in flags]
    return [round(count / n, _DIGITS) if n else None for count in counts]


def _insert_reported(
    at: AtThreshold,
    gaps: Mapping[str, Mapping[str, MetricValue]],
    position: int,
    overall: Rates,
    subgroups: Mapping[str, GroupRates],
) -> None:
    """Insert a report's numbers at its threshold, which allow for an estimated threshold."""
    for name, rate in list_error_rates(at.overall).items():
        getattr(overall, name)[position] = rate.value
    for group, rates in subgroups.items():
        for name, rate in list_error_rates(at.subgroups[group]).items():
            getattr(rates, name)[position] = rate.value
        for metric in RATE_OF_GAP:
            cell = gaps[group][metric]
            getattr(rates, metric)[position] = [cell.value, cell.low, cell.high]


def _round_values(values: npt.ArrayLike) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values, np.float64).tolist()]

"""The numbers that a page shows and the report lacks: distributions, curves, differences."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
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
# Thresholds to choose from: as many quantiles of the scores of each class.
_QUANTILES = 20
_DIGITS = 6
# How near to 0 and to 1 bins of probabilities get smaller.
_NEAR = 1e-4
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
        versions={"python": platform.python_version()} | {one: version(one) for one in _VERSIONS},
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
    """Return the champion's error rates by identity at its own threshold, if it has one.

    Comments that it did not score are left out.
    """
    rival = verdict.champion
    if rival is None or rival.threshold is None or rows.weights is not None:
        return None
    known = np.isfinite(rows.scores["champion"])
    scored = {name: mask[known] for name, mask in rows.select_identities(shown).members.items()}
    members = {name: mask for name, mask in scored.items() if mask.any()}
    found = threshold_report(
        rows.labels[known], rows.scores["champion"][known], members, threshold=rival.threshold
    )
    return {
        name: {one: found.subgroups[name].rate(one).value for one in RATE_OF_GAP.values()}
        for name in members
    }


def write_details(details: Details, folder: Path) -> None:
    """Write `details.json`, atomically and without line breaks, since it is long."""
    with whole_file(folder / FILE) as temporary:
        text = json.dumps(convert_to_plain(details), separators=(",", ":"), allow_nan=False)
        temporary.write_text(text + "\n", "utf-8")


def read_details(folder: Path, report: Report, verdict: Verdict) -> Details:
    """Read `details.json`; measure again if it is missing, or of another report."""
    if (folder / FILE).exists():
        found = Details.read((folder / FILE).read_bytes())
        if found.report_digest == json_digest(report):
            return found
    return measure_details(report, verdict, EvidenceFile(folder / EVIDENCE))


def _count_scores(rows: EvidenceRows, among: str, shown: list[str]) -> Scores:
    labels, scores, weights = rows.labels, rows.y_score, rows.weights
    background = rows.find_shared_background(among)
    edges, scale = choose_bins(float(scores.min()), float(scores.max()))
    bins = np.minimum(np.searchsorted(edges, scores, side="right") - 1, _BINS - 1)

    def counted(of: Bools) -> list[float]:
        return _count_bins(bins, np.flatnonzero(of), weights)

    classes = ~labels, labels
    shared = [None if background is None else counted(background & of) for of in classes]

    def described(inside: Bools, behind: Sequence[list[float] | None]) -> GroupScores:
        """Describe rows, and what is `behind` them; by default all other rows."""
        found = []
        for of, others in zip(classes, behind, strict=True):
            own = np.flatnonzero(of & inside)
            found.append(
                ClassScores(
                    n=own.size,
                    counts=_count_bins(bins, own, weights),
                    background=counted(of & ~inside) if others is None else others,
                    quartiles=_compute_quartiles(
                        scores[own], None if weights is None else weights[own]
                    ),
                )
            )
        negative, positive = found
        return GroupScores(negative=negative, positive=positive)

    return Scores(
        scale=scale,
        edges=edges.tolist(),
        overall=described(np.ones_like(labels), [None, None]),
        subgroups={name: described(rows.members[name], shared) for name in shown},
    )


def choose_bins(low: float, high: float) -> tuple[Floats, Literal["logit", "linear"]]:
    """Return the edges of bins, and their scale; of probabilities equally wide in log-odds.

    Most comments score near 0, and would all be in the first of equally wide bins.
    """
    if low == high:
        low, high = low - 0.5, high + 0.5
    if low < 0 or high > 1:
        return np.linspace(low, high, _BINS + 1), "linear"
    inner = np.clip((low, high), _NEAR, 1 - _NEAR)
    if inner[0] == inner[1]:
        return np.linspace(low, high, _BINS + 1), "linear"
    first, last = np.log(inner / (1 - inner)).tolist()
    odds = np.linspace(first, last, _BINS + 1)
    edges = 1 / (1 + np.exp(-odds))
    edges[[0, -1]] = low, high
    return edges, "logit"


def _count_bins(bins: Places, rows: Places, weights: Floats | None) -> list[float]:
    counts = np.bincount(bins[rows], None if weights is None else weights[rows], _BINS)
    return [*counts.tolist()] if weights is None else _round_values(counts)


def _compute_quartiles(scores: Floats, weight: Floats | None) -> list[float] | None:
    if not scores.size or (weight is not None and not weight.sum()):
        return None
    of = np.quantile(scores, (0.25, 0.5, 0.75), method="inverted_cdf", weights=weight)
    return _round_values(of)


def _measure_curves(
    report: Report, known: EvidenceRows, among: Background, shown: list[str]
) -> Curves:
    """Count the errors at many thresholds; at those of the report, its numbers."""
    labels, scores = known.labels, known.y_score
    chosen = {kind: at.threshold for kind, at in report.thresholds.items()}
    thresholds = _choose_thresholds(labels, scores, chosen)
    # Identities that are not shown are outside the common background too.
    rows = LabelledRows(labels, known.members, clusters=known.clusters, background=among)
    decided = [reaches_cut(scores, threshold) for threshold in thresholds]
    subgroups: dict[str, dict[str, Any]] = {name: {} for name in shown}
    at_each = range(len(thresholds))
    for metric, rate in RATE_OF_GAP.items():
        for name, gap in Events.from_rate(
            list_threshold_metrics()[metric], rows, decided
        ).list_gaps(shown):
            rates = [_round_interval(gap.own.measure(CONFIDENCE, at)) for at in at_each]
            subgroups[name][rate] = [value for value, _, _ in rates]
            subgroups[name][f"{rate}_ends"] = [[low, high] for _, low, high in rates]
            subgroups[name][metric] = [
                _round_interval(gap.measure(CONFIDENCE, at)) for at in at_each
            ]
    flagged_toxic = _compute_shares(decided, labels)
    overall = Rates(
        false_positive_rate=_compute_shares(decided, ~labels),
        false_negative_rate=[
            None if one is None else round(1 - one, _DIGITS) for one in flagged_toxic
        ],
    )
    groups = {name: GroupRates(**rates) for name, rates in subgroups.items()}
    named = {kind: thresholds.index(one) for kind, one in chosen.items()}
    for kind, position in named.items():
        gaps = report.bias.select_threshold(kind)
        _insert_reported(report.thresholds[kind], gaps, position, overall, groups)
    return Curves(thresholds=thresholds, named=named, overall=overall, subgroups=groups)


def _choose_thresholds(labels: Bools, scores: Floats, chosen: Mapping[str, float]) -> list[float]:
    """Return quantiles of both classes, rounded to be read, and the chosen thresholds."""
    places = np.linspace(0, 1, _QUANTILES + 2)[1:-1]
    of_classes = [np.quantile(scores[one], places) for one in (labels, ~labels)]
    rounded = {f"{one:.4g}" for one in np.concatenate(of_classes)}
    kept = rounded - {f"{one:.4g}" for one in chosen.values()}
    return sorted({*map(float, kept), *chosen.values()})


def _round_interval(found: MetricValue) -> list[float | None]:
    ends = found.value, found.low, found.high
    return [None if end is None else round(end, _DIGITS) for end in ends]


def _compute_shares(decided: list[Bools], rows: Bools) -> list[float | None]:
    n = int(rows.sum())
    events = [int(np.count_nonzero(flags & rows)) for flags in decided]
    return [round(one / n, _DIGITS) if n else None for one in events]


def _insert_reported(
    at: AtThreshold,
    gaps: Mapping[str, Mapping[str, MetricValue]],
    position: int,
    overall: Rates,
    subgroups: Mapping[str, GroupRates],
) -> None:
    """Put a report's own numbers at its threshold, which allow for an estimated threshold."""
    for name, rate in list_error_rates(at.overall).items():
        getattr(overall, name)[position] = rate.value
    for group, of_group in subgroups.items():
        for name, rate in list_error_rates(at.subgroups[group]).items():
            getattr(of_group, name)[position] = rate.value
        for metric in list_threshold_metrics():
            cell = gaps[group][metric]
            getattr(of_group, metric)[position] = [cell.value, cell.low, cell.high]


def _round_values(values: npt.ArrayLike) -> list[float]:
    found = np.asarray(values, dtype=np.float64).tolist()
    return [float(f"{one:.{_DIGITS}g}") for one in found]

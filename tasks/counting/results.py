"""Verdict, report and page of a candidate from the counts of all shards."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bias_metrics import BiasTable, MetricValue, ScoreCounts
from bias_metrics.metrics import EQUAL_ERRORS, GIVEN, METRICS, SUBGROUP_METRICS
from bias_metrics.report import sort_worst_first
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest, whole_file, write_json
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.counting.settings import CountFile
from biasgate.tasks.counting.stores import open_shard
from biasgate.tasks.evidence.counted import FILE, Counted, CountedEvidence, read_counted
from biasgate.tasks.evidence.file import EvidenceRecord
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.measuring.explaining import compute_joint_confidence, find_harms, look_first
from biasgate.tasks.records import (
    AtThreshold,
    Bound,
    Choices,
    ClassScores,
    Compared,
    Details,
    EvaluationSetRecord,
    GroupScores,
    ModelRecord,
    Report,
    ReportedChoices,
    Scores,
    Verdict,
)
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.remembering.moved import Interval, compute_family_level, measure_change
from biasgate.tasks.reporting.page.details import SCHEMA_VERSION, choose_bins, write_details
from biasgate.tasks.reporting.page.page import build_candidate_page
from biasgate.tasks.reporting.page.writing import FILE as PAGE
from biasgate.tasks.reporting.page.writing import write_page
from biasgate.tasks.reporting.report import format_metric_csv
from biasgate.tasks.reporting.tables import PANELS
from biasgate.tasks.scoring.candidate import refuse_other_scale
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import COUNTED_VERDICT_FILES, attest_verdict

KIND = "counts"
_SCORES_IN_SHARDS = Bound(
    what="nothing",
    digest=None,
    files=[],
    not_bound="Scores were columns of the shards that were counted.",
)
_VERSIONED_PACKAGES = ("numpy", "prefect")


@task(name="judge counts")
def judge_counts(counted: Counted, settings: CountFile, policy: Policy, output: str) -> Verdict:
    """Write evidence, report, policy, page, verdict and attestation. Return the verdict.

    Safe to retry.
    """
    folder = Path(output)
    settings.refuse_other_shards(counted.record.shards)
    _refuse_one_class(counted.counts[CANDIDATE], settings)
    for role, model in settings.models.items():
        counts = counted.counts[role]
        ends = np.array([counts.least[0], counts.most[-1]])
        refuse_other_scale(model.name, model.threshold, ends)
    moves = describe_moves(counted, settings)
    evidence = write_evidence(counted, settings, folder)
    report = report_counts(evidence, settings)
    report.warnings.extend(moves)
    rivals = {
        role: Compared(name=model.name, kind=KIND, threshold=model.threshold)
        for role, model in settings.models.items()
        if role != CANDIDATE
    }
    today = datetime.now(UTC).date()
    verdict = build_verdict(report, policy, evidence, rivals, n_candidates=1, today=today)
    details = make_details(report, evidence)
    write_json(folder / "report.json", report)
    write_json(folder / "policy.json", policy.model_dump(mode="json"))
    (folder / "bias_metrics.csv").write_text(format_metric_csv(report), "utf-8")
    write_details(details, folder)
    write_page(build_candidate_page(report, verdict, details, output), folder / PAGE)
    write_json(folder / "verdict.json", verdict)
    attest_verdict(verdict, folder, PrivateKey.from_environment(), COUNTED_VERDICT_FILES)
    log_message(f"decided: {verdict.outcome} by policy {policy.name}")
    return verdict


def write_evidence(counted: Counted, settings: CountFile, folder: Path) -> CountedEvidence:
    """Write the sum of all shards with its origin, atomically, and open it as evidence."""
    shards = counted.record.shards
    rows_digest = json_digest([settings.key, [shard.sha256 for shard in shards]])
    origin = EvidenceRecord(
        set_digest=rows_digest,
        choices=Choices(
            label_threshold=settings.label_threshold,
            identity_threshold=settings.identity_threshold,
            identity_rows=settings.identity_rows,
            background=settings.background,
            n_rows=sum(shard.n_rows for shard in shards),
            n_rows_unlabelled=sum(shard.n_unlabelled for shard in shards) or None,
            n_rows_rated=sum(shard.n_rated for shard in shards),
            n_rows_measured=sum(shard.n_measured for shard in shards),
            confidence=CONFIDENCE,
            weights=settings.weight_kind if settings.is_weighted else None,
            n_clusters=None,
        ),
        power_mean_groups=settings.power_mean_groups,
        scores={
            role: json_digest([rows_digest, model.score]) for role, model in settings.models.items()
        },
        bound=dict.fromkeys(settings.models, _SCORES_IN_SHARDS),
    )
    complete = replace(counted, record=replace(counted.record, origin=origin))
    with whole_file(folder / FILE) as temporary:
        temporary.write_bytes(complete.to_bytes())
    return CountedEvidence(folder / FILE)


def report_counts(evidence: CountedEvidence, settings: CountFile) -> Report:
    """Return the report of the candidate from its counts."""
    record, counted = evidence.record, evidence.counted.record
    counts = evidence.counts[CANDIDATE]
    report = partial(
        counts.report,
        power_mean_groups=record.power_mean_groups,
        background=evidence.background,
    )
    bias = report(confidence=CONFIDENCE)
    joint = report(confidence=compute_joint_confidence(len(bias.subgroups)))
    harms = find_harms(joint)
    times = Counter(shard.name for shard in counted.shards)
    source = {
        "source": settings.source,
        "key": counted.key,
        "files": {  # shards in several folders may have one name
            f"{shard.name} ({shard.sha256[:12]})" if times[shard.name] > 1 else shard.name: (
                shard.sha256
            )
            for shard in counted.shards
        },
    }
    choices = ReportedChoices(
        **{field.name: getattr(record.choices, field.name) for field in fields(Choices)},
        split=settings.split_name(),
        source=source,
    )
    name = settings.candidate.name
    thresholds, table = _measure_errors(evidence, settings, bias)
    return Report(
        bias=table,
        harms=harms,
        thresholds=thresholds,
        look_first=look_first(table, harms),
        schema_version=1,
        evaluation_set=EvaluationSetRecord(
            name=settings.name, digest=record.set_digest, choices=choices
        ),
        candidate=ModelRecord(
            name=name, kind=KIND, digest=record.scores[CANDIDATE], bound=_SCORES_IN_SHARDS
        ),
        warnings=list(evidence.limitations),
    )


def describe_moves(counted: Counted, settings: CountFile) -> list[str]:
    """Return a sentence for each number that changed significantly since earlier days."""
    if not (files := settings.list_earlier_files()):
        return []
    earlier = Counted.sum(map(_read_counts, files))
    try:
        earlier.refuse_sum(counted)
    except InputError as error:
        msg = f"`earlier` must be counts of the same set on other days: {error}"
        raise InputError(msg) from error
    earlier_counts, current_counts = (counts.counts[CANDIDATE] for counts in (earlier, counted))
    level = compute_family_level(len(SUBGROUP_METRICS) * len(current_counts.names))
    earlier_cells, current_cells = (
        counts.report(confidence=level, background=settings.background).subgroups
        for counts in (earlier_counts, current_counts)
    )
    return [
        f"{METRICS[metric].title} of {group} moved from {first[0]:.3f} to {last[0]:.3f} since "
        f"{earlier_counts.n:,} rows of earlier days."
        for group in current_cells
        for metric in SUBGROUP_METRICS
        if (first := _read_interval(earlier_cells[group][metric])) is not None
        and (last := _read_interval(current_cells[group][metric])) is not None
        and abs(measure_change(first, last)) > 1
    ]


def _read_interval(cell: MetricValue) -> Interval | None:
    if cell.value is None or cell.low is None or cell.high is None:
        return None
    return cell.value, cell.low, cell.high


def _read_counts(place: str) -> Counted:
    with open_shard(place) as path:
        return read_counted(path)


def _measure_errors(
    evidence: CountedEvidence, settings: CountFile, table: BiasTable
) -> tuple[dict[str, AtThreshold], BiasTable]:
    """Return the errors at the equal-error threshold and at the candidate's threshold, if given.

    Also returns the table with the gaps in error rates added.
    """
    counts, groups = evidence.counts[CANDIDATE], evidence.record.power_mean_groups
    equal = counts.equal_error_rate()
    span = counts.equal_error_range(confidence=CONFIDENCE)
    errors_by_kind = {}
    for kind, threshold in ((EQUAL_ERRORS, equal.threshold), (GIVEN, settings.candidate.threshold)):
        if threshold is None:
            continue
        gaps = counts.rate_gaps(
            threshold=threshold,
            threshold_range=span if kind == EQUAL_ERRORS else None,
            confidence=CONFIDENCE,
            background=evidence.background,
            name=kind,
        )
        table = table.add_numbers(gaps)
        errors = counts.threshold_report(threshold=threshold, groups=groups).to_dict()
        if kind == EQUAL_ERRORS:
            errors["equal_error_rate"] = equal.rate.to_dict()
        errors_by_kind[kind] = AtThreshold.from_dict(errors)
    return errors_by_kind, table


def make_details(report: Report, evidence: CountedEvidence) -> Details:
    """Return the numbers of the page that are not in the report."""
    counts = evidence.counts[CANDIDATE]
    shown = sort_worst_first(report.bias.subgroups)[:PANELS]
    return Details(
        schema_version=SCHEMA_VERSION,
        report_digest=json_digest(report),
        versions={"python": platform.python_version()}
        | {package: version(package) for package in _VERSIONED_PACKAGES},
        scores=_make_histograms(counts, shown, evidence.background),
        champion=evidence.measure_set(CONFIDENCE).table.select_rival("champion"),
    )


def _make_histograms(counts: ScoreCounts, identities: list[str], background: str) -> Scores:
    """Return histograms of the scores; all rows of a bin are placed at its middle."""
    edges, scale = choose_bins(float(counts.least[0]), float(counts.most[-1]))
    middles = np.clip((counts.least + counts.most) / 2, edges[0], edges[-1])

    def histogram(class_counts: npt.NDArray[np.int64]) -> list[float]:
        return [float(value) for value in np.histogram(middles, edges, weights=class_counts)[0]]

    def describe_group(own: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> GroupScores:
        positive, negative = (
            ClassScores(
                n=int(own[label].sum()),
                counts=histogram(own[label]),
                background=histogram(others[label]),
                quartiles=_compute_quartiles(middles, own[label]),
            )
            for label in (0, 1)
        )
        return GroupScores(negative=negative, positive=positive)

    groups = dict(zip(counts.names, counts.subgroups, strict=True))
    everyone = counts.everyone
    return Scores(
        scale=scale,
        edges=edges.tolist(),
        overall=describe_group(everyone, np.zeros_like(everyone)),
        subgroups={
            name: describe_group(
                groups[name],
                everyone - (counts.anyone if background == "no_identity" else groups[name]),
            )
            for name in identities
        },
    )


def _compute_quartiles(
    middles: npt.NDArray[np.float64], n: npt.NDArray[np.int64]
) -> list[float] | None:
    if not n.sum():
        return None
    places = np.searchsorted(np.cumsum(n), np.array([0.25, 0.5, 0.75]) * n.sum())
    return [float(f"{value:.6g}") for value in middles[places]]


def _refuse_one_class(counts: ScoreCounts, settings: CountFile) -> None:
    for count, kind in zip(
        counts.everyone.sum(axis=-1).tolist(), ("positives", "negatives"), strict=True
    ):
        if not count:
            msg = (
                f"evaluation set {settings.name!r} must have both classes; its {counts.n} measured "
                f"rows have no {kind} (label >= {settings.label_threshold} is positive)."
            )
            raise InputError(msg)

"""From the counts of all shards to a verdict, its report and its page."""

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
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.counting.settings import CountFile
from biasgate.tasks.counting.stores import here
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
from biasgate.tasks.reporting.page.details import SCHEMA_VERSION, bins_of, write_details
from biasgate.tasks.reporting.page.page import candidate_page
from biasgate.tasks.reporting.page.writing import FILE as PAGE
from biasgate.tasks.reporting.page.writing import write_page
from biasgate.tasks.reporting.report import metric_csv
from biasgate.tasks.reporting.tables import PANELS
from biasgate.tasks.scoring.candidate import refuse_other_scale
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import COUNTED_VERDICT_FILES, attest_verdict

KIND = "counts"
_BOUND = Bound(
    what="nothing",
    digest=None,
    files=[],
    not_bound="Scores were columns of the shards that were counted.",
)
_VERSIONS = ("numpy", "prefect")


@task(name="judge counts")
def judge_counts(counted: Counted, settings: CountFile, policy: Policy, output: str) -> Verdict:
    """Write evidence, report, policy, page, verdict and attestation; return the verdict.

    Safe to retry.
    """
    folder = Path(output)
    settings.refuse_other_shards(counted.record.shards)
    _refuse_one_class(counted.counts[CANDIDATE], settings)
    for role, one in settings.models.items():
        counts = counted.counts[role]
        ends = np.array([counts.least[0], counts.most[-1]])
        refuse_other_scale(one.name, one.threshold, ends)
    moved = moves_since(counted, settings)
    evidence = write_evidence(counted, settings, folder)
    report = report_of(evidence, settings)
    report.warnings.extend(moved)
    rivals = {
        role: Compared(name=one.name, kind=KIND, threshold=one.threshold)
        for role, one in settings.models.items()
        if role != CANDIDATE
    }
    today = datetime.now(UTC).date()
    verdict = build_verdict(report, policy, evidence, rivals, n_candidates=1, today=today)
    details = details_of(report, evidence)
    write_json(folder / "report.json", report)
    write_json(folder / "policy.json", policy.model_dump(mode="json"))
    (folder / "bias_metrics.csv").write_text(metric_csv(report), "utf-8")
    write_details(details, folder)
    write_page(candidate_page(report, verdict, details, output), folder / PAGE)
    write_json(folder / "verdict.json", verdict)
    attest_verdict(verdict, folder, PrivateKey.from_environment(), COUNTED_VERDICT_FILES)
    say(f"decided: {verdict.outcome} by policy {policy.name}")
    return verdict


def write_evidence(counted: Counted, settings: CountFile, folder: Path) -> CountedEvidence:
    """Write the sum of all shards with its origin, atomically."""
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
        scores={role: json_digest([rows_digest, x.score]) for role, x in settings.models.items()},
        bound=dict.fromkeys(settings.models, _BOUND),
    )
    whole = replace(counted, record=replace(counted.record, origin=origin))
    with whole_file(folder / FILE) as temporary:
        temporary.write_bytes(whole.to_bytes())
    return CountedEvidence(folder / FILE)


def report_of(evidence: CountedEvidence, settings: CountFile) -> Report:
    """Return the report of the candidate."""
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
    thresholds, table = _errors(evidence, settings, bias)
    return Report(
        bias=table,
        harms=harms,
        thresholds=thresholds,
        look_first=look_first(table, harms),
        schema_version=1,
        evaluation_set=EvaluationSetRecord(
            name=settings.name, digest=record.set_digest, choices=choices
        ),
        candidate=ModelRecord(name=name, kind=KIND, digest=record.scores[CANDIDATE], bound=_BOUND),
        warnings=list(evidence.limitations),
    )


def moves_since(counted: Counted, settings: CountFile) -> list[str]:
    """Return in words which numbers moved by more than chance since earlier days."""
    if not (files := settings.earlier_files()):
        return []
    before = Counted.sum(map(_read, files))
    try:
        before.refuse_sum(counted)
    except InputError as error:
        msg = f"`earlier` must be counts of the same set on other days: {error}"
        raise InputError(msg) from error
    old, new = (one.counts[CANDIDATE] for one in (before, counted))
    level = compute_family_level(len(SUBGROUP_METRICS) * len(new.names))
    was, now = (
        one.report(confidence=level, background=settings.background).subgroups for one in (old, new)
    )
    return [
        f"{METRICS[metric].title} of {group} moved from {first[0]:.3f} to {last[0]:.3f} since "
        f"{old.n:,} rows of earlier days."
        for group in now
        for metric in SUBGROUP_METRICS
        if (first := _interval(was[group][metric])) is not None
        and (last := _interval(now[group][metric])) is not None
        and abs(measure_change(first, last)) > 1
    ]


def _interval(cell: MetricValue) -> Interval | None:
    if cell.value is None or cell.low is None or cell.high is None:
        return None
    return cell.value, cell.low, cell.high


def _read(place: str) -> Counted:
    with here(place) as path:
        return read_counted(path)


def _errors(
    evidence: CountedEvidence, settings: CountFile, table: BiasTable
) -> tuple[dict[str, AtThreshold], BiasTable]:
    """Return the errors at the threshold of equal errors and at the candidate's, if it has one.

    The gaps in error rates are in the table.
    """
    counts, groups = evidence.counts[CANDIDATE], evidence.record.power_mean_groups
    equal = counts.equal_error_rate()
    span = counts.equal_error_range(confidence=CONFIDENCE)
    found = {}
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
        found[kind] = AtThreshold.from_dict(errors)
    return found, table


def details_of(report: Report, evidence: CountedEvidence) -> Details:
    """Return what the page shows beyond the report."""
    counts = evidence.counts[CANDIDATE]
    shown = sort_worst_first(report.bias.subgroups)[:PANELS]
    return Details(
        schema_version=SCHEMA_VERSION,
        report_digest=json_digest(report),
        versions={"python": platform.python_version()} | {one: version(one) for one in _VERSIONS},
        scores=_scores(counts, shown, evidence.background),
        champion=evidence.measure_set(CONFIDENCE).table.select_rival("champion"),
    )


def _scores(counts: ScoreCounts, shown: list[str], background: str) -> Scores:
    """Return histograms of the counts; a bin is drawn where its middle is."""
    edges, scale = bins_of(float(counts.least[0]), float(counts.most[-1]))
    middles = np.clip((counts.least + counts.most) / 2, edges[0], edges[-1])

    def histogram(of_class: npt.NDArray[np.int64]) -> list[float]:
        return [float(one) for one in np.histogram(middles, edges, weights=of_class)[0]]

    def described(own: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> GroupScores:
        positive, negative = (
            ClassScores(
                n=int(own[at].sum()),
                counts=histogram(own[at]),
                background=histogram(others[at]),
                quartiles=_quartiles(middles, own[at]),
            )
            for at in (0, 1)
        )
        return GroupScores(negative=negative, positive=positive)

    groups = dict(zip(counts.names, counts.subgroups, strict=True))
    everyone = counts.everyone
    return Scores(
        scale=scale,
        edges=edges.tolist(),
        overall=described(everyone, np.zeros_like(everyone)),
        subgroups={
            name: described(
                groups[name],
                everyone - (counts.anyone if background == "no_identity" else groups[name]),
            )
            for name in shown
        },
    )


def _quartiles(middles: npt.NDArray[np.float64], n: npt.NDArray[np.int64]) -> list[float] | None:
    if not n.sum():
        return None
    places = np.searchsorted(np.cumsum(n), np.array([0.25, 0.5, 0.75]) * n.sum())
    return [float(f"{one:.6g}") for one in middles[places]]


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

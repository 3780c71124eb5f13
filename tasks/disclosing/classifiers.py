"""The numbers of a transparency report, measured again from the evidence of verdicts.

Misleading input is refused here: appeals as ground truth, rows that differ from the verdict's,
identities found by terms with unknown recall, and thresholds chosen on the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bias_metrics import decision_indicators
from bias_metrics.metrics import GIVEN
from bias_metrics.suggestion import did_you_mean
from bias_metrics.thresholds import GroupIndicators, Indicators
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.data.evaluation_set import SLICE
from biasgate.tasks.disclosing.filing import Appeals, Filing
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.reporting.results import Published, Results
from biasgate.tasks.signing.statement import compute_verdict_digest

CONFIDENCE = 0.95


@dataclass(frozen=True)
class MeasuredClassifier:
    """A classifier in use, measured on the sample."""

    published: Published
    purpose: str | None
    appeals: Appeals | None
    """published: the verdict. purpose, appeals: entries of the filing."""
    indicators: Indicators
    """Indicators of all labelled comments; by identity, of the comments with rated identities."""
    slices: Mapping[str, GroupIndicators]
    """Indicators of languages and surfaces, by the name of the slice."""
    n_clusters: int | None
    is_weighted: bool
    n_missing: int
    n_unrated: int
    """n_clusters, is_weighted: clusters and weights that the intervals account for. n_missing:
    comments without a score, which are excluded. n_unrated: comments without rated identities,
    which are excluded from the numbers by identity."""
    evidence_digest: str

    @property
    def name(self) -> str:
        """Name of the candidate."""
        return self.published.verdict.candidate.name

    @property
    def version(self) -> str:
        """Registered version, or a digest of the settings and files that determine the scores."""
        candidate = self.published.verdict.candidate
        return candidate.model or f"digest {candidate.digest[:16]}"

    @property
    def verdict_digest(self) -> str:
        """SHA-256 of the verdict."""
        return compute_verdict_digest(self.published.verdict)


def measure_classifiers(results: Results, filing: Filing) -> list[MeasuredClassifier]:
    """Measure the classifiers that a filing names.

    Raises
    ------
    InputError
        If input is missing or misleading.
    """
    classifiers = [
        _measure_classifier(published, filing) for published in _select_published(results, filing)
    ]
    if filing.ground_truth == "appeals":
        raise InputError(_explain_ground_truth(classifiers))
    return classifiers


def _select_published(results: Results, filing: Filing) -> Iterator[Published]:
    sets = list(dict.fromkeys(published.names[0] for published in results.published))
    name = filing.evaluation_set
    if name is None and len(sets) > 1:
        msg = (
            f"`evaluation_set` must name the set of {results.folder} that is the sample: "
            f"{', '.join(sets)}."
        )
        raise InputError(msg)
    if name is not None and name not in sets:
        msg = f"`evaluation_set` must be one of {', '.join(sets)}; got {name!r}."
        raise InputError(msg + did_you_mean(name, sets))
    on_set = {
        published.names[1]: published
        for published in results.published
        if name in {None, published.names[0]}
    }
    decisions = [] if results.summary is None else results.summary.decisions
    missing = [decision.candidate for decision in decisions if decision.candidate not in on_set]
    if missing and not filing.classifiers:
        msg = (
            f"every classifier must have a verdict; {missing[0]} lacks a verdict on this set. "
            "Evaluate it again, or list the classifiers in use under `classifiers`."
        )
        raise InputError(msg)
    for classifier in filing.classifiers or on_set:
        if classifier not in on_set:
            msg = f"`classifiers` must be candidates of the results; got {classifier!r}."
            raise InputError(msg + did_you_mean(classifier, list(on_set)))
        yield on_set[classifier]


def _measure_classifier(published: Published, filing: Filing) -> MeasuredClassifier:
    evidence = _read_evidence(published)
    _require_sample(published, filing)
    _require_recall(published, filing)
    entry = filing.classifiers.get(published.names[1])
    threshold = _find_threshold(published, None if entry is None else entry.threshold)
    labelled, rated = evidence.labelled, evidence.rows
    labelled_rows = labelled.rows
    rows, scores = (
        labelled_rows.check_rows(evidence.background).replace_subgroups({}),
        labelled_rows.y_score,
    )
    _require_in_range(threshold, scores, published.names[1])
    masks = _select_slices(labelled, filing)
    for name in filing.languages:
        _require_both_classes(name, rows.y_true[masks[name]])
    measure = partial(decision_indicators, threshold=threshold, confidence=CONFIDENCE)
    rated_indicators = measure(rated.check_rows(evidence.background), rated.y_score)
    return MeasuredClassifier(
        published=published,
        purpose=None if entry is None else entry.purpose,
        appeals=None if entry is None else entry.appeals,
        indicators=replace(rated_indicators, overall=measure(rows, scores).overall),
        slices={
            name: measure(rows.select_rows(mask), scores[mask]).overall
            for name, mask in masks.items()
        },
        n_clusters=None if rows.clusters is None else int(np.unique(rows.clusters).size),
        is_weighted=rows.sample_weight is not None,
        n_missing=0
        if labelled.is_complete
        else labelled.measure_missing(CONFIDENCE).overall.n_marked,
        n_unrated=rows.n - rated.labels.size,
        evidence_digest=evidence.digest,
    )


def _find_threshold(published: Published, filed: float | None) -> float:
    """Return the threshold of a classifier in production."""
    errors, name = published.report.thresholds.get(GIVEN), published.names[1]
    if errors is None and filed is None:
        msg = (
            f"the production `threshold` of {name} must be given, in the evaluation file or in "
            "`classifiers`: a threshold estimated on the sample makes its decisions look better "
            "than they are."
        )
        raise InputError(msg)
    if errors is not None and filed is not None and errors.threshold != filed:
        msg = (
            f"`threshold` of {name} must be the threshold of its verdict, "
            f"{errors.threshold:g}; got {filed:g}."
        )
        raise InputError(msg)
    return errors.threshold if errors is not None else float(filed or 0)


def _require_in_range(threshold: float, scores: np.ndarray, name: str) -> None:
    """Refuse a threshold outside the range of scores, such as 50 for scores from 0 to 1."""
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    if not low <= threshold <= high:
        msg = (
            f"`threshold` of {name} must be within its scores, which are from {low:g} to "
            f"{high:g} on this set; got {threshold:g}, which flags "
            f"{'every comment' if threshold < low else 'no comment'}. Give it on the scale of the "
            "scores, in the evaluation file or in `classifiers`."
        )
        raise InputError(msg)


def _require_both_classes(name: str, y_true: np.ndarray) -> None:
    """Refuse a language with only toxic or only other comments: it is a slice of the label."""
    if bool(np.all(y_true)) or not bool(np.any(y_true)):
        msg = (
            f"`languages` must name slices with both toxic and other comments; all {y_true.size:,} "
            f"comments of slice {name!r} are {'' if np.all(y_true) else 'not '}toxic, as in a "
            "slice of the label. Name a slice by language, or leave it out and list it under "
            "`not_measured`."
        )
        raise InputError(msg)


def list_left_out(results: Results, classifiers: Iterable[MeasuredClassifier]) -> list[str]:
    """Return the candidates of an evaluation that a filing does not measure."""
    decisions = [] if results.summary is None else results.summary.decisions
    candidates = [
        *(published.names[1] for published in results.published),
        *(decision.candidate for decision in decisions),
    ]
    filed_names = {classifier.name for classifier in classifiers}
    return [name for name in dict.fromkeys(candidates) if name not in filed_names]


def _read_evidence(published: Published) -> EvidenceFile:
    """Return the evidence of a verdict; refuse files that were changed since."""
    evidence, verdict = published.evidence, published.verdict
    where = f"evidence.parquet in {published.folder}"
    if evidence is None:
        msg = f"{where} must exist, since every number is measured again from it; it does not."
        raise InputError(msg)
    if evidence.digest != verdict.evidence_digest:
        msg = f"{where} must be the evidence of its verdict; it was changed since."
        raise InputError(msg)
    if json_digest(published.report) != verdict.report_digest:
        msg = f"report.json in {published.folder} must be the verdict's; it was changed since."
        raise InputError(msg)
    return evidence


def _require_sample(published: Published, filing: Filing) -> None:
    """Refuse phrases from templates as a random sample, and a period after the evaluation."""
    choices = published.report.evaluation_set.choices
    is_constructed = (
        choices.population == "these_rows" or choices.source.get("source") == "templates"
    )
    if is_constructed and filing.sampling.kind == "random":
        msg = (
            f"`sampling.kind` must be `constructed` for evaluation set {published.names[0]!r}: its "
            "phrases were made from templates, so they are not a random sample of a service."
        )
        raise InputError(msg)
    decided_on = published.verdict.decided_on
    if filing.period.start.isoformat() > decided_on:
        msg = (
            f"`period` must begin before its sample was evaluated, {decided_on}; got "
            f"{filing.period.text}. File the period that the comments are from."
        )
        raise InputError(msg)


def _require_recall(published: Published, filing: Filing) -> None:
    """Refuse identities found by terms if the filing lacks the recall of the terms."""
    source = published.report.evaluation_set.choices.source
    terms = source.get("terms")
    by_terms = [
        subgroup for subgroup in published.report.bias.subgroups if subgroup in (terms or {})
    ]
    missing = [by_term for by_term in by_terms if by_term not in filing.recall_of_terms]
    if missing:
        msg = (
            "`recall_of_terms` must give how many mentions the terms of "
            f"{', '.join(missing)} find: rates by identity cover the comments with these words, "
            "not every comment that mentions the identity. Have people read a sample, and write "
            "`recall_of_terms: "
            f"{{{missing[0]}: {{found: 88, of: 100}}}}`, or label identities."
        )
        raise InputError(msg)


def _select_slices(evidence: EvidenceFile, filing: Filing) -> dict[str, np.ndarray]:
    slices = evidence.columns(SLICE)
    names = [*filing.languages, *filing.surfaces]
    for name in names:
        if name not in slices:
            msg = (
                "`languages` and `surfaces` must be slices of the set; got "
                f"{name!r} (known: {', '.join(slices) or 'none'})."
            )
            raise InputError(msg + did_you_mean(name, list(slices)))
    return {name: np.asarray(slices[name], dtype=np.bool_) for name in names}


def describe_overstatement(classifier: MeasuredClassifier) -> str | None:
    """Compare the share of decisions that were not reversed with the precision on the sample."""
    precision = classifier.indicators.overall.shares["precision"]
    if classifier.appeals is None or precision.value is None:
        return None
    upheld, appeals = classifier.appeals.upheld, classifier.appeals
    difference = upheld - precision.value
    interval = ""
    if precision.low is not None and precision.high is not None:
        interval = (
            f" (95% interval {format_percent(precision.low)} to {format_percent(precision.high)})"
        )
    if difference <= 0:
        return (
            f"{classifier.name}: {format_percent(upheld)} of {appeals.decisions:,} decisions were "
            f"not reversed; in the labelled sample {format_percent(precision.value)}{interval} of "
            "what it flags is toxic."
        )
    return (
        f"{classifier.name}: {appeals.overturned:,} of {appeals.decisions:,} decisions were "
        f"reversed, so {format_percent(upheld)} were not. In the labelled sample "
        f"{format_percent(precision.value)}{interval} of what it flags is toxic. Appeals overstate "
        f"this by {100 * difference:.1f} points, since few people appeal, and missed comments are "
        "not appealed."
    )


def _explain_ground_truth(classifiers: list[MeasuredClassifier]) -> str:
    comparison = " ".join(filter(None, map(describe_overstatement, classifiers)))
    return (
        "`ground_truth` must be `labels` of a random sample: a decision without an appeal may be "
        "wrong, and missed comments are not appealed. "
        + (comparison or "Add `appeals` to the classifiers to see how much appeals overstate.")
    )


def format_percent(share: float) -> str:
    """Format a share in percent, with one decimal."""
    return f"{100 * share:.1f} %"

"""The numbers of a transparency report, measured again from the evidence of verdicts.

What would mislead is refused here: appeals as truth, rows that are not the verdict's, identities
found by terms of unknown recall, thresholds chosen on the sample.
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
class Classifier:
    """A classifier that is in use, measured on the sample."""

    published: Published
    purpose: str | None
    appeals: Appeals | None
    """published, purpose, appeals: its verdict, and what the filing says of it."""
    indicators: Indicators
    """Of all labelled comments, and by identity of those whose identities were rated."""
    slices: Mapping[str, GroupIndicators]
    """Of languages and surfaces, by the name of the slice."""
    n_clusters: int | None
    is_weighted: bool
    n_missing: int
    n_unrated: int
    """n_clusters, is_weighted: what intervals allow for. n_missing: comments without a score, which
    no number counts. n_unrated: comments whose identities nobody rated, which the numbers by
    identity do not count."""
    evidence_digest: str

    @property
    def name(self) -> str:
        """The candidate's name."""
        return self.published.verdict.candidate.name

    @property
    def version(self) -> str:
        """Its registered version, or a digest of what decides its scores."""
        candidate = self.published.verdict.candidate
        return candidate.model or f"digest {candidate.digest[:16]}"

    @property
    def verdict_digest(self) -> str:
        """SHA-256 of the verdict."""
        return compute_verdict_digest(self.published.verdict)


def classifiers_of(results: Results, filing: Filing) -> list[Classifier]:
    """Measure the classifiers that a filing names.

    Raises
    ------
    InputError
        If something is missing, or would mislead; with what to do.
    """
    found = [_measured(published, filing) for published in _chosen(results, filing)]
    if filing.ground_truth == "appeals":
        raise InputError(_no_truth(found))
    return found


def _chosen(results: Results, filing: Filing) -> Iterator[Published]:
    sets = list(dict.fromkeys(published.names[0] for published in results.each))
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
        for published in results.each
        if name in {None, published.names[0]}
    }
    decided = [] if results.summary is None else results.summary.decisions
    lacking = [decision.candidate for decision in decided if decision.candidate not in on_set]
    if lacking and not filing.classifiers:
        msg = (
            f"every classifier must have a verdict; {lacking[0]} lacks a verdict on this set. "
            "Evaluate it again, or list the classifiers in use under `classifiers`."
        )
        raise InputError(msg)
    for classifier in filing.classifiers or on_set:
        if classifier not in on_set:
            msg = f"`classifiers` must be candidates of the results; got {classifier!r}."
            raise InputError(msg + did_you_mean(classifier, list(on_set)))
        yield on_set[classifier]


def _measured(published: Published, filing: Filing) -> Classifier:
    evidence = _evidence(published)
    _require_sample(published, filing)
    _require_recall(published, filing)
    known = filing.classifiers.get(published.names[1])
    threshold = _threshold(published, None if known is None else known.threshold)
    everyone, rated = evidence.labelled, evidence.rows
    chosen = everyone.rows
    rows, scores = chosen.check_rows(evidence.background).replace_subgroups({}), chosen.y_score
    _require_within(threshold, scores, published.names[1])
    by_slice = _slices(everyone, filing)
    for name in filing.languages:
        _require_both_classes(name, rows.y_true[by_slice[name]])
    measure = partial(decision_indicators, threshold=threshold, confidence=CONFIDENCE)
    by_identity = measure(rated.check_rows(evidence.background), rated.y_score)
    return Classifier(
        published=published,
        purpose=None if known is None else known.purpose,
        appeals=None if known is None else known.appeals,
        indicators=replace(by_identity, overall=measure(rows, scores).overall),
        slices={
            name: measure(rows.select_rows(mask), scores[mask]).overall
            for name, mask in by_slice.items()
        },
        n_clusters=None if rows.clusters is None else int(np.unique(rows.clusters).size),
        is_weighted=rows.sample_weight is not None,
        n_missing=0
        if everyone.is_complete
        else everyone.measure_missing(CONFIDENCE).overall.n_marked,
        n_unrated=rows.n - rated.labels.size,
        evidence_digest=evidence.digest,
    )


def _threshold(published: Published, filed: float | None) -> float:
    """Return the threshold that a classifier is used with."""
    at, name = published.report.thresholds.get(GIVEN), published.names[1]
    if at is None and filed is None:
        msg = (
            f"the production `threshold` of {name} must be given, in the evaluation file or in "
            "`classifiers`: a threshold estimated on the sample makes its decisions look better "
            "than they are."
        )
        raise InputError(msg)
    if at is not None and filed is not None and at.threshold != filed:
        msg = (
            f"`threshold` of {name} must be the threshold of its verdict, "
            f"{at.threshold:g}; got {filed:g}."
        )
        raise InputError(msg)
    return at.threshold if at is not None else float(filed or 0)


def _require_within(threshold: float, scores: np.ndarray, name: str) -> None:
    """Refuse a threshold beside all scores, such as 50 for scores from 0 to 1."""
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
    """Refuse a slice of toxic comments alone, or of none, as a language."""
    if bool(np.all(y_true)) or not bool(np.any(y_true)):
        msg = (
            f"`languages` must name slices with both toxic and other comments; all {y_true.size:,} "
            f"comments of slice {name!r} are {'' if np.all(y_true) else 'not '}toxic, as in a "
            "slice of the label. Name a slice by language, or leave it out and list it under "
            "`not_measured`."
        )
        raise InputError(msg)


def left_out(results: Results, found: Iterable[Classifier]) -> list[str]:
    """Return the candidates of an evaluation that a filing does not measure."""
    decided = [] if results.summary is None else results.summary.decisions
    known = [
        *(published.names[1] for published in results.each),
        *(decision.candidate for decision in decided),
    ]
    filed = {classifier.name for classifier in found}
    return [name for name in dict.fromkeys(known) if name not in filed]


def _evidence(published: Published) -> EvidenceFile:
    """Return the rows of a verdict, if they are the ones that it was decided on."""
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
    """Refuse phrases that were made from templates, filed as a random sample."""
    choices = published.report.evaluation_set.choices
    made = choices.population == "these_rows" or choices.source.get("source") == "templates"
    if made and filing.sampling.kind == "random":
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
    """Refuse identities found by terms if nobody counted how many mentions terms find."""
    source = published.report.evaluation_set.choices.source
    terms = source.get("terms")
    by_terms = [
        subgroup for subgroup in published.report.bias.subgroups if subgroup in (terms or {})
    ]
    lacking = [by_term for by_term in by_terms if by_term not in filing.recall_of_terms]
    if lacking:
        msg = (
            "`recall_of_terms` must give how many mentions the terms of "
            f"{', '.join(lacking)} find: rates by identity cover the comments with these words, "
            "not every comment that mentions the identity. Have people read a sample, and write "
            "`recall_of_terms: "
            f"{{{lacking[0]}: {{found: 88, of: 100}}}}`, or label identities."
        )
        raise InputError(msg)


def _slices(evidence: EvidenceFile, filing: Filing) -> dict[str, np.ndarray]:
    known = evidence.columns(SLICE)
    wanted = [*filing.languages, *filing.surfaces]
    for name in wanted:
        if name not in known:
            msg = (
                "`languages` and `surfaces` must be slices of the set; got "
                f"{name!r} (known: {', '.join(known) or 'none'})."
            )
            raise InputError(msg + did_you_mean(name, list(known)))
    return {name: np.asarray(known[name], dtype=np.bool_) for name in wanted}


def overstatement(classifier: Classifier) -> str | None:
    """Say by how much decisions that were not reversed overstate how many are right."""
    precision = classifier.indicators.overall.shares["precision"]
    if classifier.appeals is None or precision.value is None:
        return None
    upheld, n = classifier.appeals.upheld, classifier.appeals
    apart = upheld - precision.value
    interval = ""
    if precision.low is not None and precision.high is not None:
        interval = f" (95% interval {percent(precision.low)} to {percent(precision.high)})"
    if apart <= 0:
        return (
            f"{classifier.name}: {percent(upheld)} of {n.decisions:,} decisions were not reversed; "
            f"in the labelled sample {percent(precision.value)}{interval} of what it flags "
            "is toxic."
        )
    return (
        f"{classifier.name}: {n.overturned:,} of {n.decisions:,} decisions were reversed, so "
        f"{percent(upheld)} were not. In the labelled sample {percent(precision.value)}{interval} "
        f"of what it flags is toxic. Appeals overstate this by {100 * apart:.1f} points, since few "
        "people appeal, and missed comments are not appealed."
    )


def _no_truth(found: list[Classifier]) -> str:
    told = " ".join(filter(None, map(overstatement, found)))
    return (
        "`ground_truth` must be `labels` of a random sample: a decision without an appeal may be "
        "wrong, and missed comments are not appealed. "
        + (told or "Add `appeals` to the classifiers to see how much appeals overstate.")
    )


def percent(share: float) -> str:
    """Return a share in percent, with one digit."""
    return f"{100 * share:.1f} %"

"""Diagnose a training set: which terms are out of line, where, and how sure labels are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bias_metrics import (
    IdentityCounts,
    LabelImbalance,
    LengthBucket,
    TermFrequencies,
    ToxicityByLength,
    identity_counts,
    term_frequencies,
    toxicity_by_length,
)
from bias_metrics.mitigation import Imbalance, label_imbalance, rows_to_balance
from biasgate.tasks.analysing.analyse import write_rows
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import RATERS
from biasgate.tasks.data.identity_names import metric_name
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.page import Row, Section, write_page
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import SetFolder, rows_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.records.record import Record
from biasgate.tasks.store import Workplace

REPORT, PAGE, TABLE = "diagnosis.json", "diagnosis.html", "diagnosis.csv"
CONTESTED = (0.25, 0.75)
_TOLD, _NEARLY_ALL = 5, 0.95


@dataclass(frozen=True, kw_only=True)
class Certainty(Record):
    """How many comments that mention an identity, and how contested their labels are."""

    identity: str
    n: int
    contested: float | None
    mean_raters: float | None


@dataclass(frozen=True, kw_only=True)
class TrainingDiagnosis(Record):
    """`diagnosis.json`: what a model could learn about identities from a training set.

    `label_certainty` is null where labels are not fractions of raters. No comment is quoted.
    """

    training_set: str
    n_rows: int
    counts: IdentityCounts
    frequencies: TermFrequencies
    by_length: ToxicityByLength
    imbalance: LabelImbalance
    label_certainty: list[Certainty] | None
    unused: list[str]
    sentences: list[str]


def diagnose(rows: TrainingRows) -> TrainingDiagnosis:
    """Return what a model could learn about identities from a training set."""
    rows.require_classes()
    found = TrainingDiagnosis(
        training_set=rows.name,
        n_rows=rows.n,
        counts=identity_counts(rows.labels, rows.masks),
        frequencies=term_frequencies(rows.labels, rows.masks),
        by_length=toxicity_by_length(rows.labels, rows.lengths, rows.masks, edges=rows.edges),
        imbalance=label_imbalance(rows.labels, rows.lengths, rows.masks, edges=rows.edges),
        label_certainty=_certainty(rows),
        unused=rows.unused(),
        sentences=[],
    )
    return replace(found, sentences=_sentences(found))


def _certainty(rows: TrainingRows) -> list[Certainty] | None:
    """Return how contested labels are, where they are fractions of raters; else None."""
    fractions = rows.table["label"].to_numpy()
    if not ((fractions > 0) & (fractions < 1)).any():
        return None
    contested = (fractions >= CONTESTED[0]) & (fractions <= CONTESTED[1])
    raters = rows.table[RATERS].to_numpy() if RATERS in rows.table.column_names else None
    found = []
    for name, mask in ({"all comments": np.ones(rows.n, bool)} | rows.masks).items():
        n = int(mask.sum())
        found.append(
            Certainty(
                identity=name,
                n=n,
                contested=float(contested[mask].mean()) if n else None,
                mean_raters=float(raters[mask].mean()) if raters is not None and n else None,
            )
        )
    return found


def _sentences(found: TrainingDiagnosis) -> list[str]:
    percent, shown = found.counts.overall.percent_toxic, found.imbalance.shown()
    told = [f"{found.n_rows:,} comments, {percent:.1f} % of them toxic."]
    for imbalance in _told_once(shown)[:_TOLD]:
        to = (
            "characters or more"
            if imbalance.stop is None
            else f"to {imbalance.stop - 1} characters"
        )
        where = "" if imbalance.of_all_lengths else f" of {imbalance.start} {to}"
        low, high = imbalance.difference.low or 0.0, imbalance.difference.high or 0.0
        told.append(
            f"Comments{where} with {imbalance.term} are toxic in {imbalance.rows.n_positive:,} of "
            f"{imbalance.rows.n:,}, others in {imbalance.others.n_positive:,} of "
            f"{imbalance.others.n:,}: a difference of {float(imbalance.difference):+.1%} "
            f"[{low:+.1%}, {high:+.1%}], p "
            f"{imbalance.p_holm:.2g} after Holm."
        )
    if not shown:
        told.append("No term is shown to be toxic more or less often than other comments.")
    if found.unused:
        names = ", ".join(found.unused)
        told.append(f"Never mentioned, so nothing is known of them: {names}.")
    return told


def _told_once(shown: list[Imbalance]) -> list[Imbalance]:
    """Leave out a length that has nearly all comments with its term, if all lengths are there."""
    whole = {imbalance.term: imbalance.rows.n for imbalance in shown if imbalance.of_all_lengths}
    return [
        imbalance
        for imbalance in shown
        if imbalance.of_all_lengths
        or imbalance.rows.n < _NEARLY_ALL * whole.get(imbalance.term, np.inf)
    ]


def sections(diagnosis: TrainingDiagnosis) -> list[Section]:
    """Return the tables of a diagnosis as parts of a page."""
    terms = diagnosis.frequencies.terms
    found = [
        Section(
            "How often terms are used",
            "Share of toxic and of all comments that mention each one, and their ratio. After "
            "Dixon et al. (2018), Table 1.",
            [
                {
                    "term": name,
                    "share_of_toxic": one.share_of_toxic.value,
                    "share_of_all": one.share_of_all.value,
                    "ratio": one.ratio.value,
                }
                for name, one in sorted(terms.items(), key=lambda term: -(term[1].ratio.value or 0))
            ],
        ),
        Section(
            "Counts of each identity",
            "After Borkan et al. (2019), Table 5.",
            [
                {
                    "identity": name,
                    "comments": one.n,
                    "toxic": one.n_positive,
                    "percent toxic": one.percent_toxic.value,
                }
                for name, one in diagnosis.counts.identities.items()
            ],
        ),
        Section(
            "Percent toxic by length in characters",
            "After Dixon et al. (2018), Figure 1. Each cell: percent toxic (comments).",
            _by_length(diagnosis.by_length.buckets),
        ),
        Section(
            "What is out of line",
            "Share of toxic comments with the term minus the share of others of the same length. "
            "p-values of Fisher's exact test, adjusted for all terms and lengths by Holm. Rows to "
            "add: harmless comments that would bring the term to the share of its bucket.",
            _cells(diagnosis),
        ),
    ]
    if diagnosis.label_certainty:
        about = (
            f"Contested: between {CONTESTED[0]:g} and {CONTESTED[1]:g} of the raters said toxic. "
            "Labels of an identity that are contested more often than others may be wrong more "
            "often."
        )
        rows = [certainty.to_dict() for certainty in diagnosis.label_certainty]
        found.append(Section("How sure labels are", about, rows))
    return found


def _by_length(buckets: Sequence[LengthBucket]) -> list[Row]:
    named = [{"all comments": bucket.overall, **bucket.terms} for bucket in buckets]
    return [
        {"term": name}
        | {
            _length(one.start, one.stop): "-"
            if cells[name].percent_toxic.value is None
            else f"{cells[name].percent_toxic:.1f} ({cells[name].n:,})"
            for one, cells in zip(buckets, named, strict=True)
        }
        for name in named[0]
    ]


def _length(start: int, stop: int | None) -> str:
    return f"{start}+" if stop is None else f"{start}-{stop - 1}"


def _cells(diagnosis: TrainingDiagnosis) -> list[Row]:
    of_bucket = {bucket.start: bucket.overall for bucket in diagnosis.by_length.buckets}
    tested = [imbalance for imbalance in diagnosis.imbalance.cells if imbalance.p_holm is not None]
    rows = []
    for imbalance in sorted(tested, key=lambda cell: (cell.p_holm, -abs(float(cell.difference)))):
        overall = (
            diagnosis.counts.overall if imbalance.of_all_lengths else of_bucket[imbalance.start]
        )
        prior = overall.n_positive / overall.n
        rows.append(
            {
                "term": imbalance.term,
                "length": "all"
                if imbalance.of_all_lengths
                else _length(imbalance.start, imbalance.stop),
                "toxic": f"{imbalance.rows.n_positive:,} of {imbalance.rows.n:,}",
                "difference": imbalance.difference,
                "p (Holm)": imbalance.p_holm,
                "rows to add": rows_to_balance(
                    imbalance.rows.n, imbalance.rows.n_positive, prior
                ).value,
            }
        )
    return rows


@task(name="diagnose training data", task_run_name="diagnose {source.name}")
def diagnose_training_set(
    source: SourceSettings,
    rows: str,
    mitigation: Mitigation,
    output: str,
    workplace: Workplace,
    experiment: str,
) -> TrainingDiagnosis:
    """Diagnose a frozen training set; write JSON, CSV and a page; log them. Safe to retry."""
    say(f"diagnosing {source.name}")
    found = diagnose(rows_of(SetFolder(source, rows), mitigation))
    cells = found.imbalance.cells
    flat = [
        {
            "term": cell.term,
            "start": cell.start,
            "stop": cell.stop,
            "of_all_lengths": cell.of_all_lengths,
            "p_value": cell.p_value,
            "n": cell.rows.n,
            "n_positive": cell.rows.n_positive,
            "value": cell.difference.value,
            "low": cell.difference.low,
            "high": cell.difference.high,
            "p_holm": cell.p_holm,
            "p_bh": cell.p_bh,
        }
        for cell in cells
    ]
    metrics = {
        f"label_imbalance/{metric_name(cell.term)}": cell.difference.value
        for cell in cells
        if cell.of_all_lengths and cell.difference.value is not None
    }
    folder = Path(output) / source.name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / REPORT, found)
    write_page(folder / PAGE, f"Training data: {source.name}", found.sentences, sections(found))
    write_rows(flat, folder / TABLE)
    gateway = workplace.gateway
    name = f"diagnose {source.name}"
    run_id = gateway.run(gateway.experiment(experiment), f"{name} {rows}", name)
    with gateway.failing(run_id):
        gateway.log(run_id, metrics=metrics)
        gateway.log_folder(run_id, folder)
        gateway.finish(run_id)
    return found

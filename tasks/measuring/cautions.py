"""Warnings in reports: numbers that are correct, but may not be what was meant.

Reservations are what limits an outcome: they are part of its verdict, and told wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bias_metrics import BiasTable
from bias_metrics.metrics import GIVEN
from bias_metrics.parts import DominantUnits, format_count
from biasgate.tasks.data.near_words import NearTerms
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records import Choices, Explained, Report, ReportedChoices
from biasgate.tasks.scoring.candidate import CandidateSettings

# All AUCs this close to chance: see `warn_of_misjoin`.
_CHANCE = 0.05
_TOLD = 20
UPSIDE_DOWN = "the scores look upside down"
BY_CHANCE = "the scores do not significantly separate"
"""Begins the warning that is told before all else, since nothing else of such scores holds."""
_MANY_NEAR, _TOLD_NEAR = 0.05, 5  # of the comments in which an identity was found; identities


def reservations(report: Report, dominant: Sequence[DominantUnits]) -> list[str]:
    """Return what limits the outcome on a set, in sentences.

    A sample in place of the whole set, comments that have no score or are truncated (for whom more
    often), are not measured or in no slice, copies of a text, few clusters or rows that decide
    numbers.
    """
    found = [
        on_sample(report.evaluation_set.choices),
        *(one.sentence for one in report.marked.values() if one.is_reservation),
        on_unmeasured_rows(report.evaluation_set.choices),
        on_unlabelled_rows(report.evaluation_set.choices),
        on_rows_in_no_slice(report.evaluation_set.choices.in_no_slice or {}),
        on_copies(report.evaluation_set.choices),
        on_training_rows(report),
        on_dominant_units(dominant),
    ]
    return [one for one in found if one is not None]


def cautions(
    bias: BiasTable,
    choices: ReportedChoices,
    candidate: CandidateSettings,
    unmatched_terms: Mapping[str, list[str]],
    near_terms: Mapping[str, NearTerms] = {},
    explained: Explained | None = None,
) -> list[str]:
    """Return every other warning of a report, in sentences; empty if nothing looks wrong.

    `explained` has the calibration and the errors at thresholds, if they were measured.
    """
    inversion = warn_of_inversion(bias, candidate)
    is_inverted = inversion is not None and inversion.startswith(UPSIDE_DOWN)
    found = [
        inversion,
        warn_of_predicted_labels(explained),
        None if is_inverted else warn_of_flagging_most(explained),
        warn_of_training_sample(candidate),
        warn_of_misjoin(bias),
        warn_of_unmatched_terms(unmatched_terms),
        warn_of_other_forms(near_terms),
        warn_of_empty_identities(bias),
        warn_of_full_identities(bias),
        warn_of_weights(choices),
    ]
    return [one for one in found if one is not None]


def warn_of_misjoin(report: BiasTable) -> str | None:
    """Warn if every AUC is near 0.5: the scores are probably joined to the wrong rows."""
    if any(abs(value - 0.5) > _CHANCE for value in _aucs(report)):
        return None
    return (
        f"every AUC is within {_CHANCE} of 0.5, as if the scores were random. Check that the ids "
        "of scores and evaluation set refer to the same comments."
    )


def warn_of_training_sample(candidate: CandidateSettings) -> str | None:
    """Warn of a model that was trained on a sample of its training set."""
    training: SourceSettings | None = getattr(candidate, "train_on", None)
    if training is None or training.sample is None:
        return None
    return (
        f"`sample: {training.sample}` limits the training comments of {candidate.name}. Train on "
        f"all of {training.name} before you use the model."
    )


def warn_of_inversion(report: BiasTable, candidate: CandidateSettings) -> str | None:
    """Warn if scores are not shown to be higher for toxic comments than for harmless ones.

    They are called upside down only if that is shown: the whole interval of the overall AUC is
    below 0.5.
    """
    overall = report.overall.auc
    if overall.value is None:
        return None
    below = overall.value < 0.5
    who, do = candidate.when_upside_down()
    if not below and (overall.low is None or overall.low >= 0.5):
        return None
    if overall.high is None or overall.high >= 0.5:
        cure = f" If higher means harmless ({who}), {do}." if below else ""
        return f"{BY_CHANCE} toxic from harmless comments: the overall AUC is {overall}.{cure}"
    return (
        f"{UPSIDE_DOWN}: the overall AUC is {overall.value:.3f}, its upper bound "
        f"{overall.high:.3f}. If the labels are reversed, correct the label column. If higher "
        f"scores mean harmless ({who}), {do}."
    )


def warn_of_predicted_labels(explained: Explained | None) -> str | None:
    """Warn if even the lowest scores are at least 0.5, as the larger of two shares is."""
    calibration = None if explained is None else explained.calibration
    bins = [] if calibration is None else calibration.overall.reliability
    if not bins or bins[0].mean_score < 0.5:
        return None
    return (
        f"even the lowest scores average {bins[0].mean_score:.2f}. They may be scores of the "
        "predicted label, toxic or not. If so, let the model return the score of the toxic class, "
        "or read the file with `label` and `positive_label`."
    )


def warn_of_flagging_most(explained: Explained | None) -> str | None:
    """Warn if the threshold in use flags most harmless comments: it may be on another scale."""
    at = None if explained is None else explained.thresholds.get(GIVEN)
    rate = None if at is None else at.overall.false_positive_rate.value
    if at is None or rate is None or rate <= 0.5:
        return None
    return (
        f"at the threshold {at.threshold:g}, {rate:.1%} of all harmless comments are flagged. "
        "Check that the threshold is on the scale of the scores."
    )


def on_sample(choices: ReportedChoices) -> str | None:
    """Report that a sample of the set was judged."""
    if choices.sampled_from is None:
        return None
    return f"Judged on a random sample: {choices.n_rows:,} of {choices.sampled_from:,} comments."


def on_unmeasured_rows(choices: ReportedChoices) -> str | None:
    """Say which rows are left out."""
    if choices.left_out is None:
        return None
    text = f"Measured on {choices.left_out}."
    if choices.n_rows_rated == choices.n_rows or choices.identity_rows == "all":
        return text
    return (
        f"{text} `identity_rows: all` measures unrated rows too, and treats unrated identities as "
        "not mentioned."
    )


def on_copies(choices: ReportedChoices) -> str | None:
    """Say how many comments are copies, if these are a cluster for that."""
    if choices.n_copies is None or choices.n_clusters is None:
        return None
    share = choices.n_copies / choices.n_rows
    return (
        f"{choices.n_copies:,} of {choices.n_rows:,} comments ({share:.0%}) are copies of another's"
        " text: the comments of one text count as a cluster."
    )


def on_unlabelled_rows(choices: ReportedChoices) -> str | None:
    """Say how many rows were left out because they have no label."""
    if choices.n_rows_unlabelled is None:
        return None
    rows = format_count(choices.n_rows_unlabelled, "row has", "rows have")
    return f"{rows} no label and are left out (`label_values`)."


def on_training_rows(report: Report) -> str | None:
    """Say how many comments the model was trained on."""
    found, n = report.trained_on, report.evaluation_set.choices.n_rows
    if found is None:
        return None
    if found.n_rows:
        return (
            f"The model was trained on {found.n_rows:,} of {n:,} comments ({found.n_rows / n:.1%}):"
            " its numbers are optimistic (`allow_training_rows`)."
        )
    return (
        f"{found.n_texts:,} of {n:,} comments ({found.n_texts / n:.1%}) have a text that the model "
        "was trained on."
    )


def on_rows_in_no_slice(n_rows: Mapping[str, int]) -> str | None:
    """Say how many rows are without a value in a column of slices, by column."""
    told = [f"{format_count(n, 'comment')} without `{column}`" for column, n in n_rows.items()]
    if not told:
        return None
    return f"{' and '.join(told)} are in no slice, so rules about slices ignore them."


def warn_of_unmatched_terms(unmatched: Mapping[str, list[str]]) -> str | None:
    """Name the terms that no text contains, and the names that no row has."""
    named = [
        term if term == identity else f"{term} ({identity})"
        for identity, terms in unmatched.items()
        for term in terms
    ]
    return f"not found in any comment: {_listed(named)}. Check the spelling." if named else None


def warn_of_other_forms(near: Mapping[str, NearTerms]) -> str | None:
    """Name identities that comments may mention in forms that `terms` lacks, and these words."""
    often = {
        name: one
        for name, one in near.items()
        if one.words and one.n_near >= _MANY_NEAR * max(one.n_found, 1)
    }
    if not often:
        return None
    worst = sorted(often, key=lambda name: -often[name].n_near / (often[name].n_found or 1))
    told = "; ".join(
        f"{name} in {often[name].n_near:,} comments (found in {often[name].n_found:,} of "
        f"{often[name].n_looked_at:,}), such as "
        + ", ".join(f"{word} ({n:,})" for word, n in often[name].words.items())
        for name in worst[:_TOLD_NEAR]
    )
    more = f"; and {len(worst) - _TOLD_NEAR:,} more identities" if len(worst) > _TOLD_NEAR else ""
    return (
        "comments in which an identity was not found have words that begin like its terms: "
        f"{told}{more}. Add those that mention the identity to `terms`, which are whole words."
    )


def warn_of_empty_identities(report: BiasTable) -> str | None:
    """Name the identities that no measured row mentions."""
    empty = [name for name in report.subgroups if report.counts[name].n == 0]
    return f"no measured row mentions {_listed(empty)}." if empty else None


def warn_of_full_identities(report: BiasTable) -> str | None:
    """Name the identities that every measured row mentions: nothing is left to compare with."""
    n_rows = report.counts[None].n
    full = [name for name in report.subgroups if report.counts[name].n == n_rows]
    if not full or not n_rows:
        return None
    columns = "these columns contain" if len(full) > 1 else "this column contains"
    return (
        f"every measured row mentions {_listed(full)}, so metrics are undefined: there are no "
        f"other rows. Check whether {columns} only 1s."
    )


def warn_of_weights(choices: Choices) -> str | None:
    """Report what a report of rows with sampling weights does not have."""
    if choices.weights != "probability":
        return None
    return (
        "the rows have sampling weights: error rates at thresholds are not computed, and the "
        "figure of scores counts each row once."
    )


def on_dominant_units(dominant: Sequence[DominantUnits]) -> str | None:
    """Name the clusters and the rows of large weight that some numbers depend on heavily."""
    kinds = {"negative": "harmless", "positive": "toxic"}
    told = [
        f"of the {kinds[units.label]} comments"
        f"{'' if units.subgroup is None else f' about {units.subgroup}'}, {units}"
        for units in dominant
    ]
    if not told:
        return None
    more = f"; and {len(told) - _TOLD_NEAR:,} more" if len(told) > _TOLD_NEAR else ""
    return (
        "Some numbers depend heavily on one cluster, or on few rows of large weight, so their "
        f"intervals may be too narrow: {'; '.join(told[:_TOLD_NEAR])}{more}."
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _TOLD:,} more" if len(names) > _TOLD else ""
    return ", ".join(names[:_TOLD]) + more


def _aucs(report: BiasTable) -> Iterator[float]:
    values = [report.overall.auc.value]
    values += [bias.subgroup_auc.value for bias in report.subgroups.values()]
    yield from (value for value in values if value is not None)

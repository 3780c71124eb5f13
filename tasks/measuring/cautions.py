"""Warnings about results that are computed correctly, but may be misleading.

Reservations are limitations of an outcome. They are part of the verdict, and are reported with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bias_metrics import BiasTable
from bias_metrics.metrics import GIVEN
from bias_metrics.parts import DominantUnits, format_count
from biasgate.tasks.data.near_words import NearTerms
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records import Choices, Explained, Report, ReportedChoices
from biasgate.tasks.scoring.candidate import CandidateSettings

_CHANCE = 0.05
"""Largest distance from 0.5 at which all AUCs look random; see `warn_of_misjoin`."""
_MAX_NAMES = 20
_MAX_ITEMS = 5
_MANY_NEAR = 0.05
"""Fraction of the comments that mention an identity; see `warn_of_other_forms`."""
UPSIDE_DOWN = "the scores look upside down"
BY_CHANCE = "the scores do not significantly separate"
"""Start of the warning that is reported first, since it makes all other results meaningless."""


def list_reservations(report: Report, dominant: Sequence[DominantUnits]) -> list[str]:
    """List the limitations of the outcome on a set, as sentences.

    They cover samples, comments that were not scored, read or measured completely, copies, training
    rows, and clusters or rows of large influence.
    """
    choices = report.evaluation_set.choices
    sentences = [
        describe_sample(choices),
        *(marked.sentence for marked in report.marked.values() if marked.is_reservation),
        describe_unmeasured_rows(choices),
        describe_unlabelled_rows(choices),
        describe_unsliced_rows(choices.in_no_slice or {}),
        describe_copies(choices),
        describe_training_rows(report),
        describe_dominant_units(dominant),
    ]
    return [sentence for sentence in sentences if sentence is not None]


def list_cautions(
    bias: BiasTable,
    choices: ReportedChoices,
    candidate: CandidateSettings,
    unmatched_terms: Mapping[str, list[str]],
    near_terms: Mapping[str, NearTerms] = {},
    explained: Explained | None = None,
) -> list[str]:
    """List the warnings of a report that are not reservations, as sentences.

    `explained` has the calibration and the errors at thresholds, if they were measured.
    """
    inversion = warn_of_inversion(bias, candidate)
    is_inverted = inversion is not None and inversion.startswith(UPSIDE_DOWN)
    warnings = [
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
    return [warning for warning in warnings if warning is not None]


def warn_of_misjoin(report: BiasTable) -> str | None:
    """Warn if every AUC is near 0.5, because the scores were probably joined to the wrong rows."""
    cells = [report.overall.auc, *(bias.subgroup_auc for bias in report.subgroups.values())]
    if any(cell.value is not None and abs(cell.value - 0.5) > _CHANCE for cell in cells):
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
    """Warn if toxic comments do not have significantly higher scores than harmless comments.

    The scores are called upside down only if the whole 95 % interval of the overall AUC is below
    0.5.
    """
    overall = report.overall.auc
    if overall.value is None:
        return None
    is_below = overall.value < 0.5
    origin, fix = candidate.explain_inversion()
    if not is_below and (overall.low is None or overall.low >= 0.5):
        return None
    if overall.high is None or overall.high >= 0.5:
        advice = f" If higher means harmless ({origin}), {fix}." if is_below else ""
        return f"{BY_CHANCE} toxic from harmless comments: the overall AUC is {overall}.{advice}"
    return (
        f"{UPSIDE_DOWN}: the overall AUC is {overall.value:.3f}, its upper bound "
        f"{overall.high:.3f}. If the labels are reversed, correct the label column. If higher "
        f"scores mean harmless ({origin}), {fix}."
    )


def warn_of_predicted_labels(explained: Explained | None) -> str | None:
    """Warn if even the lowest scores average 0.5 or more, like scores of the predicted label."""
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
    """Warn if the threshold in use flags most harmless comments; its scale may be wrong."""
    errors = None if explained is None else explained.thresholds.get(GIVEN)
    rate = None if errors is None else errors.overall.false_positive_rate.value
    if errors is None or rate is None or rate <= 0.5:
        return None
    return (
        f"at the threshold {errors.threshold:g}, {rate:.1%} of all harmless comments are flagged. "
        "Check that the threshold is on the scale of the scores."
    )


def describe_sample(choices: ReportedChoices) -> str | None:
    """Report that a sample of the set was judged."""
    if choices.sampled_from is None:
        return None
    return f"Judged on a random sample: {choices.n_rows:,} of {choices.sampled_from:,} comments."


def describe_unmeasured_rows(choices: ReportedChoices) -> str | None:
    """Report the rows that are left out, and the option to include unrated rows."""
    if choices.left_out is None:
        return None
    text = f"Measured on {choices.left_out}."
    if choices.n_rows_rated == choices.n_rows or choices.identity_rows == "all":
        return text
    return (
        f"{text} `identity_rows: all` measures unrated rows too, and treats unrated identities as "
        "not mentioned."
    )


def describe_copies(choices: ReportedChoices) -> str | None:
    """Report the number of comments that are copies, if copies form clusters."""
    if choices.n_copies is None or choices.n_clusters is None:
        return None
    share = choices.n_copies / choices.n_rows
    return (
        f"{choices.n_copies:,} of {choices.n_rows:,} comments ({share:.0%}) are copies of another's"
        " text: the comments of one text count as a cluster."
    )


def describe_unlabelled_rows(choices: ReportedChoices) -> str | None:
    """Report the number of rows that were left out because they have no label."""
    if choices.n_rows_unlabelled is None:
        return None
    rows = format_count(choices.n_rows_unlabelled, "row has", "rows have")
    return f"{rows} no label and are left out (`label_values`)."


def describe_training_rows(report: Report) -> str | None:
    """Report the number of comments in the model's training set."""
    trained, n = report.trained_on, report.evaluation_set.choices.n_rows
    if trained is None:
        return None
    if trained.n_rows:
        return (
            f"The model was trained on {trained.n_rows:,} of {n:,} comments "
            f"({trained.n_rows / n:.1%}): its numbers are optimistic (`allow_training_rows`)."
        )
    return (
        f"{trained.n_texts:,} of {n:,} comments ({trained.n_texts / n:.1%}) have a text that the "
        "model was trained on."
    )


def describe_unsliced_rows(n_rows: Mapping[str, int]) -> str | None:
    """Report the number of rows without a value in a column of slices, by column."""
    parts = [f"{format_count(n, 'comment')} without `{column}`" for column, n in n_rows.items()]
    if not parts:
        return None
    return f"{' and '.join(parts)} are in no slice, so rules about slices ignore them."


def warn_of_unmatched_terms(unmatched: Mapping[str, list[str]]) -> str | None:
    """Name the terms that no text contains, and the names that no row has."""
    names = [
        term if term == identity else f"{term} ({identity})"
        for identity, terms in unmatched.items()
        for term in terms
    ]
    return f"not found in any comment: {_join_names(names)}. Check the spelling." if names else None


def warn_of_other_forms(near: Mapping[str, NearTerms]) -> str | None:
    """Name identities that comments may mention in word forms that `terms` lacks."""
    frequent = {
        name: terms
        for name, terms in near.items()
        if terms.words and terms.n_near >= _MANY_NEAR * max(terms.n_found, 1)
    }
    if not frequent:
        return None
    worst = sorted(
        frequent, key=lambda name: -frequent[name].n_near / (frequent[name].n_found or 1)
    )
    listed = "; ".join(
        f"{name} in {frequent[name].n_near:,} comments (found in {frequent[name].n_found:,} of "
        f"{frequent[name].n_looked_at:,}), such as "
        + ", ".join(f"{word} ({n:,})" for word, n in frequent[name].words.items())
        for name in worst[:_MAX_ITEMS]
    )
    more = f"; and {len(worst) - _MAX_ITEMS:,} more identities" if len(worst) > _MAX_ITEMS else ""
    return (
        "comments in which an identity was not found have words that begin like its terms: "
        f"{listed}{more}. Add those that mention the identity to `terms`, which are whole words."
    )


def warn_of_empty_identities(report: BiasTable) -> str | None:
    """Name the identities that no measured row mentions."""
    empty = [name for name in report.subgroups if report.counts[name].n == 0]
    return f"no measured row mentions {_join_names(empty)}." if empty else None


def warn_of_full_identities(report: BiasTable) -> str | None:
    """Name the identities that every measured row mentions, so that the background is empty."""
    n_rows = report.counts[None].n
    full = [name for name in report.subgroups if report.counts[name].n == n_rows]
    if not full or not n_rows:
        return None
    columns = "these columns contain" if len(full) > 1 else "this column contains"
    return (
        f"every measured row mentions {_join_names(full)}, so metrics are undefined: there are no "
        f"other rows. Check whether {columns} only 1s."
    )


def warn_of_weights(choices: Choices) -> str | None:
    """Warn that a report of rows with sampling weights is incomplete."""
    if choices.weights != "probability":
        return None
    return (
        "the rows have sampling weights: error rates at thresholds are not computed, and the "
        "figure of scores counts each row once."
    )


def describe_dominant_units(dominant: Sequence[DominantUnits]) -> str | None:
    """Name clusters and rows of large weight with a strong influence on some numbers."""
    kinds = {"negative": "harmless", "positive": "toxic"}
    parts = [
        f"of the {kinds[units.label]} comments"
        f"{'' if units.subgroup is None else f' about {units.subgroup}'}, {units}"
        for units in dominant
    ]
    if not parts:
        return None
    more = f"; and {len(parts) - _MAX_ITEMS:,} more" if len(parts) > _MAX_ITEMS else ""
    return (
        "Some numbers depend heavily on one cluster, or on few rows of large weight, so their "
        f"intervals may be too narrow: {'; '.join(parts[:_MAX_ITEMS])}{more}."
    )


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more

"""Part 8 rows and the text of Part 11 for transparency reports under the Digital Services Act.

The form is Annex I of Commission Implementing Regulation (EU) 2024/2835. The files support a
filing; they are not legal advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from bias_metrics import MetricValue
from bias_metrics.parts import wilson_interval
from bias_metrics.thresholds import GroupIndicators
from biasgate.tasks.common.csv_files import format_csv
from biasgate.tasks.common.files import whole_file, write_json
from biasgate.tasks.common.markdown import escape_markdown, format_table_row
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.disclosing.classifiers import (
    CONFIDENCE,
    MeasuredClassifier,
    describe_overstatement,
    format_percent,
    list_left_out,
    measure_classifiers,
)
from biasgate.tasks.disclosing.filing import (
    APPLIES_TO,
    OFFICIAL_LANGUAGES,
    Filing,
    Recall,
    Sampling,
)
from biasgate.tasks.reporting.results import Results
from biasgate.tasks.wording import get_verdict_words, list_exception_lines

COLUMNS = (
    *("Applicability", "Service", "Reporting period", "Section", "Indicator", "Scope", "Value"),
    "Contextual Information",
)
"""Columns of the form."""
SECTION = "Use of automated means for content moderation"
INDICATOR = "Accuracy of the automated means - {}"
ASKED = ("accuracy", "precision", "recall")
PART_8, PART_11, NUMBERS = "part8.csv", "part11.md", "transparency.json"
REHEARSAL = "part8_not_for_filing.csv"
_LARGE_PLATFORMS = "Only for VLOPs"
_Z = 1.959963984540054
_LEVEL = f"{100 * CONFIDENCE:g}%"

NO_ADVICE = (
    "biasgate computed this from a labelled sample. It supports the filing and is not legal "
    "advice: the provider decides what the form requires, and whether this meets it."
)
_CONSTRUCTED = (
    "NOT FOR FILING: the comments are a test suite, not a sample of the service. Its shares, above "
    "all accuracy and precision, do not describe the service."
)
_RATES = {
    "recall": "recall (true positive rate): the share of toxic comments that is flagged",
    "true_negative_rate": "specificity (true negative rate): the share of non-toxic comments that "
    "is not flagged",
    "precision": "precision (positive predictive value): the share of flagged comments that is "
    "toxic",
    "negative_predictive_value": "negative predictive value: the share of unflagged comments that "
    "is not toxic",
    "false_negative_rate": "miss rate (false negative rate): the share of toxic comments that is "
    "not flagged",
    "false_positive_rate": "fall-out (false positive rate): the share of non-toxic comments that "
    "is flagged",
    "false_discovery_rate": "false discovery rate: the share of flagged comments that is not toxic",
    "false_omission_rate": "false omission rate: the share of unflagged comments that is toxic",
}
"""Rates in the form's instructions, in words."""
_ABBREVIATIONS = ("TPR", "TNR", "PPV", "NPV", "FNR", "FPR", "FDR", "FOR")
# Meaning of a significant difference, by the share of right decisions.
_GAP_SENTENCES = {
    "true_negative_rate": "non-toxic comments that mention {group} are flagged {side}",
    "recall": "toxic comments that mention {group} are missed {side}",
    "precision": "a {share} share of the flagged comments that mention {group} is not toxic",
    "negative_predictive_value": "a {share} share of the unflagged comments that "
    "mention {group} is toxic",
    "accuracy": "decisions on comments that mention {group} are wrong {side}",
}


@dataclass(frozen=True)
class Transparency:
    """Written files, and cautions about them."""

    files: Sequence[Path]
    """Part 8, Part 11 and all numbers."""
    sentences: Sequence[str]
    """Cautions for the user who files."""


def write_transparency(results: Results, filing: Filing, output: Path) -> Transparency:
    """Write Part 8 rows, the text of Part 11, and every number as JSON.

    For a test suite, the name of the rows' file marks them as not for filing.

    Raises
    ------
    InputError
        If input is missing or misleading.
    """
    classifiers = measure_classifiers(results, filing)
    unfiled = list_left_out(results, classifiers)
    part_8_name = PART_8 if filing.sampling.kind == "random" else REHEARSAL
    output.mkdir(parents=True, exist_ok=True)
    for old in (PART_8, REHEARSAL):
        (output / old).unlink(missing_ok=True)
    for name, text in (
        # RFC 4180 requires CRLF.
        (
            part_8_name,
            format_csv(
                COLUMNS, (row.values() for row in make_part_8_rows(classifiers, filing)), "\r\n"
            ),
        ),
        (PART_11, render_part_11(classifiers, filing, unfiled)),
    ):
        with whole_file(output / name) as temporary:
            temporary.write_bytes(text.encode())
    write_json(output / NUMBERS, collect_numbers(classifiers, filing, unfiled))
    files = [output / name for name in (part_8_name, PART_11, NUMBERS)]
    sentences = [
        *([_CONSTRUCTED] if part_8_name == REHEARSAL else []),
        *_describe_left_out(unfiled),
        NO_ADVICE,
    ]
    return Transparency(files, sentences)


# ---- Part 8


def make_part_8_rows(
    classifiers: Sequence[MeasuredClassifier], filing: Filing
) -> list[dict[str, str]]:
    """Return the rows of the form: three indicators for each classifier and scope."""
    rows = []
    for classifier in classifiers:
        for applies, scope, group in _list_scopes(classifier, filing):
            for name in ASKED:
                share = group.shares[name]
                values = (
                    applies,
                    filing.service,
                    filing.period.text,
                    SECTION,
                    INDICATOR.format(name.capitalize()),
                    scope,
                    "" if share.value is None else f"{share.value:.4f}",
                    _describe_context(classifier, filing, group, name),
                )
                rows.append(
                    dict(
                        zip(
                            COLUMNS,
                            (escape_invisible(" ".join(value.split())) for value in values),
                            strict=True,
                        )
                    )
                )
    return rows


def _list_scopes(
    classifier: MeasuredClassifier, filing: Filing
) -> Iterator[tuple[str, str, GroupIndicators]]:
    """Yield the applicability, the scope and the numbers of each group of rows."""
    yield APPLIES_TO[filing.scope], filing.scope, classifier.indicators.overall
    if filing.language in OFFICIAL_LANGUAGES:
        yield _LARGE_PLATFORMS, filing.language, classifier.indicators.overall
    for name, code in filing.languages.items():
        if code in OFFICIAL_LANGUAGES:
            yield _LARGE_PLATFORMS, code, classifier.slices[name]


def _describe_context(
    classifier: MeasuredClassifier, filing: Filing, group: GroupIndicators, name: str
) -> str:
    share = group.shares[name]
    definitions = {
        "accuracy": f"the share of all {group.n:,} comments with the right decision",
        "precision": f"the share of the {group.n_flagged:,} flagged comments that is toxic",
        "recall": f"the share of the {group.n_positive:,} toxic comments that is flagged",
    }
    return " ".join(
        [
            *([_CONSTRUCTED] if filing.sampling.kind == "constructed" else []),
            f"Classifier {classifier.name} ({classifier.version}), which flags a comment if its",
            f"score is at least {classifier.indicators.threshold:g}. {_format_interval(share)}.",
            f"n = {group.n:,} labelled comments. {name.capitalize()}: {definitions[name]}.",
            *_describe_sample(filing.sampling),
            *_describe_corrections(classifier),
            f"Evidence SHA-256 {classifier.evidence_digest};",
            f"verdict SHA-256 {classifier.verdict_digest}.",
        ]
    )


def _format_interval(share: MetricValue) -> str:
    if share.value is None:
        return f"Undefined: {share.reason}"
    if share.low is None or share.high is None:
        return f"No interval: {share.reason}"
    return f"{_LEVEL} interval {share.low:.4f} to {share.high:.4f}"


def _describe_sample(sampling: Sampling) -> Iterator[str]:
    kind = "random sample" if sampling.kind == "random" else "test suite"
    for heading, text in (
        (f"Sampling ({kind})", sampling.rule),
        ("Population", sampling.population),
        ("Labels", sampling.labels),
    ):
        yield f"{heading}: {text.rstrip('.')}."


def _describe_corrections(classifier: MeasuredClassifier) -> Iterator[str]:
    if classifier.is_weighted:
        yield "Comments count by their sampling weights."
    if classifier.n_clusters is not None:
        yield (
            f"The comments are from {classifier.n_clusters:,} clusters, such as threads; intervals "
            "account for dependence within clusters."
        )
    if classifier.n_missing:
        yield f"{classifier.n_missing:,} comments without a score are not counted."
    if classifier.n_unrated:
        yield (
            f"{classifier.n_unrated:,} comments are not counted by identity, since their "
            "identities were not rated."
        )


# ---- Part 11


def render_part_11(
    classifiers: Sequence[MeasuredClassifier], filing: Filing, unfiled: Sequence[str] = ()
) -> str:
    """Return the text on accuracy and errors of automated means, also by control group."""
    lines = [
        (
            f"# Automated means of {escape_markdown(filing.service)}: accuracy, error and control "
            "groups"
        ),
        "",
        f"Reporting period {filing.period.text}.",
        "",
        escape_markdown(NO_ADVICE),
        "",
        *(
            [f"**{escape_markdown(_CONSTRUCTED)}**", ""]
            if filing.sampling.kind == "constructed"
            else []
        ),
        *_render_method(filing),
    ]
    for classifier in classifiers:
        lines += ["", *_render_classifier(classifier, filing)]
    lines += [
        "",
        *_render_unmeasured(classifiers, filing, unfiled),
        "",
        *_render_evidence(classifiers),
    ]
    return "\n".join(lines) + "\n"


def _render_method(filing: Filing) -> Iterator[str]:
    yield "## Method"
    yield ""
    yield from (f"- {escape_markdown(line)}" for line in _describe_sample(filing.sampling))
    yield (
        "- A comment is toxic here if its labellers found it toxic. A classifier flags a comment "
        "if its score is at least its threshold. Only these labels are used as ground truth, not "
        "appeals or other judgements."
    )
    yield (
        f"- Brackets are {_LEVEL} confidence intervals. The share in the whole population may "
        "differ from the share in the sample; about 95 of 100 such samples give an interval that "
        "contains it. Intervals do not account for wrong labels."
    )
    yield "- The rates:"
    for short, words in zip(_ABBREVIATIONS, _RATES.values(), strict=True):
        yield f"  - {short}: {words}."


def _render_classifier(classifier: MeasuredClassifier, filing: Filing) -> Iterator[str]:
    overall, verdict = classifier.indicators.overall, classifier.published.verdict
    yield f"## {escape_markdown(classifier.name)}"
    yield ""
    if classifier.purpose is not None:
        yield f"{escape_markdown(classifier.purpose)}"
        yield ""
    yield (
        f"This classifier ({escape_markdown(classifier.version)}) flags a comment if its score "
        "is at least "
        f"{classifier.indicators.threshold:g}. Of {overall.n:,} labelled comments "
        f"{overall.n_positive:,} are toxic; it flags {overall.n_flagged:,}. "
        f"{escape_markdown(' '.join(_describe_corrections(classifier)))}"
    ).rstrip()
    yield ""
    groups = {"all comments": overall, **classifier.indicators.subgroups}
    yield "Rates by control group, in percent. A group is the comments that mention an identity."
    yield ""
    yield from _render_table(
        "control group", groups, dict(zip(_ABBREVIATIONS, _RATES, strict=True))
    )
    if classifier.slices:
        yield ""
        yield "By language or surface, in percent:"
        yield ""
        parts = {
            f"{name} ({filing.languages[name]})" if name in filing.languages else name: group
            for name, group in classifier.slices.items()
        }
        yield from _render_table("part", parts, {name.capitalize(): name for name in ASKED})
    yield ""
    yield from _render_differences(classifier)
    yield ""
    word = get_verdict_words(verdict)
    yield (
        "The verdict of the deployment gate on this classifier, by policy "
        f"{escape_markdown(verdict.policy.name)} on {verdict.decided_on}: "
        f"{escape_markdown(word.text)}."
    )
    for check in classifier.published.story.unmet:
        yield f"- {escape_markdown(check.word)}: {escape_markdown(check.sentence)}"
    for line in list_exception_lines([verdict]):
        yield f"- {escape_markdown(line)}"
    comparison = describe_overstatement(classifier)
    if comparison is not None:
        yield ""
        yield f"Why appeals are not used as ground truth. {escape_markdown(comparison)}"


def _render_table(
    heading: str, groups: Mapping[str, GroupIndicators], columns: Mapping[str, str]
) -> Iterator[str]:
    yield format_table_row([heading, "n", "toxic", *columns])
    yield format_table_row(["---", "--:", "--:", *["--:"] * len(columns)])
    for name, group in groups.items():
        cells = [_format_percents(group.shares[column]) for column in columns.values()]
        yield format_table_row(
            [escape_markdown(name), f"{group.n:,}", f"{group.n_positive:,}", *cells]
        )


def _format_percents(share: MetricValue) -> str:
    if share.value is None:
        return f"undefined ({escape_markdown(share.reason or '')})"
    value = f"{100 * share.value:.1f}"
    if share.low is None or share.high is None:
        return f"{value} (no interval)"
    return f"{value} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _render_differences(classifier: MeasuredClassifier) -> Iterator[str]:
    n_gaps, groups = classifier.indicators.n_gaps, classifier.indicators.subgroups
    if not groups:
        yield "No control group was measured."
        return
    significant = [
        (group, name, gap)
        for group, numbers in groups.items()
        for name, gap in numbers.gaps.items()
        if gap.low is not None and gap.high is not None and not gap.low <= 0 <= gap.high
    ]
    background = classifier.published.report.bias.background
    comparison = (
        "comments that mention no measured identity"
        if background == "no_identity"
        else "all comments that do not mention it"
    )
    yield (
        f"Differences between control groups. The comments that mention an identity are compared "
        f"with {comparison}, by accuracy, recall, specificity, precision and negative predictive "
        f"value: {n_gaps:,} differences. The list has the differences whose interval excludes 0. "
        f"These intervals are simultaneous: all {n_gaps:,} together hold at {_LEVEL} (Bonferroni)."
    )
    yield ""
    for group, name, gap in significant:
        yield f"- {_describe_gap(group, name, groups[group].shares[name], gap)}"
    if not significant:
        yield "- No interval excludes 0."
    yield ""
    yield (
        f"The other {n_gaps - len(significant):,} are not statistically significant, which does "
        "not prove that they are 0: the sample may be too small. Precision and negative predictive "
        "value also depend on how many comments of a group are toxic: groups can differ in them "
        "even if the classifier errs equally often on each."
    )


def _describe_gap(group: str, name: str, own: MetricValue, gap: MetricValue) -> str:
    assert own.value is not None  # noqa: S101
    assert gap.value is not None  # noqa: S101
    assert gap.low is not None  # noqa: S101
    assert gap.high is not None  # noqa: S101
    error_rate, other_rate = 1 - own.value, 1 - own.value + gap.value
    more, share = ("more", "larger") if gap.value < 0 else ("less", "smaller")
    text = _GAP_SENTENCES[name].format(
        group=escape_markdown(group), side=f"{more} often", share=share
    )
    low, high = sorted((abs(gap.low), abs(gap.high)))
    return (
        f"{text[0].upper()}{text[1:]}: {format_percent(error_rate)} against "
        f"{format_percent(other_rate)}, {100 * abs(gap.value):.1f} points {more} "
        f"[{100 * low:.1f}, {100 * high:.1f}]."
    )


def _describe_left_out(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield (
            f"Classifiers of the same evaluation that are left out of this filing: "
            f"{', '.join(map(escape_invisible, names))}."
        )


def _render_unmeasured(
    classifiers: Sequence[MeasuredClassifier], filing: Filing, unfiled: Sequence[str]
) -> Iterator[str]:
    yield "## What was not measured"
    yield ""
    yield from (f"- {escape_markdown(line)}" for line in _describe_left_out(unfiled))
    for text in filing.not_measured:
        yield f"- {escape_markdown(text)}"
    languages = [*filing.languages.values(), *filter(None, [filing.language])]
    unofficial = [language for language in languages if language not in OFFICIAL_LANGUAGES]
    if unofficial:
        yield (
            f"- {escape_markdown(', '.join(unofficial))}: not among the official languages of the "
            "Union; "
            "measured here, without rows in Part 8."
        )
    if languages:
        missing = [language for language in OFFICIAL_LANGUAGES if language not in languages]
        yield f"- Official languages without a sample: {', '.join(missing) or 'none'}."
    else:
        yield "- Separate languages: the sample does not record the language of its comments."
    for classifier in classifiers[:1]:
        names = classifier.published.report.bias.subgroups
        yield (
            f"- Any identity except {escape_markdown(', '.join(names)) or 'none'}; and the "
            "authors of the "
            "comments: a control group here is the comments that mention an identity."
        )
        for name, recall in filing.recall_of_terms.items():
            if name in names:
                yield f"- {_describe_recall(name, recall)}"
    intersections = all(
        "intersections" in (classifier.published.report.analyses or {})
        for classifier in classifiers
    )
    if not intersections:
        yield "- Intersections of identities."
    yield (
        "- The number of measures or notices processed by automated means: fill these rows of "
        "Part 8 from the service's own records."
    )


def _describe_recall(name: str, recall: Recall) -> str:
    low, high = wilson_interval(recall.found / recall.of, recall.of, _Z)
    return (
        f"Mentions of {escape_markdown(name)} without any of its terms: people found {recall.of:,} "
        f"comments that mention it, and the terms find {recall.found:,} "
        f"({format_percent(recall.found / recall.of)} "
        f"[{format_percent(low)}, {format_percent(high)}])."
    )


def _render_evidence(classifiers: Sequence[MeasuredClassifier]) -> Iterator[str]:
    yield "## Evidence"
    yield ""
    yield "Every number can be recomputed from these files (SHA-256):"
    yield ""
    for classifier in classifiers:
        verdict = classifier.published.verdict
        yield f"- {escape_markdown(classifier.name)}: evidence `{classifier.evidence_digest}`"
        yield f"- {escape_markdown(classifier.name)}: verdict `{classifier.verdict_digest}`"
        yield (
            f"- {escape_markdown(classifier.name)}: labelled comments "
            f"`{verdict.evaluation_set.digest}`"
        )
        yield f"- {escape_markdown(classifier.name)}: policy `{verdict.policy.digest}`"


# ---- All numbers


def collect_numbers(
    classifiers: Sequence[MeasuredClassifier], filing: Filing, unfiled: Sequence[str] = ()
) -> dict[str, JsonValue]:
    """Return the filing, and all numbers from which its rows and texts are made."""
    return {
        "schema_version": 1,
        "filing": filing.model_dump(mode="json", by_alias=True),
        "left_out": list(unfiled),
        "classifiers": {
            classifier.name: {
                "version": classifier.version,
                "evidence_digest": classifier.evidence_digest,
                "verdict_digest": classifier.verdict_digest,
                "n_clusters": classifier.n_clusters,
                "n_missing": classifier.n_missing,
                "n_unrated": classifier.n_unrated,
                "is_weighted": classifier.is_weighted,
                "indicators": classifier.indicators.to_dict(),
                "slices": {name: group.to_dict() for name, group in classifier.slices.items()},
            }
            for classifier in classifiers
        },
    }
